"""Filter: keep the rows for which a condition is TRUE."""

from __future__ import annotations

from rowtide.expr.columnar import compile_columns
from rowtide.operators.contract import OperatorSite, StepOutput
from rowtide.operators.faults import rejected_inserts
from rowtide.operators.row_wise.rowwise import RowWise
from rowtide.operators.storage.gathering import rows_where
from rowtide.plan.nodes import Filter, FilterInserts
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound


class FilterOperator(RowWise):
    """Passes rows and bounds on; a row for which the condition fails is rejected.

    A DELETE for which it fails is dropped, like the row that it takes away. FilterInserts passes every DELETE.
    """

    def __init__(self, node: Filter, _site: OperatorSite) -> None:
        super().__init__(node.relation)
        self._condition = compile_columns(node.condition)
        self._passes_deletes = isinstance(node, FilterInserts)

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0."""
        if tray is None:
            return StepOutput(None, bound)
        found = self._condition(tray)
        keep = found.column.values
        if found.column.valid is not None:
            keep = keep & found.column.valid
        if found.errors is not None:
            keep = keep & ~found.errors.mask(len(tray))
        if self._passes_deletes:
            keep = keep | (tray.opcode == Opcode.DELETE)
        faults = rejected_inserts(self._relation, tray, found.errors)
        out = rows_where(tray, keep)
        self._count(len(tray), len(out), len(faults))
        return StepOutput(out if len(out) else None, bound, faults)
