"""Two tables joined: the changes of the result, row by row, in plain Python.

It is the reference of the compiled form, and runs for wide decimals, and for a further condition of an outer
join or one that can fail (``TableJoin.form``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from rowtide.errors import RejectedRowError
from rowtide.expr.rowwise import compile_row
from rowtide.operators.at_once import AtOnce
from rowtide.operators.contract import Account, Fault, OperatorSite, State
from rowtide.operators.faults import rejected
from rowtide.operators.table.refused import RefusedRows
from rowtide.plan.nodes import TableJoin
from rowtide.plan.nodes.join.table_join import LEFT, PREFIXES
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray


class _Group:
    """The rows of both sides with one key, each with the number of its copies and of its matches."""

    __slots__ = ("matches", "rows")

    def __init__(self) -> None:
        self.rows: tuple[dict[Row, int], dict[Row, int]] = ({}, {})
        self.matches: tuple[dict[Row, int], dict[Row, int]] = ({}, {})


class TableJoinByRow(AtOnce):
    """Plain Python. No row waits: the merge below has put the changes of both sides in order."""

    def __init__(self, node: TableJoin, _site: OperatorSite) -> None:
        super().__init__()
        self._node = node
        self._condition = None if node.condition is None else compile_row(node.condition)
        self._split = 1 + node.keys + node.left
        width = len(node.input.row_type)
        self._missing: tuple[Row, Row] = ((None,) * node.left, (None,) * (width - self._split))
        self._keeps = (node.kind.keeps_left, node.kind.keeps_right)
        self._groups: dict[Row, _Group] = {}
        self._refused = RefusedRows()

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out: list[TimedRow] = []
        for timed in tray.rows():
            self._change(timed, out, faults)
        return Tray.from_rows(self._node.row_type, out) if out else None

    def snapshot(self) -> State:
        """``rows`` has a row for each row of both sides."""
        return {
            "account": self.account.to_arrow(),
            "rows": self._tray(self._held_rows()),
            "refused": self._tray(iter(self._refused)),
        }

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        kind = self._node.input.row_type
        for timed in Tray.from_arrow(kind, state["rows"]).rows():
            key, side, row = self._parts(timed.row)
            self._apply(self._groups.setdefault(key, _Group()), side, row, 1, self._matched(key, side, row))
        self._refused = RefusedRows(timed.row for timed in Tray.from_arrow(kind, state["refused"]).rows())

    # --------------------------------------------------------------- inside

    def _parts(self, tagged: Row) -> tuple[Row, int, Row]:
        """Return key, side and row of a tagged row."""
        side = 0 if tagged[0] == LEFT else 1
        row = tagged[self._split :] if side else tagged[1 + self._node.keys : self._split]
        return tagged[1 : 1 + self._node.keys], side, row

    def _change(self, timed: TimedRow, out: list[TimedRow], faults: list[Fault]) -> None:
        """Apply one change and emit the changes of the result."""
        if timed.opcode == Opcode.NOP:
            return
        leaves = timed.opcode == Opcode.DELETE
        if leaves and self._refused.take(timed.row):
            return
        key, side, row = self._parts(timed.row)
        if leaves and not self._is_there(key, side, row):
            return
        try:
            matched = self._matched(key, side, row)
        except RejectedRowError as error:
            if not leaves:
                self._refused.add(timed.row)
            faults.append(self._fault(error, timed))
            return
        group = self._groups.setdefault(key, _Group())
        if leaves:
            self._tell_pairs(timed, Opcode.DELETE, side, row, matched, out)
        if self._keeps[side] and not matched:
            out.append(timed._replace(row=self._joined(side, row, self._missing[1 - side])))
        self._apply(group, side, row, -1 if leaves else 1, matched)
        if self._keeps[1 - side]:
            self._tell_unmatched(timed, group, side, matched, out)
        if not leaves:
            self._tell_pairs(timed, Opcode.INSERT, side, row, matched, out)
        if not group.rows[0] and not group.rows[1]:
            del self._groups[key]

    def _tell_pairs(
        self,
        timed: TimedRow,
        opcode: Opcode,
        side: int,
        row: Row,
        matched: Sequence[tuple[Row, int]],
        out: list[TimedRow],
    ) -> None:
        for other, copies in matched:
            pair = timed._replace(opcode=opcode, row=self._joined(side, row, other))
            out.extend([pair] * copies)

    def _tell_unmatched(
        self,
        timed: TimedRow,
        group: _Group,
        side: int,
        matched: Sequence[tuple[Row, int]],
        out: list[TimedRow],
    ) -> None:
        """Emit the rows of the other side that have just found their first match, or lost their last one."""
        leaves = timed.opcode == Opcode.DELETE
        for other, copies in matched:
            if group.matches[1 - side][other] == (0 if leaves else 1):
                alone = self._joined(side, self._missing[side], other)
                opcode = Opcode.INSERT if leaves else Opcode.DELETE
                out.extend([timed._replace(opcode=opcode, row=alone)] * copies)

    def _is_there(self, key: Row, side: int, row: Row) -> bool:
        group = self._groups.get(key)
        return group is not None and row in group.rows[side]

    def _matched(self, key: Row, side: int, row: Row) -> list[tuple[Row, int]]:
        """Return the rows of the other side that match, in the order in which they came, and their numbers.

        Raises:
          RejectedRowError: the condition fails for one of them.
        """
        group = self._groups.get(key)
        if group is None or None in key:
            return []
        others = list(group.rows[1 - side].items())
        condition = self._condition
        if condition is None:
            return others
        # A table's row has no rowtime: the condition reads none.
        return [each for each in others if condition(self._joined(side, row, each[0]), 0) is True]

    def _apply(self, group: _Group, side: int, row: Row, by: int, matched: Sequence[tuple[Row, int]]) -> None:
        """Count an added (1) or removed (-1) copy of a row, and the matches on both sides."""
        rows, matches = group.rows[side], group.matches[side]
        rows[row] = rows.get(row, 0) + by
        matches[row] = sum(copies for _, copies in matched)
        if not rows[row]:
            del rows[row], matches[row]
        for other, _ in matched:
            group.matches[1 - side][other] += by

    def _joined(self, side: int, row: Row, other: Row) -> Row:
        return other + row if side else row + other

    def _held_rows(self) -> Iterator[Row]:
        for key, group in self._groups.items():
            for side in (0, 1):
                for row, copies in group.rows[side].items():
                    parts = (row, self._missing[1]) if side == 0 else (self._missing[0], row)
                    for _ in range(copies):
                        yield (side, *key, *parts[0], *parts[1])

    def _tray(self, rows: Iterator[Row]) -> pa.Table:
        timed = [TimedRow(0, 0, 0, Opcode.INSERT, row) for row in rows]
        return Tray.from_rows(self._node.input.row_type, timed).to_arrow()

    def _fault(self, error: RejectedRowError, timed: TimedRow) -> Fault:
        _, side, row = self._parts(timed.row)
        prefix = PREFIXES[side]
        mine = [name for name in self._node.input.row_type.names if name.startswith(prefix)]
        names = tuple(name.removeprefix(prefix) for name in mine)
        return rejected(self._node.relation, error.reason, error.message, timed._replace(row=row), names)
