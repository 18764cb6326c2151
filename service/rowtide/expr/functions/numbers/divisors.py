"""GCD, LCM and FACTORIAL of integers; a result that does not fit its type rejects the row with OVERFLOW."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction, mismatch, strict, to_result
from rowtide.expr.functions.numbers import exact
from rowtide.expr.functions.rejections import overflow, undefined
from rowtide.expr.functions.shapes import no_columns
from rowtide.expr.functions.type_rules import common_type
from rowtide.rows.arrays import Mask
from rowtide.rows.column import scaled
from rowtide.rows.types import Type, decimal

MOST_OF_FACTORIAL = 33
"""33! has 37 digits, 34! has 39."""


def _of_two(name: str, compute: Callable[[int, int], int], ufunc: Any) -> ScalarFunction:
    """Declare a function of two integers whose result is not negative."""

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or not all(arg.is_integer for arg in args):
            raise mismatch(name, args)
        return common_type(args)

    def row(signature: CallSignature) -> RowKernel:
        kind = signature.result
        _, most = exact.integer_range(kind)

        def one(first: int, second: int) -> int:
            result = compute(first, second)
            if result > most:
                raise overflow(name, (first, second), kind)
            return result

        return one

    def columnar(signature: CallSignature) -> ColumnKernel | None:
        low, _ = exact.integer_range(signature.result)
        if ufunc is None:
            return None

        def all_rows(first: Any, second: Any) -> tuple[Any, Mask | None]:
            return ufunc(first, second), (first == low) | (second == low)

        return all_rows

    return strict(name, resolve, row, columnar, to_result)


def _factorial() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 1 or not args[0].is_integer:
            raise mismatch("FACTORIAL", args)
        return decimal(38, 0)

    def row(signature: CallSignature) -> RowKernel:
        def one(number: int) -> object:
            if number < 0:
                raise undefined("FACTORIAL", (number,), "the number is negative")
            if number > MOST_OF_FACTORIAL:
                raise overflow("FACTORIAL", (number,), signature.result)
            return scaled(math.factorial(number), 0)

        return one

    return strict("FACTORIAL", resolve, row, no_columns)


DIVISORS: Sequence[ScalarFunction] = (
    _of_two("GCD", math.gcd, np.gcd),
    # Computed row by row, because a kernel would have to detect which products overflow.
    _of_two("LCM", math.lcm, None),
    _factorial(),
)
