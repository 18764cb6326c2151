"""Project: compute new fields for each row."""

from __future__ import annotations

from rowtide.expr.columnar import RowErrors, compile_columns
from rowtide.operators.contract import Output, Place
from rowtide.operators.rowwise import RowWise
from rowtide.plan.nodes import Project
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound


class ProjectOperator(RowWise):
    """Passes rows and bounds on; a row for which an expression fails is rejected, by the first that does."""

    def __init__(self, node: Project, _place: Place) -> None:
        super().__init__(node.relation)
        self._row_type = node.row_type
        self._expressions = [compile_columns(expression) for expression in node.expressions]

    def step(self, port: int, tray: Tray | None, bound: Bound) -> Output:
        """See the contract; port 0."""
        if tray is None:
            return Output(None, bound)
        found = [expression(tray) for expression in self._expressions]
        errors = RowErrors.first([each.errors for each in found])
        out = tray.with_columns(self._row_type, [each.column for each in found])
        faults = self._faults(tray, errors)
        if errors is not None:
            out = out.where(~errors.mask(len(tray)))
        self._count(len(tray), len(out), len(faults))
        return Output(out if len(out) else None, bound, faults)
