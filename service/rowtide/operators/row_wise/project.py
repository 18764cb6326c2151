"""Project: compute new fields for each row, and check those declared NOT NULL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rowtide.errors import Reason
from rowtide.expr.columnar import Evaluated, RowErrors, compile_columns
from rowtide.expr.evaluation import RowError
from rowtide.operators.contract import OperatorSite, StepOutput
from rowtide.operators.faults import rejected_inserts
from rowtide.operators.row_wise.rowwise import RowWise
from rowtide.plan.nodes import Project, ProjectKeys
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound


class ProjectOperator(RowWise):
    """Passes rows and bounds on.

    The first expression that fails rejects the row; a DELETE is dropped like the row that it takes away. A row
    with NULL in a NOT NULL field is rejected, too; a DELETE needs only its key and is not checked. A row for
    which a key of ProjectKeys fails has a fault, and continues with NULL there.
    """

    def __init__(self, node: Project, _site: OperatorSite) -> None:
        super().__init__(node.relation)
        self._row_type = node.row_type
        self._keys = node.keys if isinstance(node, ProjectKeys) else ()
        self._expressions = [compile_columns(expression) for expression in node.expressions]

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0."""
        if tray is None:
            return StepOutput(None, bound)
        found = [expression(tray) for expression in self._expressions]
        failed = [each.errors for at, each in enumerate(found) if at not in self._keys]
        errors = RowErrors.first([*failed, self._missing(tray, found)])
        out = tray.with_columns(self._row_type, [each.column for each in found])
        rejected = 0
        if errors is not None:
            dropped = errors.mask(len(tray))
            rejected = int(np.count_nonzero(dropped & (tray.opcode != Opcode.DELETE)))
            out = out.where(~dropped)
        self._count(len(tray), len(out), rejected)
        reported = RowErrors.first([errors, *(found[at].errors for at in self._keys)])
        faults = rejected_inserts(self._relation, tray, reported)
        return StepOutput(out if len(out) else None, bound, faults)

    def _missing(self, tray: Tray, found: Sequence[Evaluated]) -> RowErrors | None:
        """Return the rows with NULL in a field that is NOT NULL."""
        wrong: dict[int, RowError] = {}
        for field, each in zip(self._row_type, found, strict=True):
            if not field.nullable and each.column.valid is not None:
                error = RowError(Reason.CONSTRAINT, f'column "{field.name}" is NOT NULL')
                rows = np.flatnonzero(~each.column.valid & (tray.opcode != Opcode.DELETE))
                wrong = dict.fromkeys(rows.tolist(), error) | wrong
        return RowErrors(wrong) if wrong else None
