"""Convert columns of values to PostgreSQL's arrays, whole instead of value by value.

psycopg converts a list to an array at half a microsecond per value. Numbers are sent in PostgreSQL's
binary form, laid out by NumPy; text and decimals in its text form, joined at once. psycopg converts
the other types.

Binary form of an array (src/backend/utils/adt/arrayfuncs.c, array_recv): five
int32 (dimensions, whether there are NULLs, type of the elements, their number,
lower bound), then each element's length, -1 for NULL, and its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from psycopg import Connection
from psycopg.adapt import Dumper
from psycopg.pq import Format


@dataclass(frozen=True, slots=True)
class BinaryArray:
    """An array in binary form."""

    content: bytes


class _BinaryArrayDumper(Dumper):
    """Passes a ``BinaryArray`` on unchanged; a cast in the statement sets its type."""

    format = Format.BINARY

    def dump(self, obj: BinaryArray) -> bytes:
        """Return the bytes."""
        return obj.content


def register(connection: Connection[Any]) -> None:
    """Register ``BinaryArray`` as a parameter of a connection."""
    connection.adapters.register_dumper(BinaryArray, _BinaryArrayDumper)


@dataclass(frozen=True, slots=True)
class _Element:
    """The form of a number: PostgreSQL's number of the type, and NumPy's type in network order."""

    oid: int
    dtype: str


_ELEMENTS = {
    "bool": _Element(16, ">i1"),
    "int2": _Element(21, ">i2"),
    "int4": _Element(23, ">i4"),
    "int8": _Element(20, ">i8"),
    "float4": _Element(700, ">f4"),
    "float8": _Element(701, ">f8"),
}


def array_parameter(element: str, values: Sequence[Any]) -> object:
    """Return the parameter for an array of type ``element``, one of PostgreSQL's names.

    Raises:
      OverflowError: a number does not fit the type.
    """
    if element in _ELEMENTS:
        return _binary(_ELEMENTS[element], values)
    if element == "numeric":
        return _text_array(values, str)
    if element == "text":
        return _text_array(values, _quoted) if None in values else _quoted_array(values)
    return list(values)


def _binary(element: _Element, values: Sequence[Any]) -> BinaryArray:
    dtype = np.dtype(element.dtype)
    has_nulls = None in values
    numbers: Any = values
    nulls = np.zeros(0, dtype=np.bool_)
    if has_nulls:
        nulls = np.fromiter((value is None for value in values), np.bool_, len(values))
        numbers = [0 if value is None else value for value in values]
    wide = np.array(numbers, dtype=np.float64 if dtype.kind == "f" else np.int64)
    if dtype.kind == "i" and dtype.itemsize < 8 and len(wide):
        limits = np.iinfo(dtype)
        if wide.min() < limits.min or wide.max() > limits.max:
            raise OverflowError(f"a number is not within {limits.min} to {limits.max}")
    header = np.array([1, int(has_nulls), element.oid, len(values), 1], dtype=">i4")
    elements = np.empty(len(values), dtype=[("length", ">i4"), ("value", dtype)])
    elements["length"] = dtype.itemsize
    with np.errstate(over="ignore"):
        elements["value"] = wide
    if not has_nulls:
        return BinaryArray(header.tobytes() + elements.tobytes())
    elements["length"][nulls] = -1
    content = elements.view(np.uint8).reshape(len(values), elements.dtype.itemsize)
    kept = np.ones(content.shape, dtype=np.bool_)
    kept[nulls, 4:] = False
    return BinaryArray(header.tobytes() + content[kept].tobytes())


def _text_array(values: Sequence[Any], written: Callable[[Any], str]) -> str:
    return "{" + ",".join(["NULL" if value is None else written(value) for value in values]) + "}"


def _quoted_array(values: Sequence[str]) -> str:
    """Return an array of text without NULLs; hardly any text needs escapes."""
    joined = '","'.join(values)
    # No quotation marks except those just added between the values, and no backslash: no escapes needed.
    if "\\" in joined or joined.count('"') != 2 * max(0, len(values) - 1):
        return _text_array(values, _quoted)
    return '{"' + joined + '"}' if values else "{}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
