"""The faults of late and rejected rows. Each has its row, with the names of its fields."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from rowtide.errors import Reason
from rowtide.expr.columnar import RowErrors
from rowtide.operators.aggregates.row_functions import overflow
from rowtide.operators.contract import Fault
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray

Names = tuple[str, ...]


def late_row(relation: str, row: TimedRow, least: int, names: Names) -> Fault:
    """Return the fault of a row below ``least`` (ms), the least rowtime that would have been accepted."""
    message = f"{least - row.rowtime} ms below the rowtime bound"
    return Fault(relation, Reason.LATE, message, row.rowtime, row.origin, row.counter, row.row, least, names)


def rejected(relation: str, reason: Reason, message: str, row: TimedRow, names: Names) -> Fault:
    """Return the fault of a row that an operator cannot take."""
    return Fault(relation, reason, message, row.rowtime, row.origin, row.counter, row.row, names=names)


def rejected_rows(relation: str, tray: Tray, errors: RowErrors | None) -> list[Fault]:
    """Return the faults of the rows of a tray for which an expression failed."""
    if errors is None:
        return []
    names = tray.row_type.names
    return [
        rejected(relation, error.reason, error.message, row, names)
        for error, row in zip(errors, tray.take(errors.rows).rows(), strict=True)
    ]


def rejected_inserts(relation: str, tray: Tray, errors: RowErrors | None) -> list[Fault]:
    """Return the faults of the rows that come in and for which an expression failed.

    A DELETE for which it fails takes away a row for which it failed: that row had its fault, and never came out.
    """
    came = None if errors is None else errors.where(tray.opcode != Opcode.DELETE)
    return rejected_rows(relation, tray, came)


def overflowing(relation: str, row: TimedRow, names: Names) -> Fault:
    """Return the fault of a row that makes an aggregate overflow its type."""
    error = overflow()
    return rejected(relation, error.reason, error.message, row, names)


def overflows(relation: str, tray: Tray, rows: NDArray[np.int64]) -> list[Fault]:
    """Return the faults of the rows of a tray that make an aggregate overflow its type."""
    if not len(rows):
        return []
    return [overflowing(relation, row, tray.row_type.names) for row in tray.take(rows).rows()]


def in_input_order(faults: Sequence[Fault]) -> list[Fault]:
    """Return faults in the order of their input rows within each origin (docs/sql/semantics.md#error-rows).

    The order of origins does not change. Call it on all faults of one commit, so that the order
    does not depend on how the rows were cut into trays.
    """
    by_origin: dict[int, list[Fault]] = {}
    for fault in faults:
        by_origin.setdefault(fault.origin, []).append(fault)
    turns = {origin: iter(sorted(held, key=attrgetter("counter"))) for origin, held in by_origin.items()}
    return [next(turns[fault.origin]) for fault in faults]
