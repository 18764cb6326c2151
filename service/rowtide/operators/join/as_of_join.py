"""A stream joined with a table as of the stream row's rowtime.

See docs/sql/semantics.md#joins-of-a-stream-with-a-table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.expr.columnar import ColumnFunction, compile_columns
from rowtide.operators.aggregates.groups.key_groups import KeyGroups, without_nulls
from rowtide.operators.contract import (
    Account,
    Fault,
    OperatorSite,
    State,
    StepOutput,
    Want,
    joined_states,
    loaded_bounds,
    saved_bounds,
)
from rowtide.operators.faults import rejected_rows
from rowtide.operators.merge.ranks import RANK, Ranks
from rowtide.operators.splitting import key_of, parts_of_rows, split_state
from rowtide.operators.storage.growing import grown
from rowtide.operators.storage.row_store import Numbers, RowStore
from rowtide.operators.storage.waiting import TrayQueue
from rowtide.plan.nodes import AsOfJoin, AsOfJoinOn, JoinKind, KeyedTable, Node
from rowtide.rows.deferred import deferred_take
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import COUNTER, ROWTIME, Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound

TABLE, STREAM = 0, 1
"""The ports."""
CLEAN_OVER = 1 << 14
"""Deleted rows are dropped once they are more than this, and more than the rows in the table."""
_NO_FIELDS = RowType(())


class AsOfJoinOperator:
    """Keeps the table as of the stream's current rowtime.

    A stream row waits until the table's bound is past it. A change of the table waits until no
    stream row that must not see it can come.
    """

    def __init__(self, node: AsOfJoin, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._bounds = [NO_BOUND, NO_BOUND]
        self._changes = TrayQueue(node.table.row_type)
        self._waiting = TrayQueue(node.stream.row_type)
        self._image = _Image(node)
        self._ranks = [Ranks(origins) for origins in site.port_origins]

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0 is the table's changelog, port 1 the stream."""
        if tray is not None and len(tray):
            self.account.rows_in += len(tray)
            (self._changes if port == TABLE else self._waiting).append(tray)
            # Rows come in order, so a row is also a bound just before it.
            self._bounds[port] = self._bounds[port].raised(_before(tray, -1))
        self._bounds[port] = self._bounds[port].raised(bound)
        passed = self._bounds[TABLE].rowtime
        ready = self._waiting.take(lambda each: int(np.searchsorted(each.rowtime, passed)))
        reached = self._bounds[STREAM]
        first = self._waiting.first()
        if first is not None:
            # Everything before the first waiting row has left.
            reached = _before(first, 0)
        changes = self._changes.take(
            lambda each: int(np.searchsorted(each.rowtime, reached.rowtime, "right"))
        )
        if ready is None and changes is None:
            return StepOutput(None, reached)
        faults: list[Fault] = []
        out = self._image.run(changes, ready, faults)
        self.account.done += (0 if ready is None else len(ready)) + (0 if changes is None else len(changes))
        if out is None or not len(out):
            return StepOutput(None, reached, faults)
        self.account.rows_out += len(out)
        return StepOutput(out, reached, faults)

    def held(self) -> int:
        """Count the stream rows that wait for the table, and the changes that wait for the stream."""
        return len(self._waiting) + len(self._changes)

    def ahead(self) -> int:
        return self.held()

    def reached(self) -> int:
        return self._bounds[STREAM].rowtime if self._bounds[STREAM].rowtime < LATEST else EARLIEST

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        """Stream rows wait for the table to pass them, changes for the stream."""
        rowtime = self._waiting.contents().rowtime
        if bound is not None:
            before = int(np.searchsorted(rowtime, bound))
            late = [Want(TABLE, int(rowtime[before - 1]) + 1)] if before else []
            return [Want(STREAM, bound), *late]
        if len(rowtime):
            return [Want(TABLE, int(rowtime[0]) + 1)]
        change = self._changes.first()
        return [] if change is None else [Want(STREAM, int(change.rowtime[0]))]

    def snapshot(self) -> State:
        return {
            "account": self.account.to_arrow(),
            "bounds": saved_bounds(self._bounds),
            "image": self._image.rows().to_arrow(),
            "changes": self._ranked(TABLE, self._changes.contents()),
            "waiting": self._ranked(STREAM, self._waiting.contents()),
        }

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        self._bounds = loaded_bounds(state["bounds"])
        table = self._node.table.row_type
        self._image.run(Tray.from_arrow(table, state["image"]), None, [])
        self._changes.append(Tray.from_arrow(table, state["changes"]))
        self._waiting.append(Tray.from_arrow(self._node.stream.row_type, state["waiting"]))

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        """All parts had the same bounds. Waiting rows are sorted by time again."""
        merged = joined_states(states)
        merged["bounds"] = states[0]["bounds"]
        for name in ("changes", "waiting"):
            order = [(column, "ascending") for column in (ROWTIME, RANK, COUNTER)]
            merged[name] = merged[name].sort_by(order)
        return merged

    @staticmethod
    def split(node: Node, state: State, parts: int) -> list[State]:
        table, stream = (each.row_type for each in node.inputs)
        table_key, stream_key = key_of(node)
        by_part = {
            "image": parts_of_rows(table, state["image"], table_key, parts),
            "changes": parts_of_rows(table, state["changes"], table_key, parts),
            "waiting": parts_of_rows(stream, state["waiting"], stream_key, parts),
        }
        return [*split_state(state, by_part, parts)]

    def _ranked(self, port: int, tray: Tray) -> pa.Table:
        """Return rows in Arrow form, with the rank of each in the order of its port."""
        return tray.to_arrow().append_column(RANK, pa.array(self._ranks[port].of(tray.origin)))


def _before(tray: Tray, row: int) -> Bound:
    """Return the bound just before a row."""
    return Bound(int(tray.rowtime[row]), int(tray.origin[row]), int(tray.counter[row]) - 1)


class _Image:
    """The table's rows as of a rowtime, by join key: the data of the kernel."""

    def __init__(self, node: AsOfJoin) -> None:
        self._node = node
        self._table = node.table.row_type
        self._clean_at = CLEAN_OVER
        self._groups = KeyGroups([self._table[index].type for index in node.table_key])
        self._no_changes, self._none_ready = Tray.empty(self._table), Tray.empty(node.stream.row_type)
        # If a join key has at most one row, the key identifies the row of a DELETE.
        one_row = isinstance(node.table, KeyedTable) and node.table.key
        by_key = one_row and set(one_row) <= set(node.table_key)
        self._idents = None if by_key else KeyGroups([field.type for field in self._table])
        self._store = RowStore(self._table)
        self._agrees = compile_columns(node.condition) if isinstance(node, AsOfJoinOn) else None
        self._head, self._tail, self._following, self._ident = (np.zeros(0, dtype=np.int64) for _ in range(4))

    def run(self, changes: Tray | None, ready: Tray | None, faults: list[Fault]) -> Tray | None:
        """Apply ``changes`` and join the rows of ``ready``, in order of time; return the joined rows."""
        from rowtide.operators.join.kernels.joining import CHANGES, PAIRS, ROWS, join_as_of

        changes = self._no_changes if changes is None else changes
        ready = self._none_ready if ready is None else ready
        keys = [changes.columns[index] for index in self._node.table_key]
        change_groups = without_nulls(self._groups.number(keys, len(changes)), keys)
        idents = change_groups
        if self._idents is not None:
            idents = self._idents.number(changes.columns, len(changes))
        wanted = [ready.columns[index] for index in self._node.stream_key]
        stream_groups = without_nulls(self._groups.find(wanted, len(ready)), wanted)
        self._reserve(len(changes))
        progress = np.array([0, 0, 0, self._store.end], dtype=np.int64)
        pairs = _Pairs(len(ready))
        while True:
            join_as_of(
                changes.rowtime,
                changes.opcode,
                change_groups,
                idents,
                ready.rowtime,
                stream_groups,
                self._head,
                self._tail,
                self._following,
                self._ident,
                progress,
                pairs.stream,
                pairs.store,
                self._node.kind is JoinKind.LEFT and self._agrees is None,
            )
            if progress[ROWS] == len(ready) and progress[CHANGES] == len(changes):
                break
            pairs.grow()
        self._store.append(changes.where(changes.opcode == Opcode.INSERT))
        count = int(progress[PAIRS])
        of_stream, of_store = pairs.stream[:count], pairs.store[:count]
        if self._agrees is not None:
            of_stream, of_store = self._agreed(self._agrees, ready, of_stream, of_store, faults)
        out = self._joined(ready, of_stream, of_store) if len(of_stream) else None
        self._clean()
        return out

    def rows(self) -> Tray:
        """Return the rows of the table, in order of arrival."""
        return self._store.take(np.flatnonzero(self._alive()))

    def _reserve(self, changes: int) -> None:
        self._head = grown(self._head, self._groups.count, fill=-1)
        self._tail = grown(self._tail, self._groups.count, fill=-1)
        self._following = grown(self._following, self._store.end + changes, fill=-1)
        self._ident = grown(self._ident, self._store.end + changes, fill=-1)

    def _joined(self, ready: Tray, of_stream: NDArray[np.int64], of_store: NDArray[np.int64]) -> Tray:
        stream, fields = ready, ready.columns
        if len(of_stream) != len(ready) or not (of_stream[1:] > of_stream[:-1]).all():
            stream = ready.with_columns(_NO_FIELDS, ()).take(of_stream)
            fields = tuple(deferred_take(column, of_stream) for column in fields)
        return stream.with_columns(self._node.row_type, (*fields, *self._store.joined(of_store)))

    def _agreed(
        self, agrees: ColumnFunction, ready: Tray, of_stream: Numbers, of_store: Numbers, faults: list[Fault]
    ) -> tuple[Numbers, Numbers]:
        """Return the pairs for which the condition is TRUE; for a LEFT join also the rows without a pair."""
        if len(of_stream):
            joined = self._joined(ready, of_stream, of_store)
            found = agrees(joined)
            agree = found.column.values
            if found.column.valid is not None:
                agree = agree & found.column.valid
            if found.errors is not None:
                agree = agree & ~found.errors.mask(len(joined))
                # Each fault is one of its stream row.
                faults += rejected_rows(self._node.relation, joined, found.errors)
            of_stream, of_store = of_stream[agree], of_store[agree]
        if self._node.kind is JoinKind.LEFT:
            alone = np.ones(len(ready), dtype=np.bool_)
            alone[of_stream] = False
            lonely = np.flatnonzero(alone)
            of_stream = np.concatenate([of_stream, lonely])
            of_store = np.concatenate([of_store, np.full(len(lonely), -1, dtype=np.int64)])
            order = np.argsort(of_stream, kind="stable")
            of_stream, of_store = of_stream[order], of_store[order]
        return of_stream, of_store

    def _alive(self) -> NDArray[np.bool_]:
        from rowtide.operators.join.kernels.joining import live_rows

        alive = np.zeros(self._store.end, dtype=np.bool_)
        live_rows(self._head, self._groups.count, self._following, alive)
        return alive

    def _clean(self) -> None:
        """Copy the live rows if most rows are dead, so that memory follows the table's size."""
        if self._store.end < 2 * self._clean_at:
            return
        alive = self._alive()
        live = int(np.count_nonzero(alive))
        if self._store.end - live > max(CLEAN_OVER, live):
            fresh = _Image(self._node)
            fresh.run(self._store.take(np.flatnonzero(alive)), None, [])
            self.__dict__.update(fresh.__dict__)
        self._clean_at = max(CLEAN_OVER, self._store.end)


class _Pairs:
    """Room for the pairs that the kernel writes."""

    def __init__(self, rows: int) -> None:
        self.stream = np.empty(max(rows, 16), dtype=np.int64)
        self.store = np.empty(max(rows, 16), dtype=np.int64)

    def grow(self) -> None:
        """Double the room."""
        self.stream = np.concatenate([self.stream, np.empty_like(self.stream)])
        self.store = np.concatenate([self.store, np.empty_like(self.store)])
