"""The arguments of an aggregate in Python as one value: $ARGUMENTS(x, y, ..) and $GIVEN(x, y, ..).

The value is a binary string: MessagePack of the arguments in row form, equal for equal arguments. A zero has
no sign, and all NaN are one. $GIVEN is NULL if an argument is. The planner writes these calls, SQL has no name
for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from rowtide.expr.evaluation import (
    ColumnEvaluator,
    Errors,
    EvaluatedPart,
    RowEvaluator,
    expanded,
    first_errors,
)
from rowtide.expr.functions.function import CallSignature, ScalarFunction, as_given
from rowtide.rows.arrays import Mask
from rowtide.rows.arrays_as_text import array_text
from rowtide.rows.column import Column, arrow_type, scaled, unscaled
from rowtide.rows.rowop import Row
from rowtide.rows.tray import Tray
from rowtide.rows.types import Kind, Type

PACKED = Type(Kind.VARBINARY)
"""The type of the one value."""
_encode = msgspec.msgpack.Encoder().encode
_CLASSES = {Kind.BOOLEAN: bool, Kind.DECIMAL: str, Kind.ARRAY: str}


def packed(kinds: Sequence[Type], values: Sequence[Any]) -> bytes:
    """Return arguments of these types, in row form, as one value."""
    return _encode([_plain(kind, value) for kind, value in zip(kinds, values, strict=True)])


def _plain(kind: Type, value: Any) -> object:
    match value:
        case float():
            return math.nan if math.isnan(value) else value + 0.0
        case Decimal():
            # MessagePack has no integer of 38 digits.
            return str(unscaled(value, kind.scale))
        case tuple():
            return array_text(kind).text(value)
        case _:
            return value


def unpacking(kinds: Sequence[Type]) -> Callable[[bytes], Sequence[Any]]:
    """Return the function that returns the arguments of these types, in row form."""
    decode = msgspec.msgpack.Decoder(tuple[tuple(_class_of(kind) | None for kind in kinds)]).decode  # type: ignore[misc]
    readers = [_reader_of(kind) for kind in kinds]
    if not any(readers):
        return decode

    def unpacked(value: bytes) -> Sequence[Any]:
        return [
            part if read is None or part is None else read(part)
            for part, read in zip(decode(value), readers, strict=True)
        ]

    return unpacked


def _reader_of(kind: Type) -> Callable[[str], object] | None:
    """Return the function that returns a value, in row form, of the text that stands for it; None: it is the value."""
    if kind.kind is Kind.DECIMAL:
        return lambda units: scaled(int(units), kind.scale)
    return array_text(kind).values if kind.kind is Kind.ARRAY else None


def _class_of(kind: Type) -> Any:
    if kind.is_float:
        return float
    if kind.is_string:
        return str
    return bytes if kind.is_binary else _CLASSES.get(kind.kind, int)


def _declared(name: str, *, strict: bool) -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        del args
        return PACKED

    def row(signature: CallSignature, args: Sequence[RowEvaluator]) -> RowEvaluator:
        def evaluate(row: Row, rowtime: int) -> object:
            values = [arg(row, rowtime) for arg in args]
            return None if strict and None in values else packed(signature.args, values)

        return evaluate

    def columnar(signature: CallSignature, args: Sequence[ColumnEvaluator]) -> ColumnEvaluator:
        kinds = signature.args

        def evaluate(tray: Tray, active: Mask | None) -> EvaluatedPart:
            errors: Errors | None = None
            columns = []
            for kind, arg in zip(kinds, args, strict=True):
                part = arg(tray, active)
                errors = first_errors(errors, part.errors)
                values = part.values if len(part.values) == len(tray) else expanded(part.values, len(tray))
                columns.append(Column(kind, values, part.valid).to_list())
            wanted = np.ones(len(tray), dtype=np.bool_) if active is None else active.copy()
            wanted[list(errors or ())] = False
            found = [
                packed(kinds, given) if use and not (strict and None in given) else None
                for use, given in zip(wanted.tolist(), zip(*columns, strict=True), strict=True)
            ]
            made = pa.array(found, type=arrow_type(PACKED))
            valid = None if not made.null_count else made.is_valid().to_numpy(zero_copy_only=False)
            return EvaluatedPart(made, valid, errors)

        return evaluate

    return ScalarFunction(name, resolve, columnar, row, as_given, lambda signature: False)


ARGUMENTS: Sequence[ScalarFunction] = (
    _declared("$ARGUMENTS", strict=False),
    _declared("$GIVEN", strict=True),
)
