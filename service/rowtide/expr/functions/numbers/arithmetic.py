"""The arithmetic operators; the module of each family computes them.

See docs/sql/semantics.md#numbers.

Results do not widen and do not wrap: a result out of range for its type rejects the row with
OVERFLOW, also a float that would become infinite. Division of integers truncates towards zero, a
remainder has the sign of the dividend. x / 0 and x % 0 reject the row with DIVISION_BY_ZERO, for
floats too, but NULL / 0 is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction, mismatch, strict
from rowtide.expr.functions.numbers import decimals, floats, integers
from rowtide.expr.functions.times import temporal_arithmetic
from rowtide.expr.functions.type_rules import arithmetic_type
from rowtide.rows.types import Type

_Kernels = tuple[Callable[[CallSignature], RowKernel], Callable[[CallSignature], ColumnKernel | None]]


def _family(kind: Type) -> _Kernels:
    """Return the makers of the row and column functions for results of ``kind``."""
    if kind.is_integer:
        return integers.row, integers.columns
    if kind.is_float:
        return floats.row, floats.columns
    if kind.is_numeric:
        return decimals.row, decimals.columns
    return temporal_arithmetic.row, temporal_arithmetic.columns


def _row(signature: CallSignature) -> RowKernel:
    return _family(signature.result)[0](signature)


def _columns(signature: CallSignature) -> ColumnKernel | None:
    return _family(signature.result)[1](signature)


def _operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
    if result.is_integer or result.is_float:
        return [result] * len(args)
    return args if result.is_numeric else temporal_arithmetic.operands(args, result)


def _binary(operator: str) -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2:
            raise mismatch(operator, args)
        first, second = args
        if first.is_numeric and second.is_numeric:
            return arithmetic_type(operator, first, second)
        return temporal_arithmetic.resolve(operator, first, second)

    return strict(operator, resolve, _row, _columns, _operands)


def _unary(name: str) -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 1 or not (args[0].is_numeric or args[0] in temporal_arithmetic.INTERVALS):
            raise mismatch(name, args, hint="It takes a number.")
        return args[0]

    return strict(name, resolve, _row, _columns, _operands)


ARITHMETIC: Sequence[ScalarFunction] = (
    *(_binary(operator) for operator in ("+", "-", "*", "/", "%")),
    _unary("NEGATE"),
    _unary("ABS"),
)
