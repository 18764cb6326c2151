"""What is known about calls of aggregates and window functions: which have a compiled form, which need order.

Operators have a compiled form and one that goes row by row; both give the same rows. Which one runs depends
on the plan alone, and EXPLAIN shows it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rowtide.expr.tree import AggregateCall
from rowtide.plan.frames import CURRENT_ROW, EdgeUnit, Frame, WindowCall
from rowtide.rows.types import RowType

_SPREADS = frozenset({"VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"})
_COMMUTATIVE = _SPREADS | {
    *("COUNT", "SUM", "AVG", "MIN", "MAX"),
    *("MEDIAN", "PERCENTILE_CONT", "PERCENTILE_DISC"),
}
_SMALL = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "ANY_VALUE"})
_SMALL_OF_CHANGES = _SPREADS | {"COUNT", "SUM", "AVG"}


def is_commutative(call: AggregateCall) -> bool:
    """Return whether an aggregate gives the same whatever the order of the rows (sums are exact)."""
    return call.function in _COMMUTATIVE


def is_small_of_rows(call: AggregateCall) -> bool:
    """Return whether an aggregate of rows that only come keeps a few values, however many rows there are."""
    return call.function in _SMALL and not call.distinct


def is_small_of_changes(call: AggregateCall) -> bool:
    """Return whether an aggregate of changes does so: a sum can be undone, a maximum cannot."""
    return call.function in _SMALL_OF_CHANGES and not call.distinct


def has_accumulator(call: AggregateCall) -> bool:
    """Return whether an aggregate over groups that only grow runs compiled."""
    of = None if call.argument is None else call.argument.type
    match call.function:
        case "COUNT":
            # Texts are distinguished by their codes, wide decimals by themselves.
            return not call.distinct or of is None or of.is_variable_width or of.dtype != np.dtype(object)
        case "SUM" | "AVG" | "MIN" | "MAX" | "VAR_POP" | "VAR_SAMP" | "STDDEV_POP" | "STDDEV_SAMP":
            return of is not None and of.dtype != np.dtype(object)
        case _:
            return False


MOST_RUNNING_PLACES = 64
"""So many values a partition are kept for NTH_VALUE and LAG by a compiled frame without a start, at most."""


MOST_PARTS = 1 << 20
"""Percentiles of fractions that have a greater denominator go row by row."""


def has_window_kernel(call: WindowCall, frame: Frame) -> bool:
    """Return whether a window's call runs compiled."""
    endless = frame.start.unit is EdgeUnit.UNBOUNDED
    # Text and wide decimals are Python objects: they can be moved and distinguished, but not added or ordered.
    plain = call.argument is not None and call.argument.type.dtype != np.dtype(object)
    match call.function:
        case "COUNT" | "ROW_NUMBER":
            return True
        case "RANK" | "DENSE_RANK":
            return endless and frame.end == CURRENT_ROW
        case "SUM" | "AVG" | "MIN" | "MAX" | "EVERY" | "BOOL_AND" | "BOOL_OR":
            return plain
        case "VAR_POP" | "VAR_SAMP" | "STDDEV_POP" | "STDDEV_SAMP":
            return plain
        case "MEDIAN" | "PERCENTILE_CONT" | "PERCENTILE_DISC":
            # Of zeros with both signs DISTINCT keeps the first one.
            signed = call.distinct and call.argument is not None and call.argument.type.is_float
            few = call.fraction is not None and call.fraction.denominator <= MOST_PARTS
            return plain and few and not signed
        case "FIRST_VALUE" | "LAST_VALUE" | "NTH_VALUE" | "LAG" | "LEAD" | "ANY_VALUE":
            return not endless or call.number <= MOST_RUNNING_PLACES
        case _:
            return False


def has_running_kernel(call: AggregateCall) -> bool:
    """Return whether a compiled aggregate gives its result after every row: one that is no Python object."""
    of = None if call.argument is None else call.argument.type
    match call.function:
        case "COUNT":
            return not call.distinct
        case "SUM" if of is not None:
            return not call.distinct and (of.is_integer or of.is_float)
        case "AVG" if of is not None:
            return not call.distinct and of.is_float
        case "MIN" | "MAX" if of is not None:
            return of.dtype != np.dtype(object) and not of.is_variable_width
        case _:
            return False


def has_retracting_kernel(call: AggregateCall) -> bool:
    """Return whether a compiled aggregate lets values go again: numbers that are no Python objects."""
    of = None if call.argument is None else call.argument.type
    match call.function:
        case "COUNT":
            return not call.distinct
        case "SUM" | "AVG" | "VAR_POP" | "VAR_SAMP" | "STDDEV_POP" | "STDDEV_SAMP":
            plain = not call.distinct
        case "MIN" | "MAX":
            plain = True
        case _:
            plain = False
    return plain and of is not None and of.dtype != np.dtype(object) and not of.is_variable_width


def are_objects(row_type: RowType, fields: Iterable[int]) -> list[bool]:
    """Return of each field whether its values are Python objects, which kernels cannot compare."""
    kinds = [row_type[index].type for index in fields]
    return [kind.dtype == np.dtype(object) and not kind.is_variable_width for kind in kinds]
