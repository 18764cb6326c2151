"""CAST of arrays: to arrays of another element type, and to and from JSON and text (docs/sql/arrays.md#cast).

The text of an array is a JSON array (``rows.arrays_as_text``). Text is read in this form or in the form of
PostgreSQL: ``{1,2,NULL}``. Elements are cast one by one, and a message names the first that fails: ``$[2]``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from typing import Any

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.evaluation import ColumnKernel, RowKernel
from rowtide.expr.functions.casts import cast_text
from rowtide.expr.functions.rejections import shown
from rowtide.expr.json_raw import JsonTextError, elements_of, is_array, is_object, raw_json, text_of
from rowtide.rows.arrays_as_text import array_text, as_element
from rowtide.rows.types import VARCHAR, Kind, Type

_MakeRow = Callable[[Type, Type], RowKernel]
_BLANKS = " \t\n\r\f\v"
_QUOTED, _PLAIN = r'"((?:[^"\\]|\\.)*)"', r'((?:[^"\\{}, \t\n\r\f\v]|\\.)(?:[^"\\{},]|\\.)*)'
_ITEM = re.compile(rf"[{_BLANKS}]*(?:{_QUOTED}|{_PLAIN})[{_BLANKS}]*(,|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def is_of_arrays(source: Type, target: Type) -> bool:
    """Return whether a cast is from or to an array."""
    return source.kind is Kind.ARRAY or target.kind is Kind.ARRAY


def is_text(kind: Type) -> bool:
    """Return whether arrays are cast to and from values of a type: text and JSON."""
    return kind.is_text or kind.kind is Kind.JSON


def row(source: Type, target: Type, of_elements: _MakeRow) -> RowKernel:
    """Return the row function of a cast; ``of_elements`` makes that of a cast of elements."""
    if source.element is not None and target.element is not None:
        return _each(source.element, target.element, of_elements)
    if source.element is not None:
        write = array_text(source).text
        fit = cast_text.row(VARCHAR, target)
        return write if target.kind is Kind.JSON else lambda value: fit(write(value))
    return _reader(target)


def columns(source: Type, target: Type) -> ColumnKernel | None:
    """Return the column function of a cast; None where there is none. A column holds arrays as their text."""
    if source.element is None or target.element is not None:
        return None
    return cast_text.columns(VARCHAR, VARCHAR if target.kind is Kind.JSON else target)


def _each(source: Type, target: Type, of_elements: _MakeRow) -> RowKernel:
    kernel: RowKernel = (lambda value: value) if source == target else of_elements(source, target)

    def cast(array: Iterable[object]) -> object:
        return _converted(array, kernel)

    return cast


def _converted(values: Iterable[object], kernel: RowKernel) -> tuple[object, ...]:
    found: list[object] = []
    for at, value in enumerate(values):
        try:
            found.append(None if value is None else as_element(kernel(value)))
        except RejectedRowError as error:
            raise RejectedRowError(error.reason, f"element $[{at}]: {error.message}") from None
    return tuple(found)


def _reader(target: Type) -> RowKernel:
    element = target.of_elements
    kernel: RowKernel = cast_text.row(VARCHAR, element)
    of_json = _base64 if element.is_binary else kernel
    of_postgres = _hexadecimal(kernel) if element.is_binary else kernel

    def read(text: str) -> object:
        try:
            if text.lstrip(_BLANKS).startswith("{") and text.rstrip(_BLANKS).endswith("}"):
                return _converted(postgres_elements(text), of_postgres)
            document = raw_json(text)
            if not is_array(document):
                raise ValueError("it is not an array")
            return _converted(elements_of(document), lambda raw: _element(raw, of_json))
        except ValueError as error:
            raise RejectedRowError(Reason.CAST, f"{shown(text)} is not a valid {target}: {error}") from None

    return read


def _element(raw: bytes, kernel: RowKernel) -> object:
    if is_object(raw) or is_array(raw):
        raise RejectedRowError(Reason.CAST, f"it is {'an object' if is_object(raw) else 'an array'}")
    try:
        text = text_of(raw)
    except JsonTextError as error:
        raise RejectedRowError(Reason.CAST, str(error)) from None
    return None if text is None else kernel(text)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise RejectedRowError(Reason.CAST, f"{shown(text)} is not base64") from None


def _hexadecimal(kernel: RowKernel) -> RowKernel:
    def read(text: Any) -> object:
        if not text.startswith("\\x"):
            return kernel(text)
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            raise RejectedRowError(Reason.CAST, f"{shown(text)} is not hexadecimal") from None

    return read


def postgres_elements(text: str) -> list[str | None]:
    r"""Return the elements of an array as PostgreSQL writes it: ``{a,"b c",NULL}``, with \ before any character.

    Raises:
      ValueError: it is not such an array, or an array of arrays.
    """
    inner = text.strip(_BLANKS)[1:-1].strip(_BLANKS)
    found: list[str | None] = []
    at = 0
    while at < len(inner):
        item = _ITEM.match(inner, at)
        if item is None:
            raise ValueError(
                "it is an array of arrays" if inner[at:].lstrip(_BLANKS)[:1] == "{" else "it is malformed"
            )
        quoted, plain, end = item.groups()
        if quoted is not None:
            found.append(_ESCAPE.sub(r"\1", quoted))
        else:
            found.append(
                None if plain.strip(_BLANKS).upper() == "NULL" else _ESCAPE.sub(r"\1", plain.rstrip(_BLANKS))
            )
        at = item.end()
        if end and at == len(inner):
            raise ValueError("it is malformed")
    return found
