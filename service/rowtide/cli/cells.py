"""Values of rows as commands show them.

The input is JSON values with the names of their types: a DATE in days, a TIME and an INTERVAL in
milliseconds or months. The terminal shows values as CAST to VARCHAR writes them, a TIMESTAMP always
with its milliseconds. In JSON output a DATE and a TIME are text, as in JSON messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from rowtide.expr.functions.casts.text_writing import UTC_OFFSET, WRITERS
from rowtide.rows.bytes_text import bytes_text
from rowtide.rows.types import Kind, Type
from rowtide.rowtime.text import time_text

_BY_NAME = {
    kind.value: kind
    for kind in (
        *(Kind.BOOLEAN, Kind.REAL, Kind.DOUBLE, Kind.DATE, Kind.TIME),
        *(Kind.INTERVAL_DAY, Kind.INTERVAL_MONTH),
    )
}
"""Kinds whose values have different forms in JSON and in SQL, by the names of their types."""

ARRAY = " ARRAY"


def cell(value: object, type_name: str) -> str:
    """Return a value of a row as the terminal shows it."""
    if value is None:
        return "NULL"
    if type_name.endswith(ARRAY):
        element = type_name.removesuffix(ARRAY)
        return f"[{', '.join(_element(each, element) for each in list(value))}]"  # type: ignore[call-overload]
    if type_name == Kind.TIMESTAMP.value:
        return time_text(int(str(value)))
    if type_name == Kind.INSTANT.value:
        return time_text(int(str(value))) + UTC_OFFSET
    kind = _BY_NAME.get(type_name)
    return str(value) if kind is None else WRITERS[kind](value)


def _element(value: object, type_name: str) -> str:
    """Return an element of an array as the terminal shows it: text in double quotes."""
    if isinstance(value, bytes):
        return bytes_text(value)
    shown = cell(value, type_name)
    is_text = value is not None and type_name.startswith(("CHAR", "VARCHAR"))
    return json.dumps(shown, ensure_ascii=False) if is_text else shown


def row_cell(value: object, of: Type) -> str:
    """Return a value in row form as the terminal shows it."""
    if of.element is not None:
        return cell(value, str(of))
    return bytes_text(value) if isinstance(value, bytes) else cell(value, of.kind.value)


def offsets_text(held: Mapping[int, int]) -> str:
    """Return the offsets of partitions as the terminal shows them."""
    return ", ".join(f"partition {partition} offset {offset:,}" for partition, offset in sorted(held.items()))


def json_cell(value: object, type_name: str) -> object:
    """Return a value of a row for JSON output."""
    if type_name.endswith(ARRAY) and value is not None:
        return [json_cell(each, type_name.removesuffix(ARRAY)) for each in list(value)]  # type: ignore[call-overload]
    is_text = type_name in (Kind.DATE.value, Kind.TIME.value)
    return cell(value, type_name) if is_text and value is not None else value
