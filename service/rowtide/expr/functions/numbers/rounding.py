"""FLOOR, CEIL, ROUND, TRUNCATE, SIGN and WIDTH_BUCKET of numbers.

FLOOR and CEIL return whole numbers: DECIMAL(p - s + 1, 0) of a DECIMAL(p, s). ROUND rounds half away
from zero and may need one more digit, so it returns DECIMAL(p + 1, s); TRUNCATE rounds towards zero.
Both take the number of decimal places to keep, negative for tens and hundreds. At a number of digits
a float is rounded from the shortest decimal that reads back as that float, as CAST to DECIMAL does:
ROUND(2.675e0, 2) is 2.68.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction, mismatch, strict
from rowtide.expr.functions.numbers import exact, floats
from rowtide.expr.functions.numbers.decimals import units
from rowtide.expr.functions.rejections import overflow, undefined
from rowtide.expr.functions.type_rules import digits
from rowtide.rows.arrays import Mask
from rowtide.rows.column import scaled
from rowtide.rows.types import INTEGER, MAX_DECIMAL_PRECISION, Kind, Type, decimal

_MOST_DIGITS = 2 * MAX_DECIMAL_PRECISION
"""Rounding at more digits than this changes nothing; at fewer than its negative, the result is 0."""
_WHOLE_DOUBLES = 2.0**52
"""Doubles from here on have no fractional part."""
_EXACT_POWER_OF_TEN = 22
"""10**22 is the largest power of ten that a double holds exactly."""
_MOST_FLOAT_DIGITS = 400
"""Rounding a float at more digits than this changes nothing; at fewer than its negative, the result is 0."""

Divide = Callable[[Any, Any], Any]

_TAKEN = "It takes a number; FLOOR(x TO HOUR) and DATE_TRUNC('hour', x) round times."


def _floor(dividend: Any, divisor: Any) -> Any:
    return dividend // divisor


def _ceil(dividend: Any, divisor: Any) -> Any:
    return -(-dividend // divisor)


_ROW: dict[str, Divide] = {
    "FLOOR": _floor,
    "CEIL": _ceil,
    "ROUND": exact.divided_half_away,
    "TRUNCATE": exact.divided_truncating,
}
_COLUMNS: dict[str, Divide] = {
    "FLOOR": _floor,
    "CEIL": _ceil,
    "ROUND": exact.rounded,
    "TRUNCATE": exact.truncated,
}
_FLOATS: dict[str, Any] = {
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "ROUND": floats.nearest_wholes,
    "TRUNCATE": np.trunc,
}


def _rounding(name: str, *, takes_digits: bool) -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        counts = (1, 2) if takes_digits else (1,)
        fits = len(args) in counts and args[0].is_numeric and all(arg.is_integer for arg in args[1:])
        if not fits:
            raise mismatch(name, args, hint=_TAKEN)
        kind = args[0]
        if kind.kind is not Kind.DECIMAL:
            return kind
        precision, scale = digits(kind)
        if name == "ROUND":
            return decimal(min(precision + 1, MAX_DECIMAL_PRECISION), scale)
        if takes_digits or not scale:
            return kind
        return decimal(precision - scale + 1)

    return strict(name, resolve, _row, _columns)


def _row(signature: CallSignature) -> RowKernel:
    name, source, kind = signature.name, signature.args[0], signature.result
    if kind.is_float:
        return _float_row(signature)
    low, high = exact.exact_range(kind)
    divide, scale = _ROW[name], digits(source)[1]
    is_decimal = kind.kind is Kind.DECIMAL
    to_whole = name in ("FLOOR", "CEIL")

    def compute(value: Any, kept: int = 0) -> object:
        dropped = scale - max(-_MOST_DIGITS, min(kept, scale))
        unit = 10**dropped
        result = divide(units(value, scale), unit)
        if not to_whole:
            result *= unit
        if not low <= result <= high:
            raise overflow(name, (value, kept) if kept else (value,), kind)
        return scaled(result, kind.scale) if is_decimal else result

    return compute


def _columns(signature: CallSignature) -> ColumnKernel | None:
    name, source, kind = signature.name, signature.args[0], signature.result
    kept = signature.constants[1] if len(signature.args) == 2 else 0
    if not isinstance(kept, int):
        return None
    if kind.is_float:
        return lambda values, *rest: _round_floats(name, values, kept)
    scale, to_whole = digits(source)[1], name in ("FLOOR", "CEIL")
    dropped = scale - max(-_MOST_DIGITS, min(kept, scale))
    divide, unit = _COLUMNS[name], 10**dropped

    def compute(values: Any, *rest: Any) -> tuple[Any, Mask | None]:
        del rest
        values = exact.whole(values)
        if not dropped:
            return exact.settled(values, kind)
        if dropped > exact.INT64_DIGITS:
            values = values.astype(object)
        result = divide(values, np.array([unit], dtype=values.dtype))
        if not to_whole:
            result = exact.multiply(result, np.array([unit], dtype=object))
        return exact.settled(result, kind)

    return compute


def _float_row(signature: CallSignature) -> RowKernel:
    name, source, kind = signature.name, signature.args[0], signature.result
    round_whole = _FLOATS[name]
    divide = _ROW[name]

    def compute(value: float, kept: int = 0) -> float:
        if not kept:
            whole: float = round_whole(np.float64(value)).item()
            return whole
        if not isfinite(value):
            return value
        digits, power = floats.shortest(value, source)
        dropped = -power - max(-_MOST_FLOAT_DIGITS, min(kept, _MOST_FLOAT_DIGITS))
        if dropped <= 0:
            # Zero has no sign where digits are counted.
            return value + 0.0
        result = float(f"{divide(digits, 10**dropped)}e{power + dropped}")
        if not isfinite(result):
            raise overflow(name, (value, kept), kind)
        return floats.single(result) if kind.kind is Kind.REAL else result

    return compute


def _round_floats(name: str, values: Any, kept: int) -> tuple[Any, Mask | None]:
    """Round a column of floats; also return the rows where only the shortest decimals decide."""
    round_whole = _FLOATS[name]
    if kept == 0:
        return round_whole(values), None
    if abs(kept) > _EXACT_POWER_OF_TEN:
        return values, np.ones(len(values), dtype=np.bool_)
    power = float(10 ** abs(kept))
    wide = values.astype(np.float64)
    moved = wide * power if kept > 0 else wide / power
    whole = round_whole(moved)
    back = (whole / power if kept > 0 else whole * power) + 0.0
    rest = np.abs(moved - whole)
    edge = np.abs(rest - 0.5) if name == "ROUND" else np.minimum(rest, 1.0 - rest)
    certain = edge > floats.decimal_error(values, power if kept > 0 else 1.0 / power)
    certain &= np.abs(moved) < _WHOLE_DOUBLES
    finite = np.isfinite(values)
    with np.errstate(over="ignore"):
        found = np.where(finite, back, wide).astype(values.dtype, copy=False)
    doubtful = ~certain & finite
    return found, doubtful if doubtful.any() else None


def _sign() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 1 or not args[0].is_numeric:
            raise mismatch("SIGN", args, hint=_TAKEN)
        return INTEGER

    def row(value: Any) -> int:
        return int(value > 0) - int(value < 0)

    def columns(values: Any) -> tuple[Any, Mask | None]:
        return (values > 0).astype(np.int32) - (values < 0).astype(np.int32), None

    return strict("SIGN", resolve, lambda signature: row, lambda signature: columns)


def _width_bucket() -> ScalarFunction:
    """Declare WIDTH_BUCKET(x, from, to, count): which of equal parts has ``x``, 0 and count + 1 beyond."""
    name = "WIDTH_BUCKET"

    def resolve(args: Sequence[Type]) -> Type:
        fits = len(args) == 4 and all(arg.is_numeric for arg in args) and args[3].is_integer
        if not fits:
            raise mismatch(name, args, hint=_TAKEN)
        return INTEGER

    def row(value: Any, start: Any, end: Any, count: int) -> int:
        given = (value, start, end, count)
        if not all(map(isfinite, given)):
            raise undefined(name, given, "a number is infinite or NaN")
        if not 0 < count < 2**31 - 1 or start == end:
            raise undefined(name, given, "the range has no buckets")
        first, width = Fraction(start), Fraction(end) - Fraction(start)
        place = (Fraction(value) - first) * count // width
        return int(max(-1, min(place, count))) + 1

    return strict(name, resolve, lambda signature: row, lambda signature: None)


ROUNDING: Sequence[ScalarFunction] = (
    _rounding("FLOOR", takes_digits=False),
    _rounding("CEIL", takes_digits=False),
    _rounding("ROUND", takes_digits=True),
    _rounding("TRUNCATE", takes_digits=True),
    _sign(),
    _width_bucket(),
)
