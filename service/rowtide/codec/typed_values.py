"""Values of formats that have types of their own to values of columns, one by one (docs/sql/streams.md#avro)."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

from rowtide.codec.json.readings import Reading
from rowtide.codec.json.values import FromJson, NotOfTypeError, array_of_values, checked, converter
from rowtide.rows.types import Kind, Type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()


def from_typed(kind: Type, reading: Reading) -> FromJson:
    """Return the converter of Python's values; those that JSON has too are converted as from JSON."""
    if kind.element is not None:
        return checked(kind, array_of_values(from_typed(kind.element, element_reading(kind, reading))))

    def convert(value: object) -> object:
        match value:
            case str() | None:
                return reading.convert(value)
            case _ if kind.kind is Kind.JSON:
                return _json_text(value)
            case bytes():
                return of_bytes(value)
            case float() if kind.kind is Kind.DOUBLE:
                return value
            case float() if kind.kind is Kind.REAL and value != value:  # noqa: PLR0124 - NaN
                return value
            case float():
                return reading.convert(_finite(value))
            case datetime():
                return of_moment(value)
            case date():
                return of_date(value)
            case time():
                return of_time(value)
            case UUID():
                return reading.convert(str(value))
            case dict() | list() if kind.is_text:
                return reading.convert(json.dumps(value, ensure_ascii=False, default=_as_json))
            case _:
                return reading.convert(value)

    def of_bytes(value: bytes) -> object:
        if not kind.is_binary:
            raise NotOfTypeError("it is bytes")
        if kind.precision is not None and len(value) > kind.precision:
            raise NotOfTypeError(f"it has {len(value)} bytes")
        return value

    def of_moment(value: datetime) -> object:
        lapse = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
        if kind.kind is Kind.DATE:
            return lapse.days
        if not kind.is_timestamp:
            raise NotOfTypeError("it is a timestamp")
        return (lapse.days * 86_400 + lapse.seconds) * 1000 + lapse.microseconds // 1000

    def of_date(value: date) -> object:
        days = value.toordinal() - _EPOCH_DAY
        if kind.is_timestamp:
            return days * 86_400_000
        if kind.kind is not Kind.DATE:
            raise NotOfTypeError("it is a date")
        return days

    def of_time(value: time) -> object:
        if kind.kind is not Kind.TIME:
            raise NotOfTypeError("it is a time of day")
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1000 + value.microsecond // 1000

    return checked(kind, convert)


def element_reading(kind: Type, reading: Reading) -> Reading:
    """Return how the elements of a column of arrays are read: by the rules of their type."""
    convert = converter(kind.of_elements)
    assert convert is not None
    return replace(reading, convert=convert)


def _json_text(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_as_json, allow_nan=False)
    except ValueError:
        raise NotOfTypeError("a number in it is not finite") from None


def _finite(value: float) -> Decimal:
    if value - value != 0.0:
        raise NotOfTypeError("it is not a finite number")
    return Decimal(repr(value))


def _as_json(value: object) -> object:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return str(value)
