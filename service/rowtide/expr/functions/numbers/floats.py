"""+ - * / % NEGATE ABS of REAL or DOUBLE: the arguments have the type of the result.

A result is infinite or NaN only if an argument is; otherwise an infinite result rejects the row with
OVERFLOW. REAL is computed as DOUBLE and rounded once, which for these operations has the same bits as
single-precision arithmetic.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.rejections import division_by_zero, overflow
from rowtide.rows.arrays import Mask
from rowtide.rows.types import Kind, Type

_SINGLE = struct.Struct("<f")


def single(value: float) -> float:
    """Round to the nearest REAL.

    Raises:
      OverflowError: ``value`` is finite and too large.
    """
    rounded: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    return rounded


def finite(name: str, kind: Type, operation: Callable[..., float]) -> RowKernel:
    """Make the row function of a float operation that is infinite or NaN only if an argument is."""
    is_single = kind.kind is Kind.REAL

    def compute(*args: float) -> float:
        try:
            result = operation(*args)
            if is_single:
                result = single(result)
        except OverflowError:
            raise overflow(name, args, kind) from None
        if result - result != 0.0 and all(map(math.isfinite, args)):
            raise overflow(name, args, kind)
        return result

    return compute


def doubtful(result: Any, *args: Any) -> Mask | None:
    """Return the rows in which the arguments are finite and the result is infinite or NaN."""
    fine: Mask = np.isfinite(result)
    if fine.all():
        return None
    rows = ~fine
    for arg in args:
        rows = rows & np.isfinite(arg)
    return rows


def _remainder(first: float, second: float) -> float:
    return math.nan if math.isinf(first) else math.fmod(first, second)


_ROW: dict[str, Callable[..., float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": _remainder,
    "NEGATE": operator.neg,
    "ABS": operator.abs,
}
_COLUMNS: dict[str, Any] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "NEGATE": np.negative,
    "ABS": np.absolute,
}


def row(signature: CallSignature) -> RowKernel:
    """Return the row function."""
    name = signature.name
    kernel = finite(name, signature.result, _ROW[name])
    if name not in "/%":
        return kernel

    def divide(first: float, second: float) -> object:
        if second == 0:
            raise division_by_zero(name, (first, second))
        return kernel(first, second)

    return divide


def columns(signature: CallSignature) -> ColumnKernel:
    """Return the column function."""
    ufunc = _COLUMNS[signature.name]
    if signature.name in "/%":

        def divide(first: Any, second: Any) -> tuple[Any, Mask | None]:
            second, zeros = exact.without_zeros(second)
            values = ufunc(first, second)
            return values, exact.either(zeros, doubtful(values, first, second))

        return divide

    def compute(*args: Any) -> tuple[Any, Mask | None]:
        values = ufunc(*args)
        return values, doubtful(values, *args)

    return compute


def shortest(value: float, kind: Type) -> tuple[int, int]:
    """Return the shortest decimal that reads back as ``value``, a finite float: digits and power of ten.

    CAST to text writes the same digits.
    """
    text = str(np.float32(value)) if kind.kind is Kind.REAL else repr(value)
    number = Decimal(text).as_tuple()
    digits = int("".join(map(str, number.digits)))
    return -digits if number.sign else digits, int(number.exponent)


def decimal_error(values: Any, factor: float) -> Any:
    """Return how far ``values * factor`` in DOUBLE may be from the same product of the shortest decimals."""
    return 2 * np.spacing(np.abs(values)).astype(np.float64) * factor


def nearest_whole(value: float) -> int:
    """Round half away from zero.

    Raises:
      OverflowError: ``value`` is infinite or NaN.
    """
    if value - value != 0.0:
        raise OverflowError
    whole = math.trunc(value)
    # Exact: a double with a fractional part is less than 2**53.
    if abs(value - whole) >= 0.5:
        whole += 1 if value > 0 else -1
    return whole


def nearest_wholes(values: Any) -> Any:
    """Return ``nearest_whole`` for a column, as floats; infinite and NaN stay."""
    whole = np.trunc(values)
    with np.errstate(invalid="ignore"):
        return whole + np.where(np.abs(values - whole) >= 0.5, np.copysign(1.0, values), 0.0)
