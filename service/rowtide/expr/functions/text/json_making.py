"""JSON of values: JSON_OBJECT, JSON_ARRAY and TO_JSON (docs/sql/expressions.md#json).

Values have the spelling of arrays as text (``rows.arrays_as_text``), which is that of messages. JSON values and arrays
are put in as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rowtide.expr.evaluation import RowKernel
from rowtide.expr.functions.arrays.shapes import function, with_nulls
from rowtide.expr.functions.function import CallSignature, ScalarFunction
from rowtide.expr.functions.rejections import undefined
from rowtide.rows.arrays_as_text import array_text
from rowtide.rows.types import JSON, Kind, Type, array_of

OBJECT, ARRAY = "JSON_OBJECT", "JSON_ARRAY"
OTHERWISE = {OBJECT: "JSON_OBJECT ABSENT ON NULL", ARRAY: "JSON_ARRAY NULL ON NULL"}
"""The names in a plan of those that treat NULL in another way than by default."""
_USAGE = {
    OBJECT: "Write JSON_OBJECT('name' VALUE x, ..): names are text, values anything but an INTERVAL.",
    ARRAY: "Write JSON_ARRAY(x, y, ..): values are anything but an INTERVAL.",
    "TO_JSON": "Write TO_JSON(x): x is anything but an INTERVAL.",
}
_encode = msgspec.json.Encoder().encode


def _has_json(kind: Type) -> bool:
    return kind.can_be_element or kind.kind in (Kind.JSON, Kind.ARRAY)


def _writer(kind: Type) -> Callable[[Any], str]:
    """Return the function that writes a value that is not NULL as JSON."""
    if kind.kind is Kind.JSON:
        return str
    if kind.kind is Kind.ARRAY:
        return array_text(kind).text
    form = array_text(array_of(kind)).text
    return lambda value: form((value,))[1:-1]


def _array_type(args: Sequence[Type]) -> Type | None:
    return JSON if all(map(_has_json, args)) else None


def _object_type(args: Sequence[Type]) -> Type | None:
    fits = len(args) % 2 == 0 and all(key.is_text for key in args[::2]) and all(map(_has_json, args[1::2]))
    return JSON if fits else None


def _array(*, nulls: bool) -> Callable[[CallSignature], RowKernel]:
    def kernel(signature: CallSignature) -> RowKernel:
        writers = [_writer(kind) for kind in signature.args]

        def make(*values: object) -> object:
            pairs = zip(values, writers, strict=True)
            parts = [
                "null" if value is None else write(value)
                for value, write in pairs
                if nulls or value is not None
            ]
            return f"[{','.join(parts)}]"

        return make

    return kernel


def _object(*, nulls: bool) -> Callable[[CallSignature], RowKernel]:
    def kernel(signature: CallSignature) -> RowKernel:
        writers = [_writer(kind) for kind in signature.args[1::2]]

        def make(*given: object) -> object:
            parts = []
            for key, value, write in zip(given[::2], given[1::2], writers, strict=True):
                if key is None:
                    raise undefined(OBJECT, given, "the name of a member is NULL")
                if nulls or value is not None:
                    parts.append(f"{_encode(key).decode()}:{'null' if value is None else write(value)}")
            return f"{{{','.join(parts)}}}"

        return make

    return kernel


def _one_type(args: Sequence[Type]) -> Type | None:
    return JSON if len(args) == 1 and _has_json(args[0]) else None


JSON_MAKING: Sequence[ScalarFunction] = (
    with_nulls(OBJECT, _USAGE[OBJECT], _object_type, _object(nulls=True)),
    with_nulls(OTHERWISE[OBJECT], _USAGE[OBJECT], _object_type, _object(nulls=False)),
    with_nulls(ARRAY, _USAGE[ARRAY], _array_type, _array(nulls=False)),
    with_nulls(OTHERWISE[ARRAY], _USAGE[ARRAY], _array_type, _array(nulls=True)),
    function("TO_JSON", _USAGE["TO_JSON"], _one_type, lambda signature: _writer(signature.args[0])),
)
"""The functions that make JSON."""
