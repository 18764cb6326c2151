"""MEDIAN and percentiles (the value at a fraction of the order, or interpolated), and MAD."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.aggregates.aggregate import (
    Aggregate,
    Calling,
    CallingOver,
    Compiled,
    FrameShape,
    is_plain,
    is_plain_or_text,
    of_argument,
)
from rowtide.expr.aggregates.sum import mean_type
from rowtide.expr.aggregates.variance import double_of_numbers
from rowtide.rows.column import scaled
from rowtide.rows.types import MAX_DECIMAL_PRECISION, Type

HALF = Fraction(1, 2)
MOST_PARTS = 1 << 20
"""Percentiles over windows of fractions that have a greater denominator go row by row."""
MOST_PARTS_OF_GROUPS = 1 << 62
"""Percentiles of groups of fractions whose denominator is not below this go row by row."""


def between(ordered: Sequence[Any], fraction: Fraction, kind: Type) -> object:
    """Return the value at ``fraction`` of the way through sorted values, between two if need be.

    Raises:
      RejectedRowError: the type does not hold it.
    """
    exact = exactly_between(ordered, fraction)
    if kind.is_float:
        return float(exact)
    units = int(abs(exact) * 10**kind.scale + Fraction(1, 2))
    if kind.is_interval:
        return -units if exact < 0 else units
    if units >= 10**MAX_DECIMAL_PRECISION:
        raise RejectedRowError(Reason.OVERFLOW, "an aggregate leaves the range of its type")
    return scaled(-units if exact < 0 else units, kind.scale)


def exactly_between(ordered: Sequence[Any], fraction: Fraction) -> Fraction:
    """Return the exact value at ``fraction``."""
    place = fraction * (len(ordered) - 1)
    low, part = Fraction(ordered[int(place)]), place - int(place)
    high = Fraction(ordered[min(int(place) + 1, len(ordered) - 1)])
    return low + (high - low) * part


def one_at(ordered: Sequence[Any], fraction: Fraction) -> object:
    """Return the first of sorted values with at least ``fraction`` of all up to it."""
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


def _continuous(call: Calling, values: Sequence[Any]) -> object:
    return between(values, call.fraction or Fraction(0), call.type)


def _discrete(call: Calling, values: Sequence[Any]) -> object:
    return one_at(values, call.fraction or Fraction(0))


def _deviation(call: Calling, values: Sequence[Any]) -> object:
    """Return the median of the distances to the median; never more than the greatest value."""
    del call
    middle = exactly_between(values, HALF)
    return float(exactly_between(sorted(abs(Fraction(value) - middle) for value in values), HALF))


def _is_exact(call: Calling) -> bool:
    """Return whether columns have room for the parts of the fraction."""
    return call.fraction is not None and call.fraction.denominator < MOST_PARTS_OF_GROUPS


def _between_in_groups(call: Calling) -> bool:
    return is_plain(call) and _is_exact(call)


def _one_in_groups(call: Calling) -> bool:
    return is_plain_or_text(call) and _is_exact(call)


def _over(call: CallingOver, frame: FrameShape) -> bool:
    """DISTINCT keeps the first of two zeros with different signs."""
    del frame
    signed = call.distinct and call.argument is not None and call.argument.type.is_float
    few = call.fraction is not None and call.fraction.denominator <= MOST_PARTS
    return is_plain(call) and few and not signed


PERCENTILES = (
    Aggregate(
        "MEDIAN",
        "the type of AVG: the middle value, or the mean of the two middle values",
        mean_type,
        fraction=HALF,
        can_fail=True,
        between=True,
        finite=True,
        compiled=Compiled(group=_between_in_groups, window=_over),
        of_values=_continuous,
        ascending=True,
    ),
    Aggregate(
        "PERCENTILE_CONT",
        "the type of AVG: interpolated between two values",
        mean_type,
        written=("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)",),
        takes_fraction=True,
        can_fail=True,
        between=True,
        finite=True,
        compiled=Compiled(group=_between_in_groups, window=_over),
        of_values=_continuous,
        ascending=True,
    ),
    Aggregate(
        "PERCENTILE_DISC",
        "the type of `x`: one of the values. `ORDER BY x DESC` counts from the greatest, here and in PERCENTILE_CONT",
        of_argument,
        written=("PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY x)",),
        takes_fraction=True,
        compiled=Compiled(group=_one_in_groups, window=_over),
        of_values=_discrete,
        ascending=True,
    ),
    Aggregate(
        "MAD",
        "DOUBLE: the median absolute deviation, which is the median of the distances to the median",
        double_of_numbers,
        finite=True,
        of_values=_deviation,
        ascending=True,
    ),
)
