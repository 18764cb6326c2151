"""Values of formats that have types of their own to values of columns, one by one (docs/sql/streams.md#avro)."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from decimal import Decimal
from uuid import UUID

from rowtide.codec.json.readings import Reading
from rowtide.codec.json.times import DAY_MS
from rowtide.codec.json.values import FromJson, NotOfTypeError, array_of_values, checked, converter
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Kind, Type
from rowtide_connectors.avro_values import DAY_NS, AvroDate, AvroTime, AvroTimestamp

_MS_NS = 1_000_000
"""Nanoseconds of a millisecond."""


def from_typed(kind: Type, reading: Reading) -> FromJson:
    """Return the converter of Python's values; those that JSON has too are converted as from JSON."""
    if kind.element is not None:
        return checked(kind, array_of_values(from_typed(kind.element, element_reading(kind, reading))))

    def convert(value: object) -> object:
        match value:
            case str():
                return reading.convert(_utf_8(value))
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
            case AvroTimestamp():
                return of_moment(value)
            case AvroDate():
                return of_day(value)
            case AvroTime():
                return of_clock(value)
            case UUID():
                return reading.convert(str(value))
            case dict() | list() if kind.is_text:
                return reading.convert(_json_text(value))
            case _:
                return reading.convert(value)

    def of_bytes(value: bytes) -> object:
        if not kind.is_binary:
            raise NotOfTypeError("it is bytes")
        if kind.precision is not None and len(value) > kind.precision:
            raise NotOfTypeError(f"it has {len(value)} bytes")
        return value

    def of_moment(value: AvroTimestamp) -> object:
        if not (kind.is_timestamp or kind.kind is Kind.DATE):
            raise NotOfTypeError("it is a timestamp")
        millis = _of_calendar(value.nanoseconds // _MS_NS, value)
        return millis if kind.is_timestamp else millis // DAY_MS

    def of_day(value: AvroDate) -> object:
        if not (kind.is_timestamp or kind.kind is Kind.DATE):
            raise NotOfTypeError("it is a date")
        millis = _of_calendar(value.days * DAY_MS, value)
        return millis if kind.is_timestamp else value.days

    def of_clock(value: AvroTime) -> object:
        if kind.kind is not Kind.TIME:
            raise NotOfTypeError("it is a time of day")
        if not 0 <= value.nanoseconds < DAY_NS:
            raise NotOfTypeError(f"{value} is not a time of day")
        return value.nanoseconds // _MS_NS

    return checked(kind, convert)


def element_reading(kind: Type, reading: Reading) -> Reading:
    """Return how the elements of a column of arrays are read: by the rules of their type."""
    convert = converter(kind.of_elements)
    assert convert is not None
    return replace(reading, convert=convert)


def _json_text(value: object) -> str:
    try:
        return _utf_8(json.dumps(value, ensure_ascii=False, default=_as_json, allow_nan=False))
    except ValueError:
        raise NotOfTypeError("a number in it is not finite") from None
    except RecursionError:
        raise NotOfTypeError("it is nested too deeply") from None


def _utf_8(text: str) -> str:
    """Return a text if it has no surrogates: Avro's reader puts them where bytes are not UTF-8."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotOfTypeError("it is not UTF-8") from None
    return text


def _of_calendar(millis: int, value: AvroTimestamp | AvroDate) -> int:
    if not MIN_TIMESTAMP_MS <= millis <= MAX_TIMESTAMP_MS:
        raise NotOfTypeError(f"{value} is not within the years 1 to 9999")
    return millis


def _finite(value: float) -> Decimal:
    if value - value != 0.0:
        raise NotOfTypeError("it is not a finite number")
    return Decimal(repr(value))


def _as_json(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
