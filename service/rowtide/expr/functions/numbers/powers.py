"""SQRT, EXP, LN, LOG, LOG2, LOG10, POWER, sines and angles: of numbers of any type, always DOUBLE.

Their last bits depend on the implementation, so rows and columns call the same NumPy functions on
contiguous arrays. If a function is undefined for its arguments, the row is rejected with FUNCTION; if
the result is out of range for DOUBLE, with OVERFLOW.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction, mismatch, strict
from rowtide.expr.functions.numbers import exact, floats
from rowtide.expr.functions.rejections import overflow, undefined
from rowtide.rows.arrays import Mask
from rowtide.rows.types import DOUBLE, Type

Domain = Callable[..., Any]
"""Returns the rows in which a function is undefined."""


def _operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
    return [result] * len(args)


def _function(name: str, ufunc: Any, count: int, outside: Domain, why: str) -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != count or not all(arg.is_numeric for arg in args):
            raise mismatch(name, args, hint=f"It takes {'a number' if count == 1 else f'{count} numbers'}.")
        return DOUBLE

    def compute(*args: Any) -> tuple[Any, Mask, Mask | None]:
        # Contiguous: for other arrays NumPy may use another implementation.
        given = [np.ascontiguousarray(each) for each in np.broadcast_arrays(*args)]
        values = ufunc(*given)
        return values, outside(*given), floats.doubtful(values, *given)

    def row(signature: CallSignature) -> RowKernel:
        kind = signature.result

        def one(*args: float) -> float:
            with np.errstate(all="ignore"):
                values, undefined_rows, infinite = compute(*(np.array([arg]) for arg in args))
            if undefined_rows[0]:
                raise undefined(name, args, why)
            if infinite is not None and infinite[0]:
                raise overflow(name, args, kind)
            return float(values[0])

        return one

    def columnar(signature: CallSignature) -> ColumnKernel:
        del signature

        def all_rows(*args: Any) -> tuple[Any, Mask | None]:
            values, undefined_rows, infinite = compute(*args)
            return values, exact.either(undefined_rows, infinite)

        return all_rows

    return strict(name, resolve, row, columnar, _operands)


def _no_power(base: Any, exponent: Any) -> Any:
    fractional = np.isfinite(exponent) & (exponent != np.trunc(exponent))
    return ((base == 0) & (exponent < 0)) | ((base < 0) & fractional)


def _everywhere(*values: Any) -> Any:
    """Return no row: the function is defined for every finite number."""
    return np.zeros(len(values[0]), dtype=np.bool_)


def _infinite(value: Any) -> Any:
    return np.isinf(value)


def _beyond_one(value: Any) -> Any:
    return np.abs(value) > 1


def _no_cotangent(value: Any) -> Any:
    return np.isinf(value) | (value == 0)


def _no_base(base: Any, value: Any) -> Any:
    known = ~(np.isnan(base) | np.isnan(value))
    return known & ((base <= 0) | (base == 1) | (value <= 0))


def _log(base: Any, value: Any) -> Any:
    """Return logarithms; for bases 2 and 10 as LOG2 and LOG10 do, which are exact for whole powers."""
    found = np.log(value) / np.log(base)
    for known, log in ((2, np.log2), (10, np.log10)):
        at = base == known
        if at.any():
            found = np.where(at, log(value), found)
    return found


POWERS: Sequence[ScalarFunction] = (
    _function("LOG", _log, 2, _no_base, "the base is above zero and not 1, the number above zero"),
    _function("SINH", np.sinh, 1, _everywhere, ""),
    _function("COSH", np.cosh, 1, _everywhere, ""),
    _function("TANH", np.tanh, 1, _everywhere, ""),
    _function("ASINH", np.arcsinh, 1, _everywhere, ""),
    _function("ACOSH", np.arccosh, 1, lambda value: value < 1, "the number is below 1"),
    _function("ATANH", np.arctanh, 1, lambda value: np.abs(value) >= 1, "the number is not between -1 and 1"),
    _function("COT", lambda value: 1 / np.tan(value), 1, _no_cotangent, "the angle is 0 or infinite"),
    _function("SQRT", np.sqrt, 1, lambda value: value < 0, "the number is negative"),
    _function("EXP", np.exp, 1, _everywhere, ""),
    _function("CBRT", np.cbrt, 1, _everywhere, ""),
    _function("LOG2", np.log2, 1, lambda value: value <= 0, "the number is not above zero"),
    _function("SIN", np.sin, 1, _infinite, "the angle is infinite"),
    _function("COS", np.cos, 1, _infinite, "the angle is infinite"),
    _function("TAN", np.tan, 1, _infinite, "the angle is infinite"),
    _function("ASIN", np.arcsin, 1, _beyond_one, "the number is not between -1 and 1"),
    _function("ACOS", np.arccos, 1, _beyond_one, "the number is not between -1 and 1"),
    _function("ATAN", np.arctan, 1, _everywhere, ""),
    _function("ATAN2", np.arctan2, 2, _everywhere, ""),
    _function("DEGREES", np.degrees, 1, _everywhere, ""),
    _function("RADIANS", np.radians, 1, _everywhere, ""),
    _function("LN", np.log, 1, lambda value: value <= 0, "the number is not above zero"),
    _function("LOG10", np.log10, 1, lambda value: value <= 0, "the number is not above zero"),
    _function(
        "POWER",
        np.power,
        2,
        _no_power,
        "zero has no negative powers, a negative number only whole ones",
    ),
)
