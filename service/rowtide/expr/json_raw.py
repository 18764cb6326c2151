"""JSON as bytes: the values at the places of a text, with their spelling. 1.50 stays 1.50.

A place is a row of steps, as ``json_path`` reads them. Text that is not JSON raises ``JsonTextError``.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rowtide.expr.json_path import JsonRowSteps, JsonSteps

NULL = b"null"

_whole = msgspec.json.Decoder(msgspec.Raw).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode


class JsonTextError(ValueError):
    """A text is not JSON, or not JSON that text can hold."""


def raw_json(text: str) -> bytes:
    """Return JSON text as bytes, without blanks around it.

    Raises:
      JsonTextError: the text is not JSON.
    """
    try:
        return bytes(_whole(text.encode()))
    except RecursionError:
        raise JsonTextError("JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError):
        raise JsonTextError("the text is not JSON") from None


def is_object(found: bytes) -> bool:
    """Return whether JSON is an object."""
    return found[:1] == b"{"


def is_array(found: bytes) -> bool:
    """Return whether JSON is an array."""
    return found[:1] == b"["


def members_of(found: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of an object; of members with one name the last.

    Raises:
      JsonTextError: the text is not JSON.
    """
    try:
        return _members(found)
    except (msgspec.DecodeError, UnicodeError):
        raise JsonTextError("the text is not JSON") from None


def elements_of(found: bytes) -> list[bytes]:
    """Return the elements of an array.

    Raises:
      JsonTextError: the text is not JSON.
    """
    try:
        return [bytes(each) for each in _elements(found)]
    except (msgspec.DecodeError, UnicodeError):
        raise JsonTextError("the text is not JSON") from None


def raw_at(found: bytes, steps: JsonSteps) -> bytes | None:
    """Return the JSON at a place of ``found``, or None if the place does not exist.

    Raises:
      JsonTextError: the text is not JSON.
    """
    at: bytes | None = found
    for step in steps:
        if at is None:
            return None
        below: msgspec.Raw | bytes | None = None
        if isinstance(step, str) and is_object(at):
            below = members_of(at).get(step)
        elif isinstance(step, int) and is_array(at):
            elements = elements_of(at)
            below = elements[step] if -len(elements) <= step < len(elements) else None
        at = None if below is None else bytes(below)
    return at


def rows_at(found: bytes, steps: JsonRowSteps, place: JsonSteps = ()) -> Iterator[tuple[JsonSteps, bytes]]:
    """Yield the values that a path of rows names, with their places, in order.

    As in the lax mode of SQL/JSON, ``[*]`` of what is not an array is the value itself, and a member of an array
    is that of each of its objects.

    Raises:
      JsonTextError: the text is not JSON.
    """
    if not steps:
        yield place, found
        return
    step, *others = steps
    rest = tuple(others)
    if is_array(found):
        elements = elements_of(found)
        if isinstance(step, int):
            if step < len(elements):
                yield from rows_at(elements[step], rest, (*place, step))
            return
        for at, each in enumerate(elements):
            if step is None:
                yield from rows_at(each, rest, (*place, at))
            elif is_object(each):
                yield from rows_at(each, steps, (*place, at))
    elif step is None or step == 0:
        yield from rows_at(found, rest, place)
    elif isinstance(step, str) and is_object(found):
        below = members_of(found).get(step)
        if below is not None:
            yield from rows_at(bytes(below), rest, (*place, step))


def text_of(found: bytes) -> str | None:
    """Return JSON as text: a string without its quotes, null as NULL.

    Raises:
      JsonTextError: the text is not JSON, or a string has a NUL character.
    """
    if found == NULL:
        return None
    try:
        text = _string(found) if found[:1] == b'"' else found.decode()
    except msgspec.DecodeError:
        raise JsonTextError("the text is not JSON") from None
    if "\0" in text:
        raise JsonTextError("the value has a NUL character")
    return text
