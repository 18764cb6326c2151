"""Values of columns to Avro, one by one: for each type of a column, the types of a schema that carry it.

The branch of a union is chosen by the column's type, not by the value, so it is the same in every message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from rowtide.codec.encode.contract import refuse
from rowtide.codec.encode.json import json_writer, moment
from rowtide.codec.encode.record import UnfitError
from rowtide.codec.format_options import PATTERN, TIME_UNIT
from rowtide.codec.options import Declared
from rowtide.errors import FaultError
from rowtide.rows.types import INTEGER_BYTES, Field, Kind, Type

ToBytes = Callable[[Any], bytes]
"""Takes a value in row form, not NULL."""

_MOMENTS = (Kind.TIMESTAMP, Kind.INSTANT)
_INT_BITS = 32
_BITS = {"int": _INT_BITS, "long": 64}
_FACTORS = {"millis": 1, "micros": 1_000, "nanos": 1_000_000}
_TIMESTAMPS = {
    f"{prefix}timestamp-{unit}": factor for prefix in ("", "local-") for unit, factor in _FACTORS.items()
}
_TIMES = {"time-millis": 1, "time-micros": 1_000}
_DEFAULT_DECIMAL_SCALE = 0


def form_of(schema: Any) -> tuple[str, dict[str, Any]]:
    """Return the name of a type and its attributes, including the logical type. Unions are not accepted."""
    if isinstance(schema, str):
        return schema, {}
    inner = schema["type"]
    if isinstance(inner, dict):
        form, attributes = form_of(inner)
        return form, {**schema, **attributes}
    return str(inner), schema


def value_writer(declared: Declared, field: Field, schema: Any) -> ToBytes:
    """Return the function that makes the bytes of a column's value. ``schema`` is one type, not a union.

    Raises:
      UnfitError: the type cannot carry the column.
      StatementError: an option of the column is wrong.
    """
    form, attributes = form_of(schema)
    logical = attributes.get("logicalType")
    kind, options = field.type, declared.of(field.name)
    if PATTERN in options and form != "string":
        raise UnfitError("the column has a pattern, so it is text")
    match form:
        case "string":
            return _string(declared, field, logical)
        case "enum" if kind.is_text:
            return _enum(field.name, attributes["symbols"])
        case "boolean" if kind.kind is Kind.BOOLEAN:
            return lambda value: b"\1" if value else b"\0"
        case "int" | "long":
            return _whole(declared, field, form, logical)
        case "float" if kind.kind is Kind.REAL:
            return _floating(field.name, "<f")
        case "double" if kind.is_float or INTEGER_BYTES.get(kind.kind, 8) < 8:
            return _floating(field.name, "<d")
        case "array" if kind.element is not None:
            return _array(declared, replace(field, type=kind.element), attributes["items"])
        case "bytes" | "fixed":
            return _bytes(field, attributes, attributes["size"] if form == "fixed" else None)
        case _:
            raise UnfitError


def long_bytes(number: int) -> bytes:
    """Return an int or a long: zigzag, seven bits a byte, low bits first."""
    rest = (number << 1) ^ (number >> 63)
    if rest < 0x80:
        return bytes((rest,))
    found = bytearray()
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def sized(content: bytes) -> bytes:
    """Return bytes after their number."""
    return long_bytes(len(content)) + content


def _array(declared: Declared, element: Field, items: Any) -> ToBytes:
    """Return the writer of an array in one block."""
    branches = items if isinstance(items, list) else [items]
    index = [long_bytes(at) if isinstance(items, list) else b"" for at in range(len(branches))]
    null = index[branches.index("null")] if "null" in branches else None
    why = UnfitError()
    for prefix, branch in zip(index, branches, strict=True):
        try:
            write = value_writer(declared, element, branch)
        except UnfitError as error:
            why = error if error.args else why
        else:
            return lambda array: _block(array, write, prefix, null, element.name)
    raise why


def _block(array: Any, write: ToBytes, prefix: bytes, null: bytes | None, name: str) -> bytes:
    """Return the number of the elements, the elements, and the end of the array."""
    if not array:
        return b"\0"
    if null is None:
        if None in array:
            refuse(f'column "{name}" has a NULL element, and the items of the schema do not take null')
        null = b""
    content = [null if each is None else prefix + write(each) for each in array]
    return b"".join((long_bytes(len(array)), *content, b"\0"))


def _string(declared: Declared, field: Field, logical: object) -> ToBytes:
    kind, options = field.type, declared.of(field.name)
    if kind.is_text:
        return _uuid(field.name) if logical == "uuid" else lambda value: sized(value.encode())
    if kind.kind is Kind.UUID and logical in (None, "uuid"):
        return lambda value: sized(value.encode())
    if logical is not None:
        raise UnfitError
    if kind.kind is Kind.JSON:
        # Avro has no JSON: a string holds the text.
        return lambda value: sized(value.encode())
    if kind.kind is Kind.DECIMAL:
        return lambda value: sized(format(value, "f").encode())
    if kind.kind in (Kind.DATE, Kind.TIME, *_MOMENTS) and TIME_UNIT not in options:
        write: Any = json_writer(declared, field)
        return lambda value: sized(write(value).encode())
    raise UnfitError


def _uuid(name: str) -> ToBytes:
    def write(value: Any) -> bytes:
        try:
            UUID(value)
        except ValueError:
            refuse(f'column "{name}": text "{value[:40]}" is not a UUID')
        return sized(value.encode())

    return write


def _enum(name: str, symbols: list[str]) -> ToBytes:
    known = {symbol: long_bytes(at) for at, symbol in enumerate(symbols)}

    def write(value: Any) -> bytes:
        found = known.get(value)
        if found is None:
            refuse(
                f'column "{name}": text "{value[:40]}" is not a symbol of the schema: {", ".join(symbols)[:200]}'
            )
        return found

    return write


def _whole(declared: Declared, field: Field, form: str, logical: object) -> ToBytes:
    """Return the writer of an int or a long, by its logical type or by the column's unit of time."""
    kind, name = field.type, field.name
    if logical == "date":
        return _counted(field, form, 1, (Kind.DATE,))
    if logical in _TIMES:
        return _counted(field, form, _TIMES[str(logical)], (Kind.TIME,))
    if logical in _TIMESTAMPS:
        return _counted(field, form, _TIMESTAMPS[str(logical)], _MOMENTS)
    if kind.is_integer:
        return _ranged(name, form)
    if kind.kind is Kind.DECIMAL and kind.scale == 0:
        write = _ranged(name, form)
        return lambda value: write(int(value))
    if TIME_UNIT in declared.of(name):
        count: Any = json_writer(declared, field)
        ranged = _ranged(name, form)
        return lambda value: ranged(count(value))
    if kind.is_timestamp:
        return _counted(field, form, 1, _MOMENTS)
    if kind.kind in (Kind.DATE, Kind.TIME):
        raise UnfitError("declare the time_unit of the column")
    raise UnfitError


def _counted(field: Field, form: str, factor: int, wanted: tuple[Kind, ...]) -> ToBytes:
    """Return the writer of days or milliseconds, times ``factor``."""
    if field.type.kind not in wanted:
        raise UnfitError
    write, kind, name = _ranged(field.name, form), field.type, field.name

    def counted(value: Any) -> bytes:
        moment(kind, value, name)
        return write(value * factor)

    return counted


def _ranged(name: str, form: str) -> ToBytes:
    limit = 1 << (_BITS[form] - 1)

    def write(value: Any) -> bytes:
        if not -limit <= value < limit:
            refuse(f'column "{name}": {value} is out of the range of {form}')
        return long_bytes(value)

    return write


def _floating(name: str, layout: str) -> ToBytes:
    pack = struct.Struct(layout).pack

    def write(value: Any) -> bytes:
        try:
            return pack(value)
        except OverflowError:
            refuse(f'column "{name}": {value} is out of the range of float')

    return write


def _bytes(field: Field, attributes: dict[str, Any], size: int | None) -> ToBytes:
    kind, name = field.type, field.name
    if attributes.get("logicalType") == "decimal":
        return _decimal(field, attributes, size)
    if not kind.is_binary:
        raise UnfitError
    if size is None:
        return sized

    def fixed(value: Any) -> bytes:
        if len(value) != size:
            refuse(f'column "{name}" has {len(value)} bytes, and the schema has {size}')
        return bytes(value)

    return fixed


def _decimal(field: Field, attributes: dict[str, Any], size: int | None) -> ToBytes:
    kind, name = field.type, field.name
    scale, precision = attributes.get("scale", _DEFAULT_DECIMAL_SCALE), attributes["precision"]
    if not kind.is_exact:
        raise UnfitError
    if scale < kind.scale:
        raise UnfitError(f"the schema has {scale} digits after the point, the column {kind.scale}")
    limit = 10**precision

    def write(value: Any) -> bytes:
        number = _unscaled(value, scale)
        if not -limit < number < limit:
            refuse(f'column "{name}": {value} has more than {precision} digits')
        if size is None:
            length = (number + (number < 0)).bit_length() // 8 + 1
            return sized(number.to_bytes(length, "big", signed=True))
        # A schema whose precision does not fit its size is refused when it is parsed.
        return number.to_bytes(size, "big", signed=True)

    return write


def _unscaled(value: Decimal | int, scale: int) -> int:
    """Return ``value`` times ten to the ``scale``: exactly, whatever the precision of the context is."""
    if isinstance(value, int):
        return value * int(10**scale)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)) or "0") * int(10 ** (scale + exponent))
    return -number if sign else number


def type_of(declared: Declared, field: Field) -> Any:
    """Return the type of a column's values in the schema that is made of the columns."""
    kind, options = field.type, declared.of(field.name)
    if kind.element is not None:
        return {"type": "array", "items": ["null", type_of(declared, replace(field, type=kind.element))]}
    if PATTERN in options or kind.is_text:
        return "string"
    if kind.is_binary:
        return "bytes"
    match kind.kind:
        case Kind.BOOLEAN:
            return "boolean"
        case Kind.UUID:
            return _logical("string", "uuid")
        case Kind.JSON:
            return "string"
        case Kind.BIGINT:
            return "long"
        case Kind.REAL:
            return "float"
        case Kind.DOUBLE:
            return "double"
        case Kind.DECIMAL:
            return _logical("bytes", "decimal", precision=kind.precision or 38, scale=kind.scale)
        case Kind.DATE | Kind.TIME | Kind.TIMESTAMP | Kind.INSTANT:
            return _time_type(kind, options.get(TIME_UNIT))
        case Kind.TINYINT | Kind.SMALLINT | Kind.INTEGER:
            return "int"
        case _:
            raise FaultError(f"type {kind} of column {field.name} has no type in Avro")


def _time_type(kind: Type, unit: str | None) -> Any:
    match kind.kind, unit:
        case Kind.DATE, None | "d":
            return _logical("int", "date")
        case Kind.TIME, None | "ms":
            return _logical("int", "time-millis")
        case Kind.TIME, "us":
            return _logical("long", "time-micros")
        case ((Kind.TIMESTAMP | Kind.INSTANT), None | "ms"):
            return _logical("long", "timestamp-millis")
        case ((Kind.TIMESTAMP | Kind.INSTANT), "us"):
            return _logical("long", "timestamp-micros")
        case _:
            return "long"


def _logical(form: str, logical: str, **more: int) -> Any:
    return {"type": form, "logicalType": logical, **more}
