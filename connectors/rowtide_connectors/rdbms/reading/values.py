"""Values of a database as values of JSON, Decimal or bytes, which the service decodes like a message."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite

from rowtide_connectors.rdbms.sql_type import SqlType

Plain = Callable[[object], object]


def plain_value(declared: SqlType) -> Plain:
    """Return the function that makes a plain value of a value that fills a column of type ``declared``."""
    if declared.element is not None:
        is_binary = declared.element.name in ("BINARY", "VARBINARY")
        return _array(_hexadecimal if is_binary else plain_value(declared.element))
    if declared.name == "BOOLEAN":
        return _truth
    if declared.name == "TIME":
        return _time
    return _plain


def _array(element: Plain) -> Plain:
    """Return the function that makes a list of an array, or of a JSON array as text."""

    def plain(value: object) -> object:
        if isinstance(value, str):
            try:
                value = json.loads(value, parse_float=Decimal)
            except ValueError:
                return value
        if not isinstance(value, list):
            return _plain(value)
        return [_as_json(None if each is None else element(each)) for each in value]

    return plain


def _hexadecimal(value: object) -> object:
    """Return the bytes of a text as PostgreSQL writes bytes in JSON."""
    if isinstance(value, str) and value.startswith("\\x"):
        return bytes.fromhex(value[2:])
    return _plain(value)


def _as_json(value: object) -> object:
    """Return an element as JSON has it: bytes in base64."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | str() | bytes():
            return value
        case float() | Decimal():
            # JSON has neither NaN nor infinity.
            return value if isfinite(value) else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case memoryview() | bytearray():
            return bytes(value)
        case dict() | list():
            return json.dumps(value, default=str)
        case _:
            return str(value)


def _truth(value: object) -> object:
    """Return the BOOLEAN of a database that stores 0 and 1."""
    return bool(value) if isinstance(value, int) and value in (0, 1) else _plain(value)


def _time(value: object) -> object:
    """Return the text of a TIME that the driver returns as a time span."""
    if isinstance(value, timedelta) and timedelta(0) <= value < timedelta(days=1):
        return (datetime.min + value).time().isoformat()
    return _plain(value)
