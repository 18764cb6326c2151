"""Properties of calls of aggregates and window functions: which have a compiled form, which need order.

Operators have a compiled form and a row-by-row form, which return the same rows. The plan alone decides
which one runs, and EXPLAIN shows it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rowtide.expr.aggregates import FrameShape, aggregate_of
from rowtide.expr.tree import AggregateCall
from rowtide.plan.frames import CURRENT_ROW, EdgeUnit, Frame, WindowCall
from rowtide.rows.types import RowType


def is_commutative(call: AggregateCall) -> bool:
    """Return whether an aggregate does not depend on the order of the rows (sums are exact)."""
    return not aggregate_of(call).order_matters


def is_small_of_rows(call: AggregateCall) -> bool:
    """Return whether an aggregate of inserted rows keeps only a few values, for any number of rows."""
    return aggregate_of(call).few_of_rows and not call.distinct


def is_small_of_changes(call: AggregateCall) -> bool:
    """Return whether an aggregate of changes keeps few values: a sum can be undone, a maximum cannot."""
    return aggregate_of(call).few_of_changes and not call.distinct


def has_accumulator(call: AggregateCall) -> bool:
    """Return whether an aggregate over groups that only grow runs compiled."""
    return aggregate_of(call).compiled.group(call)


def has_window_kernel(call: WindowCall, frame: Frame) -> bool:
    """Return whether a window's call runs compiled."""
    return aggregate_of(call).compiled.window(call, shape_of(frame))


def has_running_kernel(call: AggregateCall) -> bool:
    """Return whether a compiled aggregate has a result after every row that is not a Python object."""
    return aggregate_of(call).compiled.running(call)


def has_retracting_kernel(call: AggregateCall) -> bool:
    """Return whether a compiled aggregate can remove values: numbers that are not Python objects."""
    return aggregate_of(call).compiled.retracting(call)


def shape_of(frame: Frame) -> FrameShape:
    """Return the shape of a frame for the kernels."""
    endless = frame.start.unit is EdgeUnit.UNBOUNDED
    return FrameShape(endless, running=endless and frame.end == CURRENT_ROW)


def are_objects(row_type: RowType, fields: Iterable[int]) -> list[bool]:
    """Return for each field whether its values are Python objects, which kernels cannot compare."""
    kinds = [row_type[index].type for index in fields]
    return [kind.dtype == np.dtype(object) and not kind.is_variable_width for kind in kinds]
