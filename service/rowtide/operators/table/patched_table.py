"""An engine table whose changes may leave columns unchanged or move a row to another key (docs/sql/tables.md)."""

from __future__ import annotations

from rowtide.errors import Reason
from rowtide.operators.contract import Fault, OperatorSite
from rowtide.operators.faults import rejected
from rowtide.operators.table.keyed_table_by_row import KeyedTableByRow
from rowtide.plan.nodes import PatchedTable
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray


class PatchedTableOperator(KeyedTableByRow):
    """Puts the row's own values where an INSERT says that they stay; plain Python, row by row.

    An INSERT that has the row before it removes the row of that key, unless another row has the key by now.
    """

    def __init__(self, node: PatchedTable, site: OperatorSite) -> None:
        super().__init__(node, site)
        self._names = node.row_type.names

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out: list[TimedRow] = []
        width = len(self._row_type)
        for timed in tray.rows():
            whole = timed._replace(row=timed.row[:width])
            fault = self._refused(whole)
            if fault is None and timed.opcode == Opcode.INSERT:
                kept, before = timed.row[width], timed.row[width + 1 :]
                fault = self._insert(whole, _numbers(kept), before, out)
            elif fault is None:
                self._change_by_key(whole, out)
            if fault is not None:
                faults.append(fault)
        return Tray.from_rows(self._row_type, out) if out else None

    def _insert(self, timed: TimedRow, kept: list[int], before: Row, out: list[TimedRow]) -> Fault | None:
        """Insert a row, or return why it is rejected; the columns ``kept`` are those of the row before it."""
        key = self._key_of(before)
        moves = None not in key
        old = self._rows.get(key if moves else self._key_of(timed.row))
        if moves and old is not None and not _agree(old.row, before):
            old = None
        known = before if old is None else old.row
        if old is None and any(known[at] is None for at in kept):
            names = ", ".join(f'"{self._names[at]}"' for at in kept)
            message = f"{names}: the message leaves the value as it is, and the table has no row of this key"
            return rejected(self._node.relation, Reason.MISSING_FIELD, message, timed, self._names)
        if moves and old is not None:
            self._change_by_key(timed._replace(opcode=Opcode.DELETE, row=old.row), out)
        values = list(timed.row)
        for at in kept:
            values[at] = known[at]
        self._change_by_key(timed._replace(row=tuple(values)), out)
        return None


def _numbers(kept: object) -> list[int]:
    return [] if kept is None else [int(at) for at in str(kept).split(",")]


def _agree(row: Row, before: Row) -> bool:
    """Return whether a row may be the one that a change knew: NULL says nothing, and values are equal."""
    return all(
        was is None or has is None or has is was or has == was for has, was in zip(row, before, strict=True)
    )
