"""Texts of XML to values of columns, and back: the lexical forms of XML Schema (docs/sql/streams.md#xml)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation

import msgspec

from rowtide.codec.encode.contract import refuse
from rowtide.codec.encode.json import json_writer
from rowtide.codec.format_options import PATH, PATTERN, TIME_UNIT
from rowtide.codec.json.readings import Reading, reading_of
from rowtide.codec.json.values import NotOfTypeError, checked
from rowtide.codec.options import Declared
from rowtide.errors import StatementError
from rowtide.rows.types import Field, Kind

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_BLANKS = " \t\r\n"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may have (XML 1.0, section 2.2)."""


def text_reader(declared: Declared, field: Field) -> Callable[[str], object]:
    """Return the function that makes a value of a column's text; it raises RejectedRowError (TYPE).

    Raises:
      StatementError: no message can carry the type, or ``time_unit`` or ``pattern`` is wrong.
    """
    reading = _reading(declared, field)
    convert = reading.convert
    kind, options = field.type, declared.of(field.name)

    def number(value: object) -> object:
        text = str(value)
        if _NUMBER.fullmatch(text) is None:
            raise NotOfTypeError
        try:
            return convert(Decimal(text))
        except InvalidOperation:
            raise NotOfTypeError("it is out of range") from None

    def boolean(value: object) -> object:
        found = _BOOLEANS.get(str(value).lower())
        if found is None:
            raise NotOfTypeError("it is neither true nor false")
        return found

    if kind.is_text:
        return convert
    if kind.kind is Kind.BOOLEAN:
        convert_text = checked(kind, boolean)
    elif kind.is_numeric or (TIME_UNIT in options and PATTERN not in options):
        convert_text = checked(kind, number)
    else:
        convert_text = convert
    return lambda text: convert_text(text.strip(_BLANKS))


def text_writer(declared: Declared, field: Field) -> Callable[[object], str]:
    """Return the function that makes the text of a column's value.

    The function raises RejectedRowError (CONSTRAINT) for NaN, an infinite number, and a character that XML lacks.

    Raises:
      StatementError: as ``text_reader``.
    """
    write = json_writer(_without_paths(declared), field)

    def written(value: object) -> str:
        if isinstance(value, float) and not math.isfinite(value):
            refuse(f'column "{field.name}" is {value}, which is not written as XML')
        made = value if write is None else write(value)
        text = _shown(made)
        wrong = _NOT_XML.search(text)
        if wrong is not None:
            refuse(f'column "{field.name}" has character U+{ord(wrong[0]):04X}, which XML cannot carry')
        return text

    return written


def _shown(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case msgspec.Raw():
            return bytes(value).decode()
        case _:
            return str(value)


def _without_paths(declared: Declared) -> Declared:
    """Return the declarations without paths, which are not those of JSON."""
    columns = {
        column: {name: text for name, text in options.items() if name != PATH}
        for column, options in declared.columns.items()
    }
    return replace(declared, columns=columns)


def _reading(declared: Declared, field: Field) -> Reading:
    if field.type.element is not None:
        raise StatementError(
            f'column "{field.name}" of {declared.what}: XML cannot carry the type {field.type}',
            hint="Declare it as VARCHAR: a column of text holds the XML of an element.",
        )
    return reading_of(_without_paths(declared), field)
