"""SUM and AVG."""

from __future__ import annotations

from rowtide.expr.aggregates.aggregate import (
    Aggregate,
    Calling,
    Compiled,
    is_fixed_with_repeats,
    is_plain,
    is_plain_over,
)
from rowtide.rows.types import BIGINT, DOUBLE, MAX_DECIMAL_PRECISION, Type, decimal

AVG_SCALE = 6
"""The least scale of AVG of exact numbers (docs/sql/semantics.md#numbers)."""


def _sum(argument: Type | None) -> Type | None:
    if argument is not None and argument.is_interval:
        return argument
    if argument is None or not argument.is_numeric:
        return None
    if argument.is_float:
        return DOUBLE
    return BIGINT if argument.is_integer else decimal(MAX_DECIMAL_PRECISION, argument.scale)


def mean_type(argument: Type | None) -> Type | None:
    """Return the type of interpolated values: a DECIMAL with more digits, DOUBLE of floats, that of intervals."""
    if argument is not None and argument.is_interval:
        return argument
    if argument is None or not argument.is_numeric:
        return None
    if argument.is_float:
        return DOUBLE
    return decimal(MAX_DECIMAL_PRECISION, max(AVG_SCALE, argument.scale))


def _sum_of_whole_rows(call: Calling) -> bool:
    of = None if call.argument is None else call.argument.type
    return of is not None and not call.distinct and (of.is_integer or of.is_float or of.is_interval)


def _mean_of_whole_rows(call: Calling) -> bool:
    return call.argument is not None and not call.distinct and call.argument.type.is_float


SUMS = (
    Aggregate(
        "SUM",
        "BIGINT of integers, DECIMAL(38, s) of DECIMAL, DOUBLE of floats, which are added in the order of the rows; "
        "the type of an INTERVAL",
        _sum,
        few_of_rows=True,
        few_of_changes=True,
        can_fail=True,
        finite=True,
        compiled=Compiled(is_plain, _sum_of_whole_rows, is_fixed_with_repeats, is_plain_over),
    ),
    Aggregate(
        "AVG",
        "DECIMAL(38, max(6, s)) of exact numbers, DOUBLE of floats; the type of an INTERVAL, rounded half away "
        "from zero",
        mean_type,
        few_of_rows=True,
        few_of_changes=True,
        can_fail=True,
        finite=True,
        compiled=Compiled(is_plain, _mean_of_whole_rows, is_fixed_with_repeats, is_plain_over),
    ),
)
