"""SUM, AVG and PRODUCT."""

from __future__ import annotations

from typing import Any

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.aggregates.aggregate import (
    Aggregate,
    Calling,
    Compiled,
    Sketch,
    is_fixed_with_repeats,
    is_plain,
    is_plain_over,
    of_sketch,
)
from rowtide.expr.aggregates.variance import double_of_numbers
from rowtide.rows.types import BIGINT, DOUBLE, MAX_DECIMAL_PRECISION, Type, decimal

AVG_SCALE = 6
"""The least scale of AVG of exact numbers (docs/sql/semantics.md#numbers)."""
_LEAST_BITS, _MOST_BITS = -1076, 1025
"""A number with fewer bits before the point is 0 as DOUBLE, and no DOUBLE holds one with more."""
MOST_PRODUCT_BITS = 1 << 20
"""The most bits of an exact product: the time of a row grows with them, to 0.1 ms, and 0.6 ms where one leaves."""


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


class Product:
    """The exact product of finite numbers that come and go: a fraction without its factors 0 and 2.

    So the order of the values changes no bit, and a value that has gone leaves no trace. It keeps about as many bits
    as its values have together, at most ``MOST_PRODUCT_BITS``.
    """

    def __init__(self) -> None:
        self._count = self._zeros = self._twos = 0
        self._above = self._below = 1

    def add(self, value: Any) -> None:
        above, below, twos = _factors(value)
        self._count += 1
        if above:
            self._above *= above
            self._below *= below
            self._twos += twos
        else:
            self._zeros += 1

    def remove(self, value: Any) -> None:
        above, below, twos = _factors(value)
        self._count -= 1
        if above:
            self._above //= above
            self._below //= below
            self._twos -= twos
        else:
            self._zeros -= 1

    def result(self) -> object:
        if not self._count:
            return None
        above, below, twos = self._above, self._below, self._twos
        if above.bit_length() + below.bit_length() > MOST_PRODUCT_BITS:
            raise RejectedRowError(Reason.OVERFLOW, "an aggregate is out of range for its type")
        bits = above.bit_length() - below.bit_length() + twos
        if self._zeros or bits < _LEAST_BITS:
            return 0.0
        if bits > _MOST_BITS:
            return None
        try:
            # Of integers, / rounds once. A zero has no sign.
            return ((above << twos) / below if twos > 0 else above / (below << -twos)) + 0.0
        except OverflowError:
            return None

    def save(self) -> list[Any]:
        return [self._count, self._zeros, self._twos, f"{self._above:x}", f"{self._below:x}"]

    def load(self, saved: list[Any]) -> None:
        self._count, self._zeros, self._twos, above, below = saved
        self._above, self._below = int(above, 16), int(below, 16)


def _factors(value: Any) -> tuple[int, int, int]:
    """Return a number as a fraction of odd integers, and the power of two that it is multiplied by; 0 as 0, 1, 0."""
    above, below = value.as_integer_ratio()
    if not above:
        return 0, 1, 0
    over, under = ((each & -each).bit_length() - 1 for each in (above, below))
    return above >> over, below >> under, over - under


def _product(call: Calling, growing: bool) -> Sketch:
    del call, growing
    return Product()


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
    Aggregate(
        "PRODUCT",
        "DOUBLE: the values multiplied, rounded once; NULL if no DOUBLE holds the product",
        double_of_numbers,
        can_fail=True,
        finite=True,
        of_values=of_sketch(_product),
        sketch=_product,
    ),
)
