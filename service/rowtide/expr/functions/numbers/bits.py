"""The bits of integers: & | # << >> ~ and BIT_COUNT, as PostgreSQL has them.

An integer is a two's complement number of the width of its type. & | and # (exclusive or) have the
larger of two types; shifts have the type of the first argument: bits shifted out on the left are
lost, and a shift to the right copies the sign. A shift by less than zero or by the width or more
rejects the row with FUNCTION.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction, mismatch, strict, to_result
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.type_rules import common_type
from rowtide.rows.arrays import Mask
from rowtide.rows.types import INTEGER, INTEGER_BYTES, Type

_BITWISE: dict[str, tuple[Callable[[int, int], int], Any]] = {
    "&": (operator.and_, np.bitwise_and),
    "|": (operator.or_, np.bitwise_or),
    "#": (operator.xor, np.bitwise_xor),
}


def _integers(name: str, count: int, args: Sequence[Type]) -> None:
    if len(args) != count or not all(arg.is_integer for arg in args):
        raise mismatch(name, args, hint="Operators of bits take integers.")


def _bitwise(name: str) -> ScalarFunction:
    row, ufunc = _BITWISE[name]

    def resolve(args: Sequence[Type]) -> Type:
        _integers(name, 2, args)
        return common_type(args)

    def columns(first: Any, second: Any) -> tuple[Any, Mask | None]:
        return ufunc(first, second), None

    return strict(name, resolve, lambda signature: row, lambda signature: columns, to_result)


def _inverted() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        _integers("~", 1, args)
        return args[0]

    def columns(values: Any) -> tuple[Any, Mask | None]:
        return np.invert(values), None

    return strict("~", resolve, lambda signature: operator.inv, lambda signature: columns)


def _width(kind: Type) -> int:
    return 8 * INTEGER_BYTES[kind.kind]


def wrapped(value: int, width: int) -> int:
    """Return the number whose two's complement has the last ``width`` bits of ``value``."""
    half = 1 << (width - 1)
    return ((value + half) & ((1 << width) - 1)) - half


def _shift(name: str) -> ScalarFunction:
    left = name == "<<"

    def resolve(args: Sequence[Type]) -> Type:
        _integers(name, 2, args)
        return args[0]

    def row(signature: CallSignature) -> RowKernel:
        width = _width(signature.result)

        def shift(value: int, count: int) -> int:
            if not 0 <= count < width:
                raise undefined(name, (value, count), f"a shift of {signature.result} is by 0 to {width - 1}")
            return wrapped(value << count, width) if left else value >> count

        return shift

    def columnar(signature: CallSignature) -> ColumnKernel:
        width, dtype = _width(signature.result), signature.result.dtype
        ufunc: Any = np.left_shift if left else np.right_shift

        def shift(values: Any, counts: Any) -> tuple[Any, Mask | None]:
            outside = (counts < 0) | (counts >= width)
            fitting = np.where(outside, 0, counts).astype(dtype, copy=False)
            return ufunc(values, fitting), outside

        return shift

    return strict(name, resolve, row, columnar)


def _bit_count() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        _integers("BIT_COUNT", 1, args)
        return INTEGER

    def row(signature: CallSignature) -> RowKernel:
        ones = (1 << _width(signature.args[0])) - 1
        return lambda value: (value & ones).bit_count()

    def columnar(signature: CallSignature) -> ColumnKernel:
        width = _width(signature.args[0])

        def count(values: Any) -> tuple[Any, Mask | None]:
            bits = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), width // 8)
            return np.unpackbits(bits, axis=1).sum(axis=1).astype(np.int32), None

        return count

    return strict("BIT_COUNT", resolve, row, columnar)


BITS: Sequence[ScalarFunction] = (
    *(_bitwise(name) for name in _BITWISE),
    _inverted(),
    _shift("<<"),
    _shift(">>"),
    _bit_count(),
)
