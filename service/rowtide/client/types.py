"""SQL types by their text, and the values of an answer of the service as values of Python."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ARRAY = " ARRAY"


def moment(milliseconds: int) -> datetime:
    """Return a rowtime or TIMESTAMP (ms) as a datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _time(milliseconds: int) -> time:
    return moment(milliseconds).time()


def _date(days: int) -> date:
    return date.fromordinal(_EPOCH.toordinal() + days)


def _span(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


_FROM_JSON: dict[str, Callable[[Any], Any]] = {
    "BIGINT": int,
    "REAL": float,
    "DOUBLE": float,
    "DECIMAL": Decimal,
    "BINARY": base64.b64decode,
    "VARBINARY": base64.b64decode,
    "DATE": _date,
    "TIME": _time,
    "TIMESTAMP": moment,
    "TIMESTAMP WITH TIME ZONE": moment,
    "INTERVAL DAY TO SECOND": _span,
}


def base_of(type_text: str) -> str:
    """Return a type without its digits or length."""
    return type_text.partition("(")[0].strip()


def converter(type_text: str) -> Callable[[Any], Any]:
    """Return the function that makes a value of Python of one of JSON; null is None."""
    if type_text.endswith(ARRAY):
        of_element = converter(type_text.removesuffix(ARRAY))
        return lambda value: None if value is None else [of_element(each) for each in value]
    convert = _FROM_JSON.get(base_of(type_text))
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


class TypeObject:
    """A group of SQL types, which is equal to each type code of the group (PEP 249)."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        return base_of(other) in self._names if isinstance(other, str) else self is other

    def __hash__(self) -> int:
        return hash(self._names)


STRING = TypeObject("CHAR", "VARCHAR", "UUID", "JSON")
BINARY = TypeObject("BINARY", "VARBINARY")
NUMBER = TypeObject("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "REAL", "DOUBLE", "DECIMAL")
DATETIME = TypeObject("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
ROWID = TypeObject()
