"""+ - * / % NEGATE ABS of exact numbers with a DECIMAL result; the arguments may be integers.

Sums, products and remainders are exact, quotients are rounded half away from
zero to the scale of their type.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.rejections import division_by_zero, overflow
from rowtide.expr.functions.type_rules import digits
from rowtide.rows.arrays import Mask
from rowtide.rows.column import scaled, unscaled
from rowtide.rows.types import MAX_DECIMAL_PRECISION

_ROW: dict[str, Callable[..., int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": exact.divided_half_away,
    "%": exact.remainder,
    "NEGATE": operator.neg,
    "ABS": operator.abs,
}


def units(value: Any, scale: int) -> int:
    """Return an exact number in row form as a whole number of units of 10**-scale."""
    return value if isinstance(value, int) else unscaled(value, scale)


def _places(signature: CallSignature) -> list[int]:
    """Return the powers of ten by which the arguments are multiplied before the operation."""
    scales = [digits(arg)[1] for arg in signature.args]
    match signature.name:
        case "*":
            return [0, 0]
        case "/":
            # dividend / divisor must be in units of the result's scale.
            up = signature.result.scale - scales[0] + scales[1]
            return [max(up, 0), max(-up, 0)]
        case _:
            return [signature.result.scale - scale for scale in scales]


def row(signature: CallSignature) -> RowKernel:
    """Return the row function."""
    name, kind = signature.name, signature.result
    limit = 10 ** digits(kind)[0]
    factors = [(digits(arg)[1], 10**up) for arg, up in zip(signature.args, _places(signature), strict=True)]
    operation = _ROW[name]
    divides = name in "/%"

    def compute(*args: Any) -> object:
        given = [units(arg, scale) * factor for arg, (scale, factor) in zip(args, factors, strict=True)]
        if divides and given[1] == 0:
            raise division_by_zero(name, args)
        result = operation(*given)
        if not -limit < result < limit:
            raise overflow(name, args, kind)
        return scaled(result, kind.scale)

    return compute


def columns(signature: CallSignature) -> ColumnKernel:
    """Return the column function."""
    kind, places = signature.result, _places(signature)
    if signature.name in "/%":
        return _divided(signature)
    operation = _COLUMNS[signature.name]
    # The type rules leave room for every result, unless the precision is capped at 38 digits.
    may_overflow = digits(kind)[0] == MAX_DECIMAL_PRECISION
    dtype = kind.dtype

    def compute(*args: Any) -> tuple[Any, Mask | None]:
        given = [exact.rescaled(arg, up) for arg, up in zip(args, places, strict=True)]
        result = operation(*given)
        if may_overflow:
            return exact.settled(result, kind)
        return result.astype(dtype, copy=False), None

    return compute


def _divided(signature: CallSignature) -> ColumnKernel:
    kind, places = signature.result, _places(signature)
    operation = exact.rounded if signature.name == "/" else exact.rest

    def compute(first: Any, second: Any) -> tuple[Any, Mask | None]:
        second, zeros = exact.without_zeros(exact.rescaled(second, places[1]))
        values, unfit = exact.settled(operation(exact.rescaled(first, places[0]), second), kind)
        return values, exact.either(zeros, unfit)

    return compute


_COLUMNS: dict[str, Callable[..., Any]] = {
    "+": exact.add,
    "-": exact.subtract,
    "*": exact.multiply,
    "NEGATE": np.negative,
    "ABS": np.absolute,
}
