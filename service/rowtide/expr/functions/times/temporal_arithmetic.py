"""+ - * / NEGATE ABS of dates, times and intervals.

| operation                                        | gives                  |
|--------------------------------------------------|------------------------|
| TIMESTAMP +- INTERVAL (either kind)              | TIMESTAMP              |
| DATE +- INTERVAL (either kind)                   | DATE: the day that its midnight is moved into |
| TIME +- INTERVAL day to second                   | TIME, modulo 24 hours  |
| TIMESTAMP - TIMESTAMP, DATE - DATE, TIME - TIME  | INTERVAL day to second |
| INTERVAL +- INTERVAL of the same kind            | that kind              |
| INTERVAL * or / number                           | that kind, rounded half away from zero |

A month is added by the calendar: the same day of the month, or the last one
where the month is shorter. Results outside years 1 to 9999 reject the row with OVERFLOW.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature, mismatch
from rowtide.expr.functions.numbers import exact, floats
from rowtide.expr.functions.numbers.decimals import units
from rowtide.expr.functions.rejections import division_by_zero, overflow
from rowtide.expr.functions.times import civil
from rowtide.expr.functions.type_rules import digits
from rowtide.rows.arrays import Mask
from rowtide.rows.types import (
    BIGINT,
    DATE,
    DOUBLE,
    INTERVAL_DAY,
    INTERVAL_MONTH,
    TIME,
    TIMESTAMP,
    Type,
)

INTERVALS = (INTERVAL_DAY, INTERVAL_MONTH)
_POINTS = (DATE, TIME, TIMESTAMP)
_WIDEST_EXACT_DOUBLE = 2.0**63


def resolve(operator: str, first: Type, second: Type) -> Type:
    """Return the type of ``first operator second``.

    Raises:
      TypeMismatch: the operator does not take these types.
    """
    found = _shifted(operator, first, second) or _interval(operator, first, second)
    if found is None:
        raise mismatch(operator, (first, second))
    return found


def _shifted(operator: str, first: Type, second: Type) -> Type | None:
    """Return the type of a point in time that is moved by an interval."""
    if operator == "+" and first in INTERVALS and second in _POINTS:
        first, second = second, first
    if operator not in ("+", "-") or first not in _POINTS or second not in INTERVALS:
        return None
    if first == TIME:
        return TIME if second == INTERVAL_DAY else None
    return first


def _interval(operator: str, first: Type, second: Type) -> Type | None:
    """Return the type of a resulting interval."""
    if operator == "-" and (first == second == TIME or (first in _DAYS and second in _DAYS)):
        return INTERVAL_DAY
    if operator in ("+", "-") and first == second and first in INTERVALS:
        return first
    if operator in ("*", "/") and first in INTERVALS and second.is_numeric:
        return first
    if operator == "*" and second in INTERVALS and first.is_numeric:
        return second
    return None


_DAYS = (DATE, TIMESTAMP)


def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
    """Bring dates that become timestamps to TIMESTAMP, integers to BIGINT, REAL to DOUBLE."""
    if len(args) == 2 and args[0].is_integer | args[1].is_integer:
        return [BIGINT if arg.is_integer else arg for arg in args]
    if DATE in args and result != DATE:
        return [TIMESTAMP if arg == DATE else arg for arg in args]
    return [DOUBLE if arg.is_float else arg for arg in args]


def row(signature: CallSignature) -> RowKernel:
    """Return the row function."""
    name, kind = signature.name, signature.result
    low, high = civil.RANGES[kind]
    compute = _row(signature)

    def checked(*args: Any) -> int:
        try:
            result: int = compute(*args)
        except OverflowError:
            raise overflow(name, args, kind) from None
        if not low <= result <= high:
            raise overflow(name, args, kind)
        return result

    return checked


def _row(signature: CallSignature) -> Any:
    """Return the row function without its check of the range."""
    name, kind = signature.name, signature.result
    if name == "NEGATE":
        return lambda value: -value
    if name == "ABS":
        return abs
    if name in ("*", "/"):
        return _scaled_row(signature)
    sign = 1 if name == "+" else -1
    if INTERVAL_MONTH in signature.args and kind != INTERVAL_MONTH:
        turned = signature.args[0] == INTERVAL_MONTH
        per_day = civil.DAY_MS if kind == TIMESTAMP else 1

        def months_later(first: int, second: int) -> int:
            point, months = (second, first) if turned else (first, second)
            if abs(months) > civil.MAX_MONTHS:
                raise OverflowError
            day, rest = divmod(point, per_day)
            return civil.months_later(day, sign * months) * per_day + rest

        return months_later
    if kind == TIME:
        return lambda first, second: (first + sign * second) % civil.DAY_MS
    if kind == DATE:
        at = 0 if signature.args[0] == DATE else 1
        return lambda *args: (args[at] * civil.DAY_MS + sign * args[1 - at]) // civil.DAY_MS
    return lambda first, second: first + sign * second


def _scaled_row(signature: CallSignature) -> Any:
    """Return the row function of an interval times or by a number."""
    name = signature.name
    at, of = (0, 1) if signature.args[0] in INTERVALS else (1, 0)
    number = signature.args[of]
    scale = 0 if number == DOUBLE else digits(number)[1]
    unit = 10**scale

    def scaled(*args: Any) -> int:
        length, factor = args[at], args[of]
        if name == "/" and factor == 0:
            raise division_by_zero(name, args)
        if number == DOUBLE:
            result = length * factor if name == "*" else length / factor
            return floats.nearest_whole(result)
        if name == "*":
            return exact.divided_half_away(length * units(factor, scale), unit)
        return exact.divided_half_away(length * unit, units(factor, scale))

    return scaled


def columns(signature: CallSignature) -> ColumnKernel | None:
    """Return the column function."""
    name, kind = signature.name, signature.result
    low, high = civil.RANGES[kind]
    dtype = kind.dtype
    if name in ("*", "/"):
        return _scaled_columns(signature)
    if name in ("NEGATE", "ABS"):
        ufunc: Any = np.negative if name == "NEGATE" else np.absolute
        return lambda values: (ufunc(values), values == low)
    if INTERVAL_MONTH in signature.args and kind != INTERVAL_MONTH:
        return _months_columns(signature)
    operation = exact.add if name == "+" else exact.subtract
    if kind == TIME:

        def around(first: Any, second: Any) -> tuple[Any, Mask | None]:
            total = operation(exact.whole(first), exact.whole(second))
            return (total % civil.DAY_MS).astype(dtype, copy=False), None

        return around

    if kind == DATE:
        scales = (civil.DAY_MS, 1) if signature.args[0] == DATE else (1, civil.DAY_MS)

        def days(first: Any, second: Any) -> tuple[Any, Mask | None]:
            moved = operation(exact.whole(first) * scales[0], exact.whole(second) * scales[1])
            return exact.within(moved // civil.DAY_MS, low, high, dtype)

        return days

    def compute(first: Any, second: Any) -> tuple[Any, Mask | None]:
        return exact.within(operation(exact.whole(first), exact.whole(second)), low, high, dtype)

    return compute


def _months_columns(signature: CallSignature) -> ColumnKernel:
    kind = signature.result
    low, high = civil.RANGES[kind]
    turned = signature.args[0] == INTERVAL_MONTH
    sign = 1 if signature.name == "+" else -1
    per_day = civil.DAY_MS if kind == TIMESTAMP else 1

    def compute(first: Any, second: Any) -> tuple[Any, Mask | None]:
        point, months = (second, first) if turned else (first, second)
        # Points outside the calendar are left to the row function, which takes any year.
        point, strange = exact.within(exact.whole(point), low, high, np.dtype(np.int64))
        months, far = exact.within(months, -civil.MAX_MONTHS, civil.MAX_MONTHS, np.dtype(np.int64))
        day = point // per_day
        moved = civil.days_months_later(day, sign * months) * per_day + (point - day * per_day)
        values, outside = exact.within(moved, low, high, kind.dtype)
        return values, exact.either(exact.either(strange, far), outside)

    return compute


def _scaled_columns(signature: CallSignature) -> ColumnKernel | None:
    name, kind = signature.name, signature.result
    low, high = civil.RANGES[kind]
    at, of = (0, 1) if signature.args[0] in INTERVALS else (1, 0)
    number = signature.args[of]
    if number == DOUBLE:
        return None
    scale = digits(number)[1]

    def compute(*args: Any) -> tuple[Any, Mask | None]:
        length, factor = args[at], exact.whole(args[of])
        if name == "*":
            product = exact.multiply(length, factor)
            zeros = None
            if scale:
                product = exact.rounded(product, np.array([10**scale], dtype=object))
        else:
            factor, zeros = exact.without_zeros(factor)
            product = exact.rounded(exact.rescaled(length, scale), factor)
        values, outside = exact.within(product, low, high, kind.dtype)
        return values, exact.either(zeros, outside)

    return compute
