"""+ - * / % NEGATE ABS of one integer type: the arguments have the type of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.rejections import division_by_zero, overflow
from rowtide.rows.arrays import Mask
from rowtide.rows.types import Kind

PRODUCT_IN_DOUBT = 9.2e18
"""Less than 2**63 by more than the rounding error of a product of doubles, so smaller products fit an
int64."""

_ROW: dict[str, Callable[..., int]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "/": exact.divided_truncating,
    "%": exact.remainder,
    "NEGATE": int.__neg__,
    "ABS": int.__abs__,
}


def row(signature: CallSignature) -> RowKernel:
    """Return the row function."""
    name, kind = signature.name, signature.result
    low, high = exact.integer_range(kind)
    operation = _ROW[name]
    divides = name in "/%"

    def compute(*args: int) -> int:
        if divides and args[1] == 0:
            raise division_by_zero(name, args)
        result = operation(*args)
        if not low <= result <= high:
            raise overflow(name, args, kind)
        return result

    return compute


def columns(signature: CallSignature) -> ColumnKernel:
    """Return the column function."""
    low, high = exact.integer_range(signature.result)
    match signature.name:
        case "/":
            return _divide(low)
        case "%":
            return _remainder
        case "NEGATE" | "ABS":
            ufunc: Any = np.negative if signature.name == "NEGATE" else np.absolute

            def unary(values: Any) -> tuple[Any, Mask | None]:
                has_lowest = exact.least(values) == low
                return ufunc(values), values == low if has_lowest else None

            return unary
    return _bounded(signature, low, high)


def _bounded(signature: CallSignature, low: int, high: int) -> ColumnKernel:
    """Return + - *: first see from the bounds of the arguments whether anything can overflow at all."""
    ufunc, ends, exactly = _COLUMNS[signature.name]
    kind = signature.result
    is_widest = kind.kind is Kind.BIGINT

    def compute(first: Any, second: Any) -> tuple[Any, Mask | None]:
        reached = ends(*exact.bounds(first), *exact.bounds(second))
        if low <= min(reached) and max(reached) <= high:
            return ufunc(first, second), None
        if is_widest:
            result = ufunc(first, second)
            return result, exactly(first, second, result)
        return exact.settled(ufunc(exact.whole(first), exact.whole(second)), kind)

    return compute


def _sum_wrapped(first: Any, second: Any, total: Any) -> Mask:
    return ((first ^ total) & (second ^ total)) < 0  # type: ignore[no-any-return]


def _difference_wrapped(first: Any, second: Any, total: Any) -> Mask:
    return ((first ^ second) & (first ^ total)) < 0  # type: ignore[no-any-return]


def _product_wrapped(first: Any, second: Any, product: Any) -> Mask:
    del product
    estimate = first.astype(np.float64) * second.astype(np.float64)
    return np.asarray(np.abs(estimate) > PRODUCT_IN_DOUBT)


_COLUMNS: dict[str, tuple[Any, Callable[..., tuple[int, ...]], Callable[..., Mask]]] = {
    "+": (np.add, lambda low1, high1, low2, high2: (low1 + low2, high1 + high2), _sum_wrapped),
    "-": (np.subtract, lambda low1, high1, low2, high2: (low1 - high2, high1 - low2), _difference_wrapped),
    "*": (
        np.multiply,
        lambda low1, high1, low2, high2: (low1 * low2, low1 * high2, high1 * low2, high1 * high2),
        _product_wrapped,
    ),
}


def _divide(low: int) -> ColumnKernel:
    def compute(first: Any, second: Any) -> tuple[Any, Mask | None]:
        second, doubtful = exact.without_zeros(second)
        if exact.least(second) < 0 and exact.least(first) == low:
            doubtful = exact.either(doubtful, (first == low) & (second == -1))
        return exact.truncated(first, second), doubtful

    return compute


def _remainder(first: Any, second: Any) -> tuple[Any, Mask | None]:
    second, zeros = exact.without_zeros(second)
    return exact.rest(first, second), zeros
