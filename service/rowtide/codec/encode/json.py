"""Rows to JSON messages: one object a row, with the columns' main spellings (docs/sql/streams.md#written-messages).

NULL is ``null``. Numbers are JSON numbers: a DECIMAL with all its digits. TIMESTAMP, DATE and TIME are text as
ISO 8601, unless the column declares ``time_unit`` or ``pattern``. BINARY is text in base64.
JSON is nested, as it was written.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from rowtide.codec.encode.contract import ToMessage, refuse
from rowtide.codec.format_options import PATH, PATTERN, TIME_UNIT
from rowtide.codec.json.readings import reading_of
from rowtide.codec.json.times import DAY_MS, NANOSECONDS
from rowtide.codec.options import Declared
from rowtide.expr.functions.times.time_formats import DayTime, java_pattern, written
from rowtide.rows.arrays_as_text import MAX_DAY, MIN_DAY, date_text, time_text, timestamp_text
from rowtide.rows.types import Field, Kind, RowType, Type

encode_json = msgspec.json.Encoder(decimal_format="number").encode


class JsonEncoder:
    """Encodes rows of ``row_type``; see ``codec.encode.contract``.

    Raises:
      StatementError: a column's type cannot be written as JSON, or one of its options is wrong.
    """

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        self._names = [field.name for field in row_type]
        self._paths = [place_of(declared, field) for field in row_type]
        self._writers = [json_writer(declared, field) for field in row_type]
        self._flat = (
            [path[0] for path in self._paths] if all(len(path) == 1 for path in self._paths) else None
        )
        refuse_collisions(declared, self._names, self._paths)

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the value of a row's message; see ``codec.encode.contract.Encoder``."""
        values = [
            value if value is None or write is None else write(value)
            for value, write in zip(row, self._writers, strict=True)
        ]
        if self._flat is not None:
            return encode_json(dict(zip(self._flat, values, strict=True)))
        message: dict[str, Any] = {}
        for path, value in zip(self._paths, values, strict=True):
            inner = message
            for step in path[:-1]:
                inner = inner.setdefault(step, {})
            inner[path[-1]] = value
        return encode_json(message)


def main_spelling(name: str) -> str:
    """Return the name of a column in messages: SQL has folded an unquoted name to upper case."""
    return name.lower() if name == name.upper() else name


def json_writer(declared: Declared, field: Field) -> ToMessage | None:
    """Return the function that makes a JSON value of a column's value; None: JSON has the value as it is.

    Raises:
      StatementError: the type cannot be written as JSON, or an option of the column is wrong.
    """
    reading_of(declared, field)
    options = declared.of(field.name)
    kind = field.type
    if kind.element is not None:
        return each_element(json_writer(declared, replace(field, type=kind.element)))
    if PATTERN in options:
        parts = java_pattern(options[PATTERN])
        return lambda value: written(parts, moment(kind, value, field.name))
    if TIME_UNIT in options:
        return _counted(kind, options[TIME_UNIT], field.name)
    match kind.kind:
        case Kind.DOUBLE:
            return lambda value: _finite(value, field.name)
        case Kind.REAL:
            return lambda value: float(str(np.float32(_finite(value, field.name))))
        case Kind.BINARY | Kind.VARBINARY:
            return _base64
        case Kind.JSON:
            return lambda value: msgspec.Raw(str(value).encode())
        case Kind.DATE | Kind.TIME | Kind.TIMESTAMP | Kind.INSTANT:
            return lambda value: _iso(kind, value, field.name)
        case _:
            return None


def each_element(write: ToMessage | None) -> ToMessage:
    """Return the function that makes a list of an array; ``write`` makes a value of an element (None: as it is)."""
    if write is None:
        return list  # type: ignore[return-value]
    return lambda array: [None if each is None else write(each) for each in array]  # type: ignore[attr-defined]


def place_of(declared: Declared, field: Field) -> tuple[str, ...]:
    """Return the path of names at which a message has a column.

    Raises:
      StatementError: the column's type or one of its options is wrong, or its path has an index.
    """
    path = reading_of(declared, field).path
    if path is None:
        return (main_spelling(field.name),)
    names = tuple(step for step in path if isinstance(step, str))
    if len(names) < len(path):
        raise declared.error(
            PATH,
            "an element of an array cannot be written",
            column=field.name,
            hint="Name members of objects only, such as $.user.id.",
        )
    return names


def refuse_collisions(declared: Declared, names: Sequence[str], paths: Sequence[tuple[str, ...]]) -> None:
    """Refuse columns that have one place in the message.

    Raises:
      FormatOptionError: naming two of them.
    """
    for at, (name, path) in enumerate(zip(names, paths, strict=True)):
        for other, taken in zip(names[:at], paths[:at], strict=True):
            if path[: len(taken)] == taken[: len(path)]:
                raise declared.error(
                    PATH,
                    f'it is the place of column "{other}" in the message, too',
                    column=name,
                    hint="Write each column to a place of its own.",
                )


def _finite(value: Any, name: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        refuse(f'column "{name}" is {number}, which JSON cannot carry')
    return number


def _base64(value: Any) -> str:
    return base64.b64encode(value).decode()


def moment(kind: Type, value: Any, name: str) -> DayTime:
    """Return a value as day and time; refuse one that is not within the years 1 to 9999."""
    match kind.kind:
        case Kind.DATE:
            day, ms = value, 0
        case Kind.TIME:
            day, ms = 0, value
        case _:
            day, ms = divmod(value, DAY_MS)
    if not MIN_DAY <= day <= MAX_DAY:
        refuse(f'column "{name}" is not within the years 1 to 9999')
    return DayTime(day, ms)


def _iso(kind: Type, value: Any, name: str) -> str:
    moment(kind, value, name)
    match kind.kind:
        case Kind.DATE:
            return date_text(value)
        case Kind.TIME:
            return time_text(value)
        case _:
            return timestamp_text(value)


def _counted(kind: Type, unit: str, name: str) -> ToMessage:
    """Return the function that counts a time in ``unit`` since 1970 or since midnight; finer digits are cut."""
    grain = NANOSECONDS["d"] if kind.kind is Kind.DATE else NANOSECONDS["ms"]

    def count(value: object) -> object:
        assert isinstance(value, int)
        return value * grain // NANOSECONDS[unit]

    return count
