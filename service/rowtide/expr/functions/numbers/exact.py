"""Exact numbers in columns: int64 arrays where every value fits, else arrays of Python ints.

Column forms of integers and DECIMALs are whole numbers of some unit. The
functions here compute with them in int64 when the bounds of the arguments show
that nothing can overflow, and with Python ints otherwise, so their answers are
always exact; only ``settled`` depends on the precision of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rowtide.expr.functions.type_rules import digits
from rowtide.rows.arrays import Mask
from rowtide.rows.types import INTEGER_BYTES, Type

Whole = Any
"""An array of whole numbers: int64, or object with Python ints."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT64_DIGITS = 18
"""10**18 is the largest power of ten in an int64."""


def integer_range(kind: Type) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    bits = 8 * INTEGER_BYTES[kind.kind]
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def bounds(values: Whole) -> tuple[int, int]:
    """Return the least and the greatest value, (0, 0) of none."""
    if not len(values):
        return 0, 0
    return int(values.min()), int(values.max())


def least(values: Whole) -> int:
    """Return the least value, 0 of none."""
    return int(values.min()) if len(values) else 0


def in_int64(low: int, high: int) -> bool:
    """Return whether an int64 holds everything from ``low`` to ``high``."""
    return low >= INT64_MIN and high <= INT64_MAX


def whole(values: Any) -> Whole:
    """Return a column's values as int64, or unchanged if they are Python ints."""
    return values if values.dtype == object else values.astype(np.int64, copy=False)


def rescaled(values: Any, places: int) -> Whole:
    """Return ``values`` times 10**places; ``places`` is not negative."""
    values = whole(values)
    if places == 0:
        return values
    factor = 10**places
    if values.dtype != object:
        low, high = bounds(values)
        if factor <= INT64_MAX and in_int64(low * factor, high * factor):
            return values * np.int64(factor)
        values = values.astype(object)
    return values * factor


def aligned(first: Any, first_type: Type, second: Any, second_type: Type) -> tuple[Whole, Whole]:
    """Bring two columns of exact types to the larger scale."""
    scale1, scale2 = digits(first_type)[1], digits(second_type)[1]
    scale = max(scale1, scale2)
    return rescaled(first, scale - scale1), rescaled(second, scale - scale2)


def _any_object(first: Whole, second: Whole) -> bool:
    return object in (first.dtype, second.dtype)


def add(first: Whole, second: Whole) -> Whole:
    """Return the sums."""
    if not _any_object(first, second):
        (low1, high1), (low2, high2) = bounds(first), bounds(second)
        if not in_int64(low1 + low2, high1 + high2):
            first = first.astype(object)
    return first + second


def subtract(first: Whole, second: Whole) -> Whole:
    """Return the differences."""
    if not _any_object(first, second):
        (low1, high1), (low2, high2) = bounds(first), bounds(second)
        if not in_int64(low1 - high2, high1 - low2):
            first = first.astype(object)
    return first - second


def multiply(first: Whole, second: Whole) -> Whole:
    """Return the products."""
    if not _any_object(first, second):
        ends = [a * b for a in bounds(first) for b in bounds(second)]
        if not in_int64(min(ends), max(ends)):
            first = first.astype(object)
    return first * second


def truncated(first: Whole, second: Whole) -> Whole:
    """Return the quotients, rounded towards zero; ``second`` has no zero.

    The least number of an integer type divided by -1 is itself.
    """
    quotient = first // second
    if least(second) > 0 and least(first) >= 0:
        return quotient
    inexact = quotient * second != first
    return quotient + (inexact & ((first < 0) != (second < 0)))


def rounded(first: Whole, second: Whole) -> Whole:
    """Return the quotients, rounded half away from zero; ``second`` has no zero."""
    if INT64_MIN in (least(first), least(second)):
        first, second = first.astype(object), second.astype(object)
    dividend, divisor = np.abs(first), np.abs(second)
    quotient = dividend // divisor
    rest = dividend - quotient * divisor
    quotient = quotient + (rest >= divisor - rest)
    return np.where((first < 0) != (second < 0), -quotient, quotient)


def rest(first: Whole, second: Whole) -> Whole:
    """Return the remainders, which have the sign of ``first``; ``second`` has no zero."""
    return first - truncated(first, second) * second


def within(values: Whole, low: int, high: int, dtype: np.dtype[Any]) -> tuple[Whole, Mask | None]:
    """Return ``values`` as ``dtype``, and the rows below ``low`` or above ``high``, which become zero."""
    if values.dtype == np.int64 and not (low > INT64_MIN or high < INT64_MAX):
        return values.astype(dtype, copy=False), None
    lowest, highest = bounds(values)
    outside = None
    if lowest < low or highest > high:
        outside = np.asarray((values < low) | (values > high), dtype=np.bool_)
        values = np.where(outside, 0, values)
    return values.astype(dtype, copy=False), outside


def exact_range(kind: Type) -> tuple[int, int]:
    """Return the least and the greatest value of an exact type, in units of its scale."""
    if kind.is_integer:
        return integer_range(kind)
    high = int(10 ** digits(kind)[0]) - 1
    return -high, high


def settled(values: Whole, kind: Type) -> tuple[Whole, Mask | None]:
    """Return ``values`` as a column of the exact type ``kind`` holds them, and the rows that do not fit."""
    low, high = exact_range(kind)
    return within(values, low, high, kind.dtype)


def divided_half_away(dividend: int, divisor: int) -> int:
    """Divide two Python ints, rounding half away from zero; the divisor is not zero."""
    quotient, rest = divmod(abs(dividend), abs(divisor))
    if 2 * rest >= abs(divisor):
        quotient += 1
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def divided_truncating(dividend: int, divisor: int) -> int:
    """Divide two Python ints towards zero; the divisor is not zero."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def remainder(dividend: int, divisor: int) -> int:
    """Return what ``divided_truncating`` leaves: it has the sign of the dividend."""
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


def without_zeros(divisor: Any) -> tuple[Any, Mask | None]:
    """Return a divisor with ones for zeros, and where the zeros were."""
    zeros = divisor == 0
    if not zeros.any():
        return divisor, None
    return np.where(zeros, 1, divisor).astype(divisor.dtype, copy=False), np.asarray(zeros, dtype=np.bool_)


def either(first: Mask | None, second: Mask | None) -> Mask | None:
    """Return the rows in one of two masks; None is none."""
    if first is None:
        return second
    return first if second is None else first | second
