"""Arrays as text: how a column holds them, and the JSON spelling of their elements.

A column of arrays is an Arrow array of texts. The text is a JSON array without blanks. It is canonical: equal
arrays have equal texts, and only they, so keys, joins, snapshots and kernels handle arrays as they handle text. In
a row an array is a tuple.

| element                | in the text                                                          |
|------------------------|----------------------------------------------------------------------|
| NULL                   | null                                                                 |
| BOOLEAN, integers      | true, 12                                                             |
| DECIMAL                | a number with all digits of its scale: 1.50                          |
| REAL, DOUBLE           | the shortest number: 0.1; "NaN", "Infinity", "-Infinity"; zero has no sign |
| CHAR, VARCHAR, UUID    | text                                                                 |
| BINARY, VARBINARY      | text, base64                                                         |
| DATE, TIME, TIMESTAMP  | text, ISO 8601: "2024-02-29T10:00:00.000Z"; outside of the years 1 to 9999 the number |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, Kind, Type

DAY_MS = 86_400_000
MIN_DAY, MAX_DAY = MIN_TIMESTAMP_MS // DAY_MS, MAX_TIMESTAMP_MS // DAY_MS
"""The days of the years 1 to 9999."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_EXACT = Context(prec=80)
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}

_encode = msgspec.json.Encoder().encode

ToJson = Callable[[Any], object]
FromWire = Callable[[Any], object]


def date_text(days: int) -> str:
    """Return days since 1970 as ISO 8601.

    Raises:
      ValueError: the day is not within the years 1 to 9999.
    """
    return date.fromordinal(_EPOCH_DAY + days).isoformat()


def time_text(ms: int) -> str:
    """Return milliseconds of a day as ISO 8601, always with three digits of a second's fraction."""
    seconds, rest = divmod(ms, 1000)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}.{rest:03}"


def timestamp_text(ms: int) -> str:
    """Return milliseconds since 1970 as ISO 8601 in UTC.

    Raises:
      ValueError: the time is not within the years 1 to 9999.
    """
    day, rest = divmod(ms, DAY_MS)
    return f"{date_text(day)}T{time_text(rest)}Z"


def as_element(value: object) -> object:
    """Return a value as the element of an array: zero has no sign, and every NaN is one object."""
    if not isinstance(value, float):
        return value
    return value + 0.0 if value == value else math.nan  # noqa: PLR0124 - NaN


def _float(value: float) -> object:
    if math.isfinite(value):
        return value + 0.0
    return _NOT_FINITE.get(value, "NaN")


def _single(value: float) -> object:
    return _float(float(str(np.float32(value))))


def _decimal(unit: Decimal) -> ToJson:
    def write(value: Decimal) -> object:
        rounded = value.quantize(unit, context=_EXACT)
        return msgspec.Raw(f"{rounded if rounded else unit * 0:f}".encode())

    return write


def _timestamp(ms: int) -> object:
    return timestamp_text(ms) if MIN_TIMESTAMP_MS <= ms <= MAX_TIMESTAMP_MS else ms


_WRITERS: dict[Kind, ToJson] = {
    Kind.DOUBLE: _float,
    Kind.REAL: _single,
    Kind.DATE: lambda days: date_text(days) if MIN_DAY <= days <= MAX_DAY else days,
    Kind.TIME: time_text,
    Kind.TIMESTAMP: _timestamp,
    Kind.INSTANT: _timestamp,
}


def json_writer(element: Type) -> ToJson | None:
    """Return the function that makes a JSON value of an element that is not NULL; None: it is one as it is."""
    if element.kind is Kind.DECIMAL:
        return _decimal(Decimal(1).scaleb(-element.scale))
    return _WRITERS.get(element.kind)


def _ms_of_day(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def _days(value: date | int) -> int:
    return value if isinstance(value, int) else value.toordinal() - _EPOCH_DAY


def _ms(value: datetime | int) -> int:
    if isinstance(value, int):
        return value
    lapse = value - _EPOCH
    return lapse.days * DAY_MS + lapse.seconds * 1000 + lapse.microseconds // 1000


def _double_of(value: float | str) -> float:
    number = as_element(float(value))
    assert isinstance(number, float)
    return number


def _single_of(value: float | str) -> float:
    return _double_of(float(np.float32(value)))


def _wire(element: Type) -> tuple[Any, FromWire | None]:
    """Return the type that msgspec decodes, and the function that makes a value in row form of it."""
    if element.is_integer:
        return int, None
    if element.is_string:
        return str, None
    if element.is_binary:
        return bytes, None
    match element.kind:
        case Kind.BOOLEAN:
            return bool, None
        case Kind.DECIMAL:
            return Decimal, None
        case Kind.REAL:
            return float | str, _single_of
        case Kind.DOUBLE:
            return float | str, _double_of
        case Kind.DATE:
            return date | int, _days
        case Kind.TIME:
            return time, _ms_of_day
        case _:
            return datetime | int, _ms


class ArrayText:
    """Arrays with elements of one type, as text and back."""

    def __init__(self, element: Type) -> None:
        self._write = json_writer(element)
        wire, self._read = _wire(element)
        self._decode = msgspec.json.Decoder(tuple[wire | None, ...]).decode  # type: ignore[valid-type]
        self._decode_all = msgspec.json.Decoder(list[tuple[wire | None, ...] | None]).decode  # type: ignore[valid-type]

    def text(self, values: Sequence[Any]) -> str:
        """Return the text of an array in row form."""
        write = self._write
        if write is not None:
            values = [None if value is None else write(value) for value in values]
        return _encode(values).decode()

    def values(self, text: str) -> tuple[Any, ...]:
        """Return the array of a text that ``text`` has made."""
        return self._in_row_form(self._decode(text))

    def all_values(self, texts: Iterable[str | None]) -> list[tuple[Any, ...] | None]:
        """Return the array of each text, None for None."""
        found = self._decode_all("[" + ",".join("null" if text is None else text for text in texts) + "]")
        if self._read is None:
            return found
        return [None if each is None else self._in_row_form(each) for each in found]

    def _in_row_form(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        read = self._read
        if read is None:
            return values
        return tuple(None if value is None else read(value) for value in values)


@lru_cache(maxsize=256)
def array_text(kind: Type) -> ArrayText:
    """Return how arrays of type ``kind``, an ARRAY, are written as text."""
    return ArrayText(kind.of_elements)
