"""Pairs of values for aggregates of two arguments: $BY(x, y), $NUMBERS(y, x) and $VALUE(pair).

A pair is a binary string. The pair of $BY begins with a form of ``y`` that has the order of ``y``, NaN before all
others; then follows ``x``, which may be NULL. The planner writes these calls, SQL has no name for them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from rowtide.expr.evaluation import (
    ColumnEvaluator,
    Errors,
    EvaluatedPart,
    RowEvaluator,
    RowKernel,
    expanded,
    first_errors,
)
from rowtide.expr.functions.function import CallSignature, ScalarFunction, as_given, mismatch, strict
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import no_columns
from rowtide.rows.arrays import Mask
from rowtide.rows.arrays_as_text import array_text
from rowtide.rows.column import Column, arrow_type, unscaled
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import DOUBLE, Kind, Type

PAIR = Type(Kind.VARBINARY)
"""The type of a pair of $BY."""
NUMBER_PAIR = Type(Kind.VARBINARY, 16)
"""The type of a pair of $NUMBERS."""
_LENGTH = struct.Struct(">I")
_DOUBLES = struct.Struct(">dd")
_WHOLE_BYTES = 17
"""The bytes that 38 digits and a sign need."""
_ZERO = 1 << (8 * _WHOLE_BYTES - 1)


def ordered_bytes(kind: Type, value: object) -> bytes:
    """Return bytes that are ordered as the values of a type are; none for NaN."""
    match value:
        case str():
            return b"\1" + value.encode()
        case bytes():
            return b"\1" + value
        case float():
            if math.isnan(value):
                return b""
            bits = int.from_bytes(struct.pack(">d", value + 0.0), signed=True)
            whole = bits if bits >= 0 else -(bits & (2**63 - 1))
        case Decimal():
            whole = unscaled(value, kind.scale)
        case int():
            whole = value
        case _:
            raise TypeError(f"{kind} has no order")
    return b"\1" + (whole + _ZERO).to_bytes(_WHOLE_BYTES)


def key_of(pair: bytes) -> bytes:
    """Return the sort key of a pair of $BY; it is empty for NaN."""
    length = int.from_bytes(pair[: _LENGTH.size])
    return pair[_LENGTH.size : _LENGTH.size + length]


def held_of(pair: bytes) -> bytes | None:
    """Return the value of a pair of $BY or $ORDERED as bytes; None for NULL."""
    held = pair[_LENGTH.size + int.from_bytes(pair[: _LENGTH.size]) :]
    return held[1:] if held else None


def numbers_of(pair: bytes) -> tuple[float, float]:
    """Return the numbers of a pair of $NUMBERS."""
    first, second = _DOUBLES.unpack(pair)
    return first, second


def by(kind: Type, value: object, by_kind: Type, by_value: object) -> bytes:
    """Return the pair of a value, or None, and its sort key."""
    key = ordered_bytes(by_kind, by_value)
    if value is None:
        return as_pair(key, None)
    match value:
        case str():
            held = value.encode()
        case bytes():
            held = value
        case float():
            held = struct.pack(">d", value)
        case tuple():
            held = array_text(kind).text(value).encode()
        case _:
            held = ("1" if value is True else str(value)).encode()
    return as_pair(key, held)


def as_pair(key: bytes, held: bytes | None) -> bytes:
    """Return the pair of a sort key and a value; None for NULL."""
    return _LENGTH.pack(len(key)) + key + (b"" if held is None else b"\1" + held)


def numbers(first: float, second: float) -> bytes:
    """Return the pair of two numbers."""
    return _DOUBLES.pack(first, second)


def _value_of(kind: Type, pair: bytes) -> object:
    """Return the value of a pair of $BY, which is of type ``kind``."""
    held = held_of(pair)
    if held is None:
        return None
    if kind.is_binary:
        return held
    if kind.is_float:
        return float(struct.unpack(">d", held)[0])
    text = held.decode()
    if kind.is_string:
        return text
    if kind.kind is Kind.ARRAY:
        return array_text(kind).values(text)
    if kind.kind is Kind.DECIMAL:
        return Decimal(text)
    return text == "1" if kind.kind is Kind.BOOLEAN else int(text)


def _by() -> ScalarFunction:
    """Declare $BY(x, y): NULL where ``y`` is NULL."""

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2:
            raise mismatch("$BY", args)
        return PAIR

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        (kind, by_kind), (value, by_value) = signature.args, args

        def pair(row: Row, rowtime: int) -> object:
            held, key = value(row, rowtime), by_value(row, rowtime)
            return None if key is None else by(kind, held, by_kind, key)

        return pair

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        kind, by_kind = signature.args

        def pairs(tray: Tray, active: Mask | None) -> EvaluatedPart:
            parts = [arg(tray, active) for arg in args]
            errors: Errors | None = first_errors(parts[0].errors, parts[1].errors)
            values, keys = (
                Column(
                    of,
                    part.values if len(part.values) == len(tray) else expanded(part.values, len(tray)),
                    part.valid,
                ).to_list()
                for of, part in zip(signature.args, parts, strict=True)
            )
            found = [
                None
                if key is None or (active is not None and not active[at]) or (errors and at in errors)
                else by(kind, value, by_kind, key)
                for at, (value, key) in enumerate(zip(values, keys, strict=True))
            ]
            made = pa.array(found, type=arrow_type(PAIR))
            valid = None if not made.null_count else made.is_valid().to_numpy(zero_copy_only=False)
            return EvaluatedPart(made, valid, errors)

        return pairs

    return ScalarFunction("$BY", resolve, columnar, row, as_given)


def _numbers() -> ScalarFunction:
    """Declare $NUMBERS(y, x): the pair of two numbers, as DOUBLE."""

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) != 2 or not all(arg.is_numeric for arg in args):
            raise mismatch("$NUMBERS", args)
        return NUMBER_PAIR

    def operands(args: Sequence[Type], result: Type) -> Sequence[Type]:
        del result
        return [DOUBLE] * len(args)

    def row(first: float, second: float) -> bytes:
        if not (math.isfinite(first) and math.isfinite(second)):
            raise undefined("regression", (first, second), "it takes neither NaN nor infinity")
        return numbers(first, second)

    return strict("$NUMBERS", resolve, lambda signature: row, no_columns, operands)


def _value() -> ScalarFunction:
    """Declare $VALUE(pair): the value of a pair of $BY; the call says its type."""

    def resolve(args: Sequence[Type]) -> Type:
        raise mismatch("$VALUE", args)

    def row(signature: CallSignature) -> RowKernel:
        kind = signature.result
        return lambda pair: _value_of(kind, pair)

    return strict("$VALUE", resolve, row, no_columns)


PAIRS: Sequence[ScalarFunction] = (_by(), _numbers(), _value())
