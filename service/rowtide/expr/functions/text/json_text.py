"""JSON, also as text: JSON_VALUE, JSON_QUERY, JSON_EXISTS, ``->``, ``->>``, JSON_KEYS, JSON_ARRAY_LENGTH, KAFKA_HEADER.

See docs/sql/expressions.md#json.

A path names one place of the value. A place that does not exist is NULL; text that is not JSON
rejects the row. Values keep their spelling: 1.50 stays 1.50.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowtide.expr.functions.function import ScalarFunction, mismatch, strict
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import always, as_long_as_first, declared, no_columns
from rowtide.expr.json_path import JsonPathError, JsonSteps, parse_path
from rowtide.expr.json_raw import (
    JsonTextError,
    elements_of,
    is_array,
    is_object,
    members_of,
    raw_at,
    raw_json,
    text_of,
)
from rowtide.rows.types import BOOLEAN, INTEGER, JSON, VARCHAR, Type, array_of

JSON_VALUES = {
    (False, False): "JSON_VALUE",
    (True, False): "JSON_VALUE ERROR ON EMPTY",
    (False, True): "JSON_VALUE ERROR ON ERROR",
    (True, True): "JSON_VALUE ERROR ON EMPTY ERROR ON ERROR",
}
"""The names in a plan of JSON_VALUE: by whether it rejects a path that does not exist, and an object or array."""


def _steps(name: str, args: tuple[object, ...]) -> JsonSteps:
    try:
        return parse_path(str(args[1]))
    except JsonPathError as error:
        raise undefined(name, args, str(error)) from error


def _text(name: str, args: tuple[object, ...], found: bytes) -> str | None:
    """Return JSON as text: a string without its quotes, null as NULL."""
    try:
        return text_of(found)
    except JsonTextError as error:
        raise undefined(name, args, str(error)) from None


def _found(name: str, args: tuple[object, ...], steps: JsonSteps) -> bytes | None:
    """Return the JSON at a place of a function's first argument, or None if it does not exist.

    Raises:
      RejectedRowError: the argument is not JSON.
    """
    try:
        return raw_at(raw_json(str(args[0])), steps)
    except JsonTextError as error:
        raise undefined(name, args, str(error)) from None


def _value_or(*, empty: bool, compound: bool) -> Callable[[str, str], str | None]:
    """Return JSON_VALUE that rejects the row if the path is ``empty``, or leads to a ``compound`` value."""

    def value(text: str, path: str) -> str | None:
        args = (text, path)
        found = _found("JSON_VALUE", args, _steps("JSON_VALUE", args))
        if found is None:
            if empty:
                raise undefined("JSON_VALUE", args, "the path does not exist")
            return None
        if found[:1] not in b"{[":
            return _text("JSON_VALUE", args, found)
        if compound:
            raise undefined("JSON_VALUE", args, "the path leads to an object or array")
        return None

    return value


def _keys(text: str) -> tuple[str, ...] | None:
    """Return the names of the members of an object, each once, in their order; None of anything else."""
    found = _whole("JSON_KEYS", text)
    return tuple(members_of(found)) if is_object(found) else None


def _array_length(text: str) -> int | None:
    found = _whole("JSON_ARRAY_LENGTH", text)
    return len(elements_of(found)) if is_array(found) else None


def _header(headers: str, wanted: str) -> str | None:
    """Return the value of the last header of a name, of KAFKA_HEADERS; None if there is none."""
    args = (headers, wanted)
    try:
        pairs = [elements_of(pair) for pair in elements_of(_whole("KAFKA_HEADER", headers))]
        found = [pair[1] for pair in pairs if text_of(pair[0]) == wanted]
        value = found[-1] if found else b"null"
        return value.decode() if is_object(value) else text_of(value)
    except JsonTextError as error:
        raise undefined("KAFKA_HEADER", args, str(error)) from None
    except IndexError:
        raise undefined("KAFKA_HEADER", args, "headers are an array of names and values") from None


def _whole(name: str, text: str) -> bytes:
    try:
        return raw_json(text)
    except JsonTextError as error:
        raise undefined(name, (text,), str(error)) from None


def _query(text: str, path: str) -> str | None:
    args = (text, path)
    found = _found("JSON_QUERY", args, _steps("JSON_QUERY", args))
    return None if found is None or found[:1] not in b"{[" else found.decode()


def _exists(text: str, path: str) -> bool:
    args = (text, path)
    return _found("JSON_EXISTS", args, _steps("JSON_EXISTS", args)) is not None


def _arrow(text: str, step: str | int) -> str | None:
    found = _found("->", (text, step), (step,))
    return None if found is None else found.decode()


def _arrow_text(text: str, step: str | int) -> str | None:
    args = (text, step)
    found = _found("->>", args, (step,))
    return None if found is None else _text("->>", args, found)


def _same_sort(args: Sequence[Type]) -> Type:
    """Return JSON for a part of JSON, text for a part of text."""
    return JSON if args[0] == JSON else as_long_as_first(args)


def _member(name: str, row: Callable[[str, str | int], str | None]) -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        is_json = bool(args) and (args[0].is_text or args[0] == JSON)
        if len(args) != 2 or not is_json or not (args[1].is_text or args[1].is_integer):
            hint = "Write x -> 'name' for a member, x -> 0 for an element; x is JSON, or JSON as text."
            raise mismatch(name, args, hint=hint)
        return _same_sort(args) if name == "->" else as_long_as_first(args)

    return strict(name, resolve, lambda signature: row, no_columns)


JSON_TEXT: Sequence[ScalarFunction] = (
    *(
        declared(name, "jt", as_long_as_first, _value_or(empty=empty, compound=compound), shown="JSON_VALUE")
        for (empty, compound), name in JSON_VALUES.items()
    ),
    declared("JSON_KEYS", "j", always(array_of(VARCHAR)), _keys),
    declared("JSON_ARRAY_LENGTH", "j", always(INTEGER), _array_length),
    declared("KAFKA_HEADER", "jt", as_long_as_first, _header),
    declared("JSON_QUERY", "jt", _same_sort, _query),
    declared("JSON_EXISTS", "jt", always(BOOLEAN), _exists),
    _member("->", _arrow),
    _member("->>", _arrow_text),
)
"""The functions of JSON as text."""
JSON_PATHS = frozenset({*JSON_VALUES.values(), "JSON_QUERY", "JSON_EXISTS"})
"""Functions whose second argument is a path."""
