"""The arguments of functions in Python over the columns of a tray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rowtide.expr.evaluation import ColumnEvaluator, Errors, both, expanded, first_errors
from rowtide.expr.tree import PythonFunction
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column, Indices
from rowtide.rows.tray import Tray


@dataclass(frozen=True, slots=True)
class Arguments:
    """The rows for which a function is called, and its arguments there: a column for each argument.

    ``errors`` are those of the arguments.
    """

    rows: Indices
    columns: Sequence[Column]
    errors: Errors | None


def evaluated(
    of: PythonFunction, args: Sequence[ColumnEvaluator], tray: Tray, active: Mask | None
) -> Arguments:
    """Evaluate the arguments of a function for the rows for which it is called."""
    wanted, errors = active, None
    parts = [arg(tray, active) for arg in args]
    for part in parts:
        errors = first_errors(errors, part.errors)
        if not of.takes_null:
            wanted = both(wanted, part.valid)
    if errors:
        wanted = np.ones(len(tray), dtype=np.bool_) if wanted is None else wanted.copy()
        wanted[list(errors)] = False
    rows = np.arange(len(tray)) if wanted is None else np.flatnonzero(wanted)
    columns = []
    for kind, part in zip(of.takes, parts, strict=True):
        values = part.values if len(part.values) == len(tray) else expanded(part.values, len(tray))
        column = Column(kind, values, part.valid)
        columns.append(column if len(rows) == len(tray) else column.take(rows))
    return Arguments(rows, columns, errors)
