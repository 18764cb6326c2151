"""Arithmetic (sql-decisions 21): it does not widen, overflow and x / 0 reject the row.

Result types of DECIMAL(p1, s1) and DECIMAL(p2, s2), digits capped at 38: sum and
difference have the larger scale and one digit more, a product s1 + s2, a quotient
max(6, s1 + p2 + 1), reduced to 6 at the least where 38 digits do not hold it.
Quotients that do not come out round half away from zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.functions.declaration import Columnar, Function, Values, as_float, mismatch
from rowtide.expr.functions.typing import INTEGER_RANGE, as_decimal, common_type, numeric_type
from rowtide.rows.column import EXACT, Column, Mask
from rowtide.rows.types import (
    DOUBLE,
    INTEGER,
    INTERVAL_DAY,
    MAX_DECIMAL_PRECISION,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)

DAY_MS = 86_400_000
_SPANS = (Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH)


def checked(value: Any, of: Type) -> object:
    """Give a number as a value of type ``of``.

    Raises:
      RejectedRowError: OVERFLOW, if it is outside the type's range.
    """
    if of.is_float:
        if of.kind is Kind.REAL:
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        if not math.isfinite(value):
            raise RejectedRowError(Reason.OVERFLOW, f"the result is out of the range of {of}")
        return float(value)
    if of.kind is Kind.DECIMAL:
        rounded = Decimal(value).quantize(Decimal(1).scaleb(-of.scale), ROUND_HALF_UP, EXACT)
        if abs(rounded.scaleb(of.scale, EXACT)) >= 10 ** (of.precision or MAX_DECIMAL_PRECISION):
            raise RejectedRowError(Reason.OVERFLOW, f"{value} is out of the range of {of}")
        return rounded + 0
    low, high = INTEGER_RANGE[of.kind] if of.is_integer else INTEGER_RANGE[Kind.BIGINT]
    if not low <= value <= high:
        raise RejectedRowError(Reason.OVERFLOW, f"{value} is out of the range of {of}")
    return value


def _sum_type(types: tuple[Type, ...], name: str) -> Type:
    if len(types) != 2:
        raise mismatch(name, types)
    left, right = types
    number = numeric_type(left, right)
    if number is not None:
        if number.kind is Kind.DECIMAL:
            return decimal(min(MAX_DECIMAL_PRECISION, (number.precision or 0) + 1), number.scale)
        return number
    if left.kind is right.kind and left.kind in _SPANS:
        return left
    moments = (Kind.TIMESTAMP, Kind.DATE, Kind.TIME)
    if left.kind in moments and right.kind in _SPANS:
        if left.kind is Kind.TIME and right.kind is Kind.INTERVAL_MONTH:
            raise mismatch(name, types)
        return left
    if name == "+" and right.kind in moments and left.kind in _SPANS:
        return _sum_type((right, left), name)
    if name == "-" and left.kind is right.kind and left.kind in moments:
        return INTERVAL_DAY
    if name == "-" and {left.kind, right.kind} == {Kind.TIMESTAMP, Kind.DATE}:
        return INTERVAL_DAY
    raise mismatch(name, types)


def _product_type(types: tuple[Type, ...], name: str) -> Type:
    if len(types) != 2:
        raise mismatch(name, types)
    left, right = types
    if left.kind in _SPANS and right.is_numeric:
        return left
    if name == "*" and right.kind in _SPANS and left.is_numeric:
        return right
    number = numeric_type(left, right)
    if number is None:
        raise mismatch(name, types)
    if number.kind is not Kind.DECIMAL:
        return number
    a, b = as_decimal(left), as_decimal(right)
    p1, p2 = a.precision or 0, b.precision or 0
    if name == "*":
        return decimal(min(MAX_DECIMAL_PRECISION, p1 + p2), min(MAX_DECIMAL_PRECISION, a.scale + b.scale))
    if name == "%":
        return number
    scale = max(6, a.scale + p2 + 1)
    digits = p1 - a.scale + b.scale + scale
    if digits > MAX_DECIMAL_PRECISION:
        scale = max(6, scale - (digits - MAX_DECIMAL_PRECISION))
    return decimal(min(MAX_DECIMAL_PRECISION, digits), min(scale, MAX_DECIMAL_PRECISION))


def _moved(moment: int, kind: Type, span: int, of_span: Type, sign: int) -> int:
    """Add an interval to a DATE, TIME or TIMESTAMP; a month too short takes its last day."""
    if of_span.kind is Kind.INTERVAL_DAY:
        if kind.kind is Kind.TIME:
            return (moment + sign * span) % DAY_MS
        if kind.kind is Kind.DATE:
            return moment + sign * (abs(span) // DAY_MS) * (1 if span >= 0 else -1)
        return moment + sign * span
    day, rest = (moment, 0) if kind.kind is Kind.DATE else divmod(moment, DAY_MS)
    at = np.datetime64(day, "D")
    month = at.astype("datetime64[M]") + sign * span
    length = int(((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(np.int64))
    within = int((at - at.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64))
    moved = int(month.astype("datetime64[D]").astype(np.int64)) + min(within, length - 1)
    return moved if kind.kind is Kind.DATE else moved * DAY_MS + rest


def _ms(value: int, kind: Type) -> int:
    return value * DAY_MS if kind.kind is Kind.DATE else value


def _sum(sign: int) -> Callable[[Sequence[Any], tuple[Type, ...], Type], object]:
    def row(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
        (left, right), (a, b) = args, types
        if a.kind in _SPANS and b.kind not in _SPANS and not b.is_numeric:
            (left, right), (a, b) = (right, left), (b, a)
        if b.kind in _SPANS and a.kind not in _SPANS:
            return checked(_moved(left, a, right, b, sign), of if of.is_integer else TIMESTAMP)
        if of == INTERVAL_DAY and a.kind not in _SPANS:
            return checked(_ms(left, a) - _ms(right, b), of)
        if of.is_float:
            return checked(float(left) + sign * float(right), of)
        if of.kind is Kind.DECIMAL:
            return checked(EXACT.add(Decimal(left), sign * Decimal(right)), of)
        return checked(left + sign * right, of)

    return row


def _multiply(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    left, right = args
    if of.is_float:
        return checked(float(left) * float(right), of)
    if of.kind in _SPANS:
        if types[1].kind in _SPANS:
            left, right = right, left
        return checked(_nearest(Decimal(left) * Decimal(right)), of)
    if of.kind is Kind.DECIMAL:
        return checked(EXACT.multiply(Decimal(left), Decimal(right)), of)
    return checked(left * right, of)


def _divide(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    left, right = args
    if right == 0:
        raise RejectedRowError(Reason.DIVISION_BY_ZERO, "division by zero")
    if of.is_float:
        return checked(float(left) / float(right), of)
    if of.kind in _SPANS:
        return checked(_nearest(EXACT.divide(Decimal(left), Decimal(right))), of)
    if of.kind is Kind.DECIMAL:
        return checked(EXACT.divide(Decimal(left), Decimal(right)), of)
    quotient = abs(left) // abs(right)
    return checked(quotient if (left < 0) == (right < 0) else -quotient, of)


def _modulo(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    left, right = args
    if right == 0:
        raise RejectedRowError(Reason.DIVISION_BY_ZERO, "division by zero")
    if of.is_float:
        return checked(math.fmod(left, right), of)
    if of.kind is Kind.DECIMAL:
        return checked(EXACT.remainder(Decimal(left), Decimal(right)), of)
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


def _nearest(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_HALF_UP))


def _same_type(name: str) -> Callable[[tuple[Type, ...]], Type]:
    def resolve(types: tuple[Type, ...]) -> Type:
        if len(types) == 1 and (types[0].is_numeric or types[0].kind in _SPANS):
            return types[0]
        raise mismatch(name, types)

    return resolve


def _sign_type(types: tuple[Type, ...]) -> Type:
    _same_type("SIGN")(types)
    return INTEGER


def _to_double(name: str, count: int = 1) -> Callable[[tuple[Type, ...]], Type]:
    def resolve(types: tuple[Type, ...]) -> Type:
        if len(types) == count and all(kind.is_numeric for kind in types):
            return DOUBLE
        raise mismatch(name, types)

    return resolve


def _real(
    name: str, compute: Callable[..., float]
) -> Callable[[Sequence[Any], tuple[Type, ...], Type], object]:
    def row(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
        try:
            result = compute(*(float(arg) for arg in args))
        except OverflowError:
            raise RejectedRowError(Reason.OVERFLOW, f"the result is out of the range of {of}") from None
        except (ValueError, ZeroDivisionError):
            shown = ", ".join(map(str, args))
            raise RejectedRowError(Reason.FUNCTION, f"{name} is not defined for {shown}") from None
        if isinstance(result, complex):
            shown = ", ".join(map(str, args))
            raise RejectedRowError(Reason.FUNCTION, f"{name} is not defined for {shown}")
        return checked(result, of)

    return row


def _rounding(name: str, rounding: str) -> Function:
    """FLOOR and CEIL of a number, ROUND and TRUNCATE to a number of digits."""
    digits_given = name in ("ROUND", "TRUNCATE")

    def resolve(types: tuple[Type, ...]) -> Type:
        wanted = (1, 2) if digits_given else (1,)
        if len(types) in wanted and types[0].is_numeric and all(kind.is_integer for kind in types[1:]):
            if types[0].kind is Kind.DECIMAL and not digits_given:
                return decimal(types[0].precision or MAX_DECIMAL_PRECISION)
            return types[0]
        raise mismatch(name, types)

    def row(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
        digits = args[1] if len(args) > 1 else 0
        if not -400 <= digits <= 400:
            raise RejectedRowError(Reason.FUNCTION, f"{name} cannot round to {digits} digits")
        exact = Decimal(args[0])
        unit = Decimal(1).scaleb(-digits)
        if exact == 0 or exact.adjusted() + digits > EXACT.prec - 2:
            return args[0]
        rounded = exact.quantize(unit, rounding, EXACT)
        if of.is_float:
            return checked(float(rounded), of)
        return checked(rounded if of.kind is Kind.DECIMAL else int(rounded), of)

    return Function(name, resolve, row)


def _extreme(name: str) -> Function:
    pick: Callable[..., Any] = max if name == "GREATEST" else min

    def resolve(types: tuple[Type, ...]) -> Type:
        if not types or len({kind.kind for kind in types}) > 1:
            raise mismatch(name, types, "Its arguments have one type: write a CAST.")
        return common_type(types)

    return Function(name, resolve, lambda args, types, of: pick(args))


def _fits(values: Values, of: Type) -> Mask | None:
    low, high = INTEGER_RANGE[of.kind]
    failed = (values < low) | (values > high)
    return failed if failed.any() else None


def _fast_sum(sign: int) -> Columnar:
    def columnar(args: Sequence[Column], of: Type) -> tuple[Values, Mask | None] | None:
        left, right = args
        if of.kind is Kind.DOUBLE and not _wide(args):
            with np.errstate(all="ignore"):
                return _finite(as_float(left) + sign * as_float(right))
        plain_moment = of.kind is Kind.TIMESTAMP and all(
            arg.type.kind in (Kind.TIMESTAMP, Kind.INTERVAL_DAY) for arg in args
        )
        same_decimal = of.kind is Kind.DECIMAL and all(
            arg.type.kind is Kind.DECIMAL and arg.type.scale == of.scale for arg in args
        )
        span = of.kind is Kind.INTERVAL_DAY and all(
            arg.type.kind in (Kind.INTERVAL_DAY, Kind.TIMESTAMP) for arg in args
        )
        if not (of.is_integer or plain_moment or span or (same_decimal and of.dtype != object)):
            return None
        if _wide(args):
            return None
        a, b = left.values.astype(np.int64), right.values.astype(np.int64)
        result = a + b if sign > 0 else a - b
        if of.is_integer and of.kind is not Kind.BIGINT:
            return result, _fits(result, of)
        failed = ((a ^ result) & ((b if sign > 0 else ~b) ^ result)) < 0
        return result, failed if failed.any() else None

    return columnar


def _fast_multiply(args: Sequence[Column], of: Type) -> tuple[Values, Mask | None] | None:
    if of.kind is Kind.DOUBLE and not _wide(args):
        with np.errstate(all="ignore"):
            return _finite(as_float(args[0]) * as_float(args[1]))
    if not of.is_integer:
        return None
    a, b = (arg.values.astype(np.int64) for arg in args)
    result = a * b
    if of.kind is not Kind.BIGINT:
        return result, _fits(result, of)
    with np.errstate(all="ignore"):
        back = np.where(a != 0, result // np.where(a == 0, 1, a), b)
    failed = (back != b) | ((a == -1) & (b == INTEGER_RANGE[Kind.BIGINT][0]))
    return result, failed if failed.any() else None


def _fast_divide(args: Sequence[Column], of: Type) -> tuple[Values, Mask | None] | None:
    if of.kind is Kind.DOUBLE and not _wide(args):
        divisor = as_float(args[1])
        with np.errstate(all="ignore"):
            result = as_float(args[0]) / divisor
        return _finite(result)
    if not of.is_integer:
        return None
    a, b = (arg.values.astype(np.int64) for arg in args)
    zero = b == 0
    with np.errstate(all="ignore"):
        divisor = np.where(zero, 1, b)
        quotient = a // divisor
        quotient += (quotient < 0) & (quotient * divisor != a)
    low = INTEGER_RANGE[of.kind][0]
    failed = zero | ((a == low) & (b == -1))
    return quotient, failed if failed.any() else None


def _fast_modulo(args: Sequence[Column], of: Type) -> tuple[Values, Mask | None] | None:
    if not of.is_integer:
        return None
    a, b = (arg.values.astype(np.int64) for arg in args)
    zero = b == 0
    result = np.fmod(a, np.where(zero, 1, b))
    return result, zero if zero.any() else None


def _finite(values: Values) -> tuple[Values, Mask | None]:
    failed = ~np.isfinite(values)
    return values, failed if failed.any() else None


def _wide(args: Sequence[Column]) -> bool:
    return any(arg.type.dtype == object for arg in args)


FUNCTIONS = (
    Function("+", lambda types: _sum_type(types, "+"), _sum(1), _fast_sum(1)),
    Function("-", lambda types: _sum_type(types, "-"), _sum(-1), _fast_sum(-1)),
    Function("*", lambda types: _product_type(types, "*"), _multiply, _fast_multiply),
    Function("/", lambda types: _product_type(types, "/"), _divide, _fast_divide),
    Function("%", lambda types: _product_type(types, "%"), _modulo, _fast_modulo),
    Function("MOD", lambda types: _product_type(types, "%"), _modulo, _fast_modulo),
    Function("ABS", _same_type("ABS"), lambda args, types, of: checked(abs(args[0]), of)),
    Function(
        "SIGN",
        _sign_type,
        lambda args, types, of: (args[0] > 0) - (args[0] < 0),
    ),
    Function("SQRT", _to_double("SQRT"), _real("SQRT", math.sqrt)),
    Function("EXP", _to_double("EXP"), _real("EXP", math.exp)),
    Function("LN", _to_double("LN"), _real("LN", math.log)),
    Function("LOG10", _to_double("LOG10"), _real("LOG10", math.log10)),
    Function("POWER", _to_double("POWER", 2), _real("POWER", lambda base, power: base**power)),
    _rounding("FLOOR", ROUND_FLOOR),
    _rounding("CEIL", ROUND_CEILING),
    _rounding("ROUND", ROUND_HALF_UP),
    _rounding("TRUNCATE", ROUND_DOWN),
    _extreme("GREATEST"),
    _extreme("LEAST"),
)
