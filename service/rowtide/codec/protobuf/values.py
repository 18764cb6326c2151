"""Values of Protobuf fields to values of columns (docs/sql/streams.md#protobuf)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from rowtide.codec.json.readings import Reading
from rowtide.codec.json.values import FromJson, NotOfTypeError, array_of_values, checked
from rowtide.codec.protobuf.built_in import DATE, DECIMAL, TIME_OF_DAY
from rowtide.codec.typed_values import element_reading, from_typed
from rowtide.errors import Reason, RejectedRowError
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Kind, Type

FieldType = Any
"""A FieldDescriptor."""
_PACKAGE = "google.protobuf."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS = 1_000_000_000
_MOST_DECIMAL_BYTES = 32
"""Twice the 38 digits of a DECIMAL."""
_EXACT_BELOW = 1 << 53
"""A double has every smaller integer."""
_WRAPPERS = {
    f"{_PACKAGE}{each}Value"
    for each in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
TIMESTAMP, DURATION = f"{_PACKAGE}Timestamp", f"{_PACKAGE}Duration"
STRUCT, VALUE, LIST = f"{_PACKAGE}Struct", f"{_PACKAGE}Value", f"{_PACKAGE}ListValue"
DOCUMENTS = (STRUCT, VALUE, LIST)
"""Messages that are JSON."""

_INT32, _INT64, _UINT32, _UINT64 = 1, 2, 3, 4
RANGES = {
    _INT32: (-(1 << 31), (1 << 31) - 1),
    _INT64: (-(1 << 63), (1 << 63) - 1),
    _UINT32: (0, (1 << 32) - 1),
    _UINT64: (0, (1 << 64) - 1),
}
"""The least and the greatest integer of a field, by its ``cpp_type`` as google.protobuf numbers them."""


def is_map(field: FieldType) -> bool:
    """Return whether a field is a map."""
    inner = field.message_type
    return inner is not None and bool(inner.GetOptions().map_entry)


def wrapped(field: FieldType) -> FieldType | None:
    """Return the field within a wrapper such as StringValue; None if the field is not a wrapper."""
    inner = field.message_type
    return inner.fields_by_name["value"] if inner is not None and inner.full_name in _WRAPPERS else None


def from_field(field: FieldType, kind: Type, reading: Reading, *, single: bool) -> FromJson:
    """Return the converter of a field's values; ``single``: of one element if the field is repeated."""
    if field.is_repeated and not single and kind.element is not None and not is_map(field):
        of_element = from_field(field, kind.element, element_reading(kind, reading), single=True)
        return checked(kind, array_of_values(of_element, list))
    if field.is_repeated and not single:
        return _from_json(kind, reading, lambda value: _many(field, value))
    inner = wrapped(field)
    if inner is not None:
        unwrapped = from_field(inner, kind, reading, single=True)

        def unwrap(value: Any) -> object:
            return unwrapped(value.value)

        return unwrap
    if field.enum_type is not None:
        return _from_enum(field, kind, reading)
    if field.message_type is None:
        return _from_scalar(field, kind, reading)
    return from_message(field.message_type.full_name, kind, reading)


def _from_scalar(field: FieldType, kind: Type, reading: Reading) -> FromJson:
    if kind.kind is Kind.JSON or field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT, field.TYPE_BYTES):
        return from_typed(kind, reading)
    convert = reading.convert
    if field.type != field.TYPE_STRING:
        return convert

    def of_text(value: object) -> object:
        # proto2 does not look whether text is UTF-8, and Python then has bytes.
        if isinstance(value, bytes):
            raise RejectedRowError(Reason.TYPE, "text is not UTF-8")
        return convert(value)

    return of_text


def from_message(name: str, kind: Type, reading: Reading) -> FromJson:
    """Return the converter of messages of a type."""
    if name == TIMESTAMP and (kind.is_timestamp or kind.kind is Kind.DATE):
        return checked(kind, _whole_days if kind.kind is Kind.DATE else _milliseconds)
    if name == DATE and kind.kind is Kind.DATE:
        return checked(kind, _date)
    if name == TIME_OF_DAY and kind.kind is Kind.TIME:
        return checked(kind, _time_of_day)
    if name == DECIMAL and kind.is_numeric:
        to_number = from_typed(kind, reading)
        return checked(kind, lambda value: to_number(_decimal(value)))
    if name == DURATION and kind.is_numeric:
        convert = from_typed(kind, reading)
        return lambda value: convert(_seconds(value))
    return _from_json(kind, reading, json_of)


def from_document(kind: Type, reading: Reading) -> FromJson:
    """Return the converter of values inside of a Struct, as Python has JSON."""
    return _from_json(kind, reading, lambda value: value)


def _from_json(kind: Type, reading: Reading, as_json: Callable[[Any], object]) -> FromJson:
    """Return the converter of values that are JSON first: a column of JSON has it, others a value of its type."""
    convert = from_typed(kind, reading)
    if kind.kind is not Kind.JSON:
        return checked(kind, lambda value: convert(as_json(value)))

    def to_json(value: object) -> object:
        try:
            return json.dumps(as_json(value), ensure_ascii=False, allow_nan=False)
        except ValueError:
            raise NotOfTypeError("a number in it is not finite") from None

    return checked(kind, to_json)


def _from_enum(field: FieldType, kind: Type, reading: Reading) -> FromJson:
    convert = from_typed(kind, reading)
    if kind.is_numeric:
        return convert
    if kind.kind is Kind.JSON:
        return lambda value: json.dumps(_symbol(field, value), ensure_ascii=False)
    return lambda value: convert(_symbol(field, value))


def _symbol(field: FieldType, number: object) -> str:
    """Return the name of an enum's value; of a value that the schema does not know, its number."""
    known = field.enum_type.values_by_number.get(number)
    return str(number) if known is None else str(known.name)


# ------------------------------------------------------------------ times


def _milliseconds(value: Any) -> int:
    milliseconds = value.seconds * 1000 + _checked_nanos(value) // 1_000_000
    if not MIN_TIMESTAMP_MS <= milliseconds <= MAX_TIMESTAMP_MS:
        raise NotOfTypeError("it is not within the years 1 to 9999")
    return int(milliseconds)


def _whole_days(value: Any) -> int:
    return _milliseconds(value) // 86_400_000


def _checked_nanos(value: Any) -> int:
    if not 0 <= value.nanos < _NANOS:
        raise NotOfTypeError(f"its nanos are {value.nanos}")
    return int(value.nanos)


def _date(value: Any) -> int:
    try:
        return date(value.year, value.month, value.day).toordinal() - _EPOCH.toordinal()
    except (ValueError, OverflowError):
        raise NotOfTypeError(f"it is {value.year}-{value.month}-{value.day}") from None


def _time_of_day(value: Any) -> int:
    parts = value.hours, value.minutes, value.seconds, value.nanos
    if not all(0 <= part < limit for part, limit in zip(parts, (24, 60, 60, _NANOS), strict=True)):
        raise NotOfTypeError(f"it is {value.hours}:{value.minutes}:{value.seconds}, {value.nanos} nanos")
    seconds = (value.hours * 60 + value.minutes) * 60 + value.seconds
    return int(seconds * 1000 + value.nanos // 1_000_000)


def _decimal(value: Any) -> Decimal:
    """Return the number of a Decimal, exactly."""
    if len(value.value) > _MOST_DECIMAL_BYTES:
        raise NotOfTypeError("it has too many digits")
    return Decimal(f"{int.from_bytes(value.value, 'big', signed=True)}E{-value.scale}")


def _seconds(value: Any) -> Decimal:
    """Return the seconds of a Duration, exactly."""
    return Decimal(value.seconds) + Decimal(value.nanos).scaleb(-9)


def _moment_text(value: Any) -> str:
    """Return a Timestamp as JSON has it: in ISO 8601, with as many digits as it needs."""
    nanos, milliseconds = _checked_nanos(value), _milliseconds(value)
    seconds = _EPOCH + timedelta(seconds=milliseconds // 1000)
    return f"{seconds:%H:%M:%S}".join((f"{seconds.date().isoformat()}T", f"{_fraction(nanos)}Z"))


def _lapse_text(value: Any) -> str:
    """Return a Duration as JSON has it, such as 1.500s."""
    nanos = value.seconds * _NANOS + value.nanos
    whole, rest = divmod(abs(nanos), _NANOS)
    return f"{'-' if nanos < 0 else ''}{whole}{_fraction(rest)}s"


def _fraction(nanos: int) -> str:
    """Return the digits after the point: none, 3, 6 or 9."""
    digits = f"{nanos:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


# ------------------------------------------------------------------ JSON


def json_of(message: Any) -> object:
    """Return a message as JSON: an object of its fields by their names, without those that are not set.

    Integers of 64 bits are numbers. Raises NotOfTypeError if it has a Timestamp that is none.
    """
    name = message.DESCRIPTOR.full_name
    if name.startswith(_PACKAGE):
        if name in _WRAPPERS:
            return _scalar(message.DESCRIPTOR.fields_by_name["value"], message.value)
        special = _SPECIAL.get(name)
        if special is not None:
            return special(message)
    return {
        field.name: _many(field, getattr(message, field.name))
        if field.is_repeated
        else _single(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _many(field: FieldType, value: Any) -> object:
    """Return a repeated field or a map as JSON; the entries of a map are in the order of its keys."""
    if is_map(field):
        inner = field.message_type.fields_by_name["value"]
        # Of a map that was parsed the order is that of a hash table, which need not be the same at a replay.
        return {_key_text(key): _single(inner, value[key]) for key in sorted(value)}
    return [_single(field, each) for each in value]


def _single(field: FieldType, value: Any) -> object:
    return _scalar(field, value) if field.message_type is None else json_of(value)


def _scalar(field: FieldType, value: Any) -> object:
    if field.enum_type is not None:
        return _symbol(field, value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _key_text(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _document(value: Any) -> object:
    """Return a google.protobuf.Value as JSON; whole numbers are integers."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _struct(value.struct_value)
    if kind == "list_value":
        return _list(value.list_value)
    if kind is None or kind == "null_value":
        return None
    given = getattr(value, kind)
    is_whole = kind == "number_value" and abs(given) < _EXACT_BELOW and given.is_integer()
    return int(given) if is_whole else given


def _struct(value: Any) -> object:
    return {key: _document(value.fields[key]) for key in sorted(value.fields)}


def _list(value: Any) -> object:
    return [_document(each) for each in value.values]


_SPECIAL: dict[str, Callable[[Any], object]] = {
    TIMESTAMP: _moment_text,
    DURATION: _lapse_text,
    STRUCT: _struct,
    VALUE: _document,
    LIST: _list,
}
