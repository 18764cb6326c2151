"""An engine table whose changes may leave columns of a row unchanged, row by row (docs/sql/tables.md)."""

from __future__ import annotations

from rowtide.errors import Reason
from rowtide.operators.contract import Fault, OperatorSite
from rowtide.operators.faults import rejected
from rowtide.operators.table.keyed_table_by_row import KeyedTableByRow
from rowtide.plan.nodes import PatchedTable
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray


class PatchedTableOperator(KeyedTableByRow):
    """Puts the row's own values where an INSERT says that they stay; plain Python, row by row."""

    def __init__(self, node: PatchedTable, place: OperatorSite) -> None:
        super().__init__(node, place)
        self._names = node.row_type.names

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        out: list[TimedRow] = []
        for timed in tray.rows():
            *values, kept = timed.row
            whole = timed._replace(row=tuple(values))
            fault = self._refused(whole)
            if fault is None and kept is not None and timed.opcode == Opcode.INSERT:
                patched = self._patched(whole, [int(at) for at in str(kept).split(",")])
                if isinstance(patched, Fault):
                    fault = patched
                else:
                    whole = patched
            if fault is not None:
                faults.append(fault)
            else:
                self._change_by_key(whole, out)
        return Tray.from_rows(self._row_type, out) if out else None

    def _patched(self, timed: TimedRow, kept: list[int]) -> TimedRow | Fault:
        """Return a row with what stays of the row of its key, or the fault that there is none."""
        old = self._rows.get(self._key_of(timed.row))
        if old is None:
            names = ", ".join(f'"{self._names[at]}"' for at in kept)
            message = f"{names}: the message leaves the value as it is, and the table has no row of this key"
            return rejected(self._node.relation, Reason.MISSING_FIELD, message, timed, self._names)
        values = list(timed.row)
        for at in kept:
            values[at] = old.row[at]
        return timed._replace(row=tuple(values))
