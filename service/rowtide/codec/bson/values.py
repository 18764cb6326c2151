"""Values of BSON to values of columns, and JSON of documents (docs/sql/streams.md#bson)."""

from __future__ import annotations

import base64
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import msgspec
from bson import Code, DatetimeMS, DBRef, Decimal128, ObjectId, Regex, Timestamp
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion

from rowtide.codec.json.readings import Reading
from rowtide.codec.json.times import DAY_MS
from rowtide.codec.json.values import FromJson, NotOfTypeError, array_of_values, checked
from rowtide.codec.typed_values import element_reading, from_typed
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Kind, Type

OPTIONS: CodecOptions[dict[str, object]] = CodecOptions(
    document_class=dict,
    uuid_representation=UuidRepresentation.STANDARD,
    datetime_conversion=DatetimeConversion.DATETIME_MS,
)
"""UUIDs are those of subtype 4. Dates are milliseconds, as BSON has them: Python's end in the year 9999."""
DEEPEST = 100
"""Documents and arrays within each other, of one that a column stores as JSON: what MongoDB takes."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode_json = msgspec.json.Encoder(decimal_format="number").encode


def from_bson(kind: Type, reading: Reading) -> FromJson:
    """Return the converter of the values that ``decode`` of package ``bson`` makes with ``OPTIONS``."""
    if kind.element is not None:
        return _checked(kind, array_of_values(from_bson(kind.element, element_reading(kind, reading))))
    of_typed = from_typed(kind, reading)

    def convert(value: object) -> object:
        if kind.kind is Kind.JSON:
            return json_of(value)
        match value:
            case Code() if not kind.is_text:
                raise NotOfTypeError("it is code")
            case str() | bool() | int() | float():
                return of_typed(value)
            case dict() | list() | DBRef() if kind.is_text:
                return reading.convert(json_of(value))
            case dict() | list() | UUID() | bytes():
                return of_typed(value)
            case DatetimeMS():
                return of_moment(int(value))
            case Timestamp():
                return of_moment(value.time * 1000)
            case ObjectId() | Regex() if kind.is_text:
                return reading.convert(_text(value))
            case Decimal128():
                return reading.convert(_finite(value))
            case _:
                raise NotOfTypeError(f"it is {_kind(value)}")

    def of_moment(millis: int) -> object:
        if not MIN_TIMESTAMP_MS <= millis <= MAX_TIMESTAMP_MS:
            raise NotOfTypeError("it is not within the years 1 to 9999")
        if kind.is_timestamp:
            return millis
        if kind.kind is Kind.DATE:
            return millis // DAY_MS
        if kind.is_text:
            return reading.convert(_iso(millis))
        raise NotOfTypeError("it is a date")

    return _checked(kind, convert)


def _checked(kind: Type, convert: FromJson) -> FromJson:
    """Return the converter whose errors say which BSON type the value has, where JSON has no such type."""
    by_json = checked(kind, convert)

    def converted(value: object) -> object:
        try:
            return convert(value)
        except NotOfTypeError:
            return by_json(value)

    return converted


def json_of(value: object) -> str:
    """Return a value as JSON text: an ObjectId is its hexadecimal digits, a date ISO 8601, bytes are base64.

    Raises:
      NotOfTypeError: a number in it is not finite, or it is nested too deeply.
    """
    return _encode_json(plain(value)).decode()


def plain(value: object, depth: int = 0) -> object:
    """Return a value as JSON has it, numbers of Decimal128 as Decimal; it is ``depth`` deep in another one.

    Raises:
      NotOfTypeError: as ``json_of``.
    """
    if depth > DEEPEST:
        raise NotOfTypeError(f"it is nested more than {DEEPEST} deep")
    match value:
        case str() | bool() | None:
            return value
        case int():
            return int(value)
        case float():
            if not math.isfinite(value):
                raise NotOfTypeError("a number in it is not finite")
            return value
        case dict():
            return {name: plain(each, depth + 1) for name, each in value.items()}
        case list():
            return [plain(each, depth + 1) for each in value]
        case DBRef():
            return plain(dict(value.as_doc()), depth)
        case Decimal128():
            return _finite(value)
        case DatetimeMS():
            return _iso(int(value))
        case Timestamp():
            return _iso(value.time * 1000)
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return _text(value)


def _finite(value: Decimal128) -> Decimal:
    number: Decimal = value.to_decimal()
    if not number.is_finite():
        raise NotOfTypeError("it is not a finite number")
    return number


def _text(value: object) -> str:
    match value:
        case Regex():
            return str(value.pattern)
        case ObjectId() | UUID():
            return str(value)
        case _:
            return type(value).__name__


def _iso(millis: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")[:-6] + "Z"
    except OverflowError:
        raise NotOfTypeError("a date in it is not within the years 1 to 9999") from None


def _kind(value: object) -> str:
    """Return what a value is, as people say it."""
    match value:
        case ObjectId():
            return "an ObjectId"
        case Regex():
            return "a regular expression"
        case _:
            return f"a {type(value).__name__}"
