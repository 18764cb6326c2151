"""How a column is read from a JSON message: its path, its unit, its pattern.

See docs/sql/streams.md#json.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import UNSET

from rowtide.codec.format_options import PATH, PATTERN, TIME_UNIT
from rowtide.codec.json.times import counted, patterned, units_of
from rowtide.codec.json.values import FromJson, checked, converter, shown
from rowtide.codec.options import Declared
from rowtide.errors import Reason, RejectedRowError, StatementError
from rowtide.expr.functions.times.time_formats import FormatError, java_pattern
from rowtide.expr.json_path import JsonPathError, JsonSteps, parse_path, show_path
from rowtide.rows.types import Field

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str | None).decode
_decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


def folded(name: str) -> str:
    """Return a name with ASCII letters in lower case. The case of other letters depends on the language."""
    return name.lower() if name.isascii() else name.encode().lower().decode()


@dataclass(frozen=True, slots=True)
class Reading:
    """How one column is read; ``path`` None: the member called as the column, whatever the case of its letters.

    ``plain``: the column declares neither unit nor pattern. ``shown`` is the name of the field in errors.
    """

    path: JsonSteps | None
    convert: FromJson
    plain: bool
    shown: str


def reading_of(declared: Declared, field: Field) -> Reading:
    """Return how a column is read.

    Raises:
      StatementError: its type cannot be read from JSON, or an option does not fit it.
    """
    path = _path(declared, field)
    convert = converter(field.type)
    if convert is None:
        raise StatementError(
            f'column "{field.name}" of {declared.what}: a message cannot carry the type {field.type}',
            hint="Declare it as text or as a number, and convert it in a view.",
        )
    options = declared.of(field.name)
    shown_as = f'field "{field.name}"' + ("" if path is None else f" ({show_path(path)})")
    plain = TIME_UNIT not in options and PATTERN not in options
    if plain:
        return Reading(path, convert, True, shown_as)
    numbers = _numbers(declared, field, convert)
    texts = _texts(declared, field, convert)

    def of_either(value: object) -> object:
        return texts(value) if isinstance(value, str) else numbers(value)

    return Reading(path, of_either, False, shown_as)


def _path(declared: Declared, field: Field) -> JsonSteps | None:
    text = declared.of(field.name).get(PATH)
    if text is None:
        return None
    try:
        return parse_path(text)
    except JsonPathError as error:
        raise declared.error(PATH, str(error), column=field.name, hint=error.hint) from error


def _numbers(declared: Declared, field: Field, otherwise: FromJson) -> FromJson:
    unit = declared.of(field.name).get(TIME_UNIT)
    if unit is None:
        return otherwise
    units = units_of(field.type)
    if not units:
        raise declared.error(
            TIME_UNIT,
            f"the column is {field.type}, not TIMESTAMP, DATE or TIME",
            column=field.name,
            hint="Declare the column as TIMESTAMP, DATE or TIME.",
        )
    if unit not in units:
        raise declared.error(
            TIME_UNIT,
            f'"{unit}" is not a unit of {field.type}',
            column=field.name,
            hint=f"The units are {', '.join(units)}.",
        )
    return checked(field.type, counted(field.type, unit))


def _texts(declared: Declared, field: Field, otherwise: FromJson) -> FromJson:
    pattern = declared.of(field.name).get(PATTERN)
    if pattern is None:
        return otherwise
    if not units_of(field.type):
        raise declared.error(
            PATTERN,
            f"the column is {field.type}, not TIMESTAMP, DATE or TIME",
            column=field.name,
            hint="Declare the column as TIMESTAMP, DATE or TIME.",
        )
    try:
        parts = java_pattern(pattern)
    except FormatError as error:
        raise declared.error(
            PATTERN,
            f'"{pattern}": {error}',
            column=field.name,
            hint="Write it as yyyy-MM-dd HH:mm:ss, with other text in single quotes.",
        ) from error
    return checked(field.type, patterned(field.type, parts))


# ------------------------------------------------------------------ one place


def value_at(message: object, path: JsonSteps) -> object:
    """Return the value at a path of a decoded message; UNSET if it is absent, None for null.

    Raises:
      RejectedRowError: TYPE, a step does not apply to the value.
    """
    value = message
    for taken, step in enumerate(path):
        if value is None or value is UNSET:
            return value
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step, UNSET)
        elif isinstance(step, int) and isinstance(value, list):
            value = value[step] if step < len(value) else UNSET
        else:
            wanted = "an object" if isinstance(step, str) else "an array"
            raise RejectedRowError(Reason.TYPE, f"{show_path(path[:taken])} is {shown(value)}, not {wanted}")
    return value


def text_at(message: bytes, path: JsonSteps) -> str:
    """Return the JSON text of the value at a path, as the message has it; it must exist."""
    raw: bytes | msgspec.Raw = message
    for step in path:
        raw = _decode_members(raw)[step] if isinstance(step, str) else _decode_elements(raw)[step]
    return bytes(raw).decode().strip(" \t\r\n")


def text_of_raw(value: object) -> object:
    """Return the text of a value that msgspec has not decoded.

    Raises:
      ValueError: it is a number or a boolean, or it is not UTF-8.
    """
    if not isinstance(value, msgspec.Raw):
        return value
    given = bytes(value)
    if given[:1] in b"{[":
        return given.decode()
    return _decode_text(given)
