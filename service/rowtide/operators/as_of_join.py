"""A stream joined with a table as of the stream row's rowtime (sql-decisions 17)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pyarrow as pa

from rowtide.operators.contract import Account, Output, Place, State
from rowtide.operators.ranks import RANK, Ranks
from rowtide.operators.row_keys import key_getter
from rowtide.plan.nodes import AsOfJoin, JoinKind
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import COUNTER, ROWTIME, Tray
from rowtide.rowtime.bound import NO_BOUND, Bound

TABLE, STREAM = 0, 1
"""The ports."""


class AsOfJoinOperator:
    """Keeps the table as of the rowtime that the stream has reached; plain Python, row by row.

    A stream row waits until the table's bound is past it; a change of the table waits until no
    stream row can come that must not see it.
    """

    def __init__(self, node: AsOfJoin, place: Place) -> None:
        self.account = Account()
        self._node = node
        self._table_key = key_getter(node.table_key)
        self._stream_key = key_getter(node.stream_key)
        self._unmatched: Row = (None,) * len(node.table.row_type)
        self._image: dict[Row, list[TimedRow]] = {}
        self._changes: deque[TimedRow] = deque()
        self._waiting: deque[TimedRow] = deque()
        self._bounds = [NO_BOUND, NO_BOUND]
        self._ranks = [Ranks(origins) for origins in place.port_origins]

    def step(self, port: int, tray: Tray | None, bound: Bound) -> Output:
        """See the contract; port 0 is the table's changelog, port 1 the stream."""
        if tray is not None and len(tray):
            self.account.rows_in += len(tray)
            rows = self._changes if port == TABLE else self._waiting
            rows.extend(tray.rows())
            # Rows come in order: one promises as much as a bound that stands just before it.
            last = rows[-1]
            before = Bound(last.rowtime, last.origin, last.counter - 1)
            self._bounds[port] = self._bounds[port].raised(before)
        self._bounds[port] = self._bounds[port].raised(bound)
        out: list[TimedRow] = []
        while self._waiting and self._waiting[0].rowtime < self._bounds[TABLE].rowtime:
            timed = self._waiting.popleft()
            self._apply(timed.rowtime)
            self._join(timed, out)
            self.account.done += 1
        reached = self._bounds[STREAM]
        if self._waiting:
            # What has left is all that stands before the first row that waits.
            first = self._waiting[0]
            reached = Bound(first.rowtime, first.origin, first.counter - 1)
        self._apply(reached.rowtime)
        self.account.rows_out += len(out)
        return Output(Tray.from_rows(self._node.row_type, out) if out else None, reached)

    def held(self) -> int:
        """Count the stream rows that wait for the table, and the changes that wait for the stream."""
        return len(self._waiting) + len(self._changes)

    def snapshot(self) -> State:
        """See the contract."""
        table, stream = self._node.table.row_type, self._node.stream.row_type
        image = [timed for rows in self._image.values() for timed in rows]
        return {
            "account": self.account.to_arrow(),
            "bounds": pa.table(
                {
                    "rowtime": [bound.rowtime for bound in self._bounds],
                    "origin": [bound.origin for bound in self._bounds],
                    "counter": [bound.counter for bound in self._bounds],
                }
            ),
            "image": Tray.from_rows(table, image).to_arrow(),
            "changes": self._ranked(TABLE, Tray.from_rows(table, self._changes)),
            "waiting": self._ranked(STREAM, Tray.from_rows(stream, self._waiting)),
        }

    def restore(self, state: State) -> None:
        """See the contract."""
        table, stream = self._node.table.row_type, self._node.stream.row_type
        self.account = Account.from_arrow(state["account"])
        self._bounds = [
            Bound(row["rowtime"], row["origin"], row["counter"]) for row in state["bounds"].to_pylist()
        ]
        for timed in Tray.from_arrow(table, state["image"]).rows():
            self._image.setdefault(self._table_key(timed.row), []).append(timed)
        self._changes.extend(Tray.from_arrow(table, state["changes"]).rows())
        self._waiting.extend(Tray.from_arrow(stream, state["waiting"]).rows())

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        """See the contract: all parts saw the same bounds; what waits is put in order of time again."""
        merged = {name: pa.concat_tables([state[name] for state in states]) for name in states[0]}
        merged["bounds"] = states[0]["bounds"]
        for name in ("changes", "waiting"):
            order = [(column, "ascending") for column in (ROWTIME, RANK, COUNTER)]
            merged[name] = merged[name].sort_by(order)
        return merged

    def _ranked(self, port: int, tray: Tray) -> pa.Table:
        """Give rows in Arrow form, with the rank of each in the order of its port."""
        return tray.to_arrow().append_column(RANK, pa.array(self._ranks[port].of(tray.origin)))

    def _apply(self, rowtime: int) -> None:
        """Bring the image up to ``rowtime``, changes of that millisecond included."""
        while self._changes and self._changes[0].rowtime <= rowtime:
            change = self._changes.popleft()
            self.account.done += 1
            key = self._table_key(change.row)
            if None in key or change.opcode == Opcode.NOP:
                continue
            rows = self._image.setdefault(key, [])
            if change.opcode == Opcode.INSERT:
                rows.append(change)
            else:
                position = next((at for at, row in enumerate(rows) if row.row == change.row), None)
                if position is not None:
                    del rows[position]
                if not rows:
                    del self._image[key]

    def _join(self, timed: TimedRow, out: list[TimedRow]) -> None:
        key = self._stream_key(timed.row)
        matches = self._image.get(key, ()) if None not in key else ()
        for match in matches:
            out.append(timed._replace(row=timed.row + match.row))
        if not matches and self._node.kind is JoinKind.LEFT:
            out.append(timed._replace(row=timed.row + self._unmatched))
