"""Rows to BSON messages: one document a row, with the names and paths of JSON (docs/sql/streams.md#bson)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal, DecimalException
from typing import Any
from uuid import UUID

import bson
import msgspec
from bson import DatetimeMS, Decimal128, Int64

from rowtide.codec.bson.values import DEEPEST, OPTIONS
from rowtide.codec.encode.contract import refuse
from rowtide.codec.encode.json import each_element, json_writer, place_of, refuse_collisions
from rowtide.codec.format_options import PATTERN, TIME_UNIT
from rowtide.codec.json.readings import reading_of
from rowtide.codec.json.times import DAY_MS
from rowtide.codec.options import Declared
from rowtide.rows.types import Field, Kind, RowType

_decode_json = msgspec.json.Decoder(float_hook=Decimal).decode
_INT64 = 1 << 63


class BsonEncoder:
    """Encodes rows of ``row_type``; see ``codec.encode.contract``.

    Raises:
      StatementError: a column's type cannot be written, two columns have one place, or an option is wrong.
    """

    def __init__(self, declared: Declared, row_type: RowType) -> None:
        self._paths = [place_of(declared, field) for field in row_type]
        self._writers = [_writer(declared, field) for field in row_type]
        refuse_collisions(declared, row_type.names, self._paths)

    def encode(self, row: Sequence[object]) -> bytes:
        """Return the value of a row's message; see ``codec.encode.contract.Encoder``."""
        document: dict[str, Any] = {}
        for path, write, value in zip(self._paths, self._writers, row, strict=True):
            inner = document
            for step in path[:-1]:
                inner = inner.setdefault(step, {})
            inner[path[-1]] = None if value is None else write(value)
        try:
            return bson.encode(document, codec_options=OPTIONS)
        except (bson.errors.BSONError, OverflowError) as error:
            refuse(f"BSON cannot carry the row: {str(error)[:200]}")


def _writer(declared: Declared, field: Field) -> Callable[[Any], object]:
    """Return the function that makes a value of BSON of a column's value.

    Raises:
      StatementError: as ``reading_of``.
    """
    reading_of(declared, field)
    options = declared.of(field.name)
    if field.type.element is not None:
        return each_element(_writer(declared, replace(field, type=field.type.element)))
    if PATTERN in options or TIME_UNIT in options or field.type.kind is Kind.TIME:
        return json_writer(declared, field) or _same
    match field.type.kind:
        case Kind.BIGINT:
            return Int64
        case Kind.DECIMAL:
            return lambda value: _decimal(field.name, value)
        case Kind.UUID:
            return UUID
        case Kind.DATE:
            return lambda value: DatetimeMS(value * DAY_MS)
        case Kind.TIMESTAMP | Kind.INSTANT:
            return DatetimeMS
        case Kind.JSON:
            return lambda value: _document(field.name, value)
        case _:
            return _same


def _same(value: object) -> object:
    return value


def _decimal(name: str, value: Decimal) -> Decimal128:
    try:
        return Decimal128(value)
    except DecimalException:
        refuse(f'column "{name}" has more than 34 digits, which BSON cannot carry')


def _document(name: str, text: str) -> object:
    """Return JSON text as BSON has it."""
    try:
        return _of_json(name, _decode_json(text), 0)
    except RecursionError:
        refuse(f'column "{name}" is nested more than {DEEPEST} deep')


def _of_json(name: str, value: object, depth: int) -> object:
    """Return a value of JSON with numbers as BSON has them: exactly, or not at all."""
    if depth > DEEPEST:
        refuse(f'column "{name}" is nested more than {DEEPEST} deep')
    match value:
        case dict():
            return {key: _of_json(name, each, depth + 1) for key, each in value.items()}
        case list():
            return [_of_json(name, each, depth + 1) for each in value]
        case int() if not isinstance(value, bool) and not -_INT64 <= value < _INT64:
            return _decimal(name, Decimal(value))
        case Decimal():
            number = float(value)
            return number if Decimal(repr(number)) == value else _decimal(name, value)
        case _:
            return value
