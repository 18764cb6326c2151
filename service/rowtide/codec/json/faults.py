"""What is wrong with bytes that are not JSON, and JSON whose text is not Unicode (docs/sql/streams.md#json).

Text may have a surrogate without its pair, or bytes that are not UTF-8. That is a fault of the values that have it, not
of the message, so it is replaced by a marker that no text has.
"""

from __future__ import annotations

import re

import msgspec

_NONCHARACTERS = ("\ufdd0", "\ufdd1")
"""Characters that Unicode reserves for programs."""
_NOT_UTF_8 = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8, after ``decode(errors="surrogateescape")``."""
_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""Escapes of text: a pair of surrogates, a surrogate alone, which is the group, or another."""
_SURROGATE = "text has a surrogate without its pair"
_HEADER = 5
_decode = msgspec.json.Decoder().decode


def without_lone_surrogates(message: bytes) -> tuple[bytes, bytes] | None:
    """Return a message with marked digits in place of lone surrogates, and the marker; None if it has none."""
    marker = _marker(_NONCHARACTERS[0], message)
    marked = _ESCAPES.sub(lambda each: each[0] if each[1] is None else marker + each[1], message)
    return None if marked == message else (marked, marker)


def with_lone_surrogates(part: bytes, marker: bytes) -> bytes:
    """Return a part of the message that ``without_lone_surrogates`` returned as it was."""
    return part.replace(marker, rb"\u")


def marked(message: bytes) -> tuple[bytes, dict[str, str]]:
    """Return a message whose text is Unicode, and what is wrong with values that have a marker, by marker."""
    whys: dict[str, str] = {}
    try:
        message.decode()
    except UnicodeDecodeError as error:
        marker = _marker(_NONCHARACTERS[1], message).decode()
        whys[marker] = f"text is not UTF-8: {error.reason}"
        message = _NOT_UTF_8.sub(marker, message.decode(errors="surrogateescape")).encode()
    found = without_lone_surrogates(message)
    if found is not None:
        message, marker_bytes = found
        whys[marker_bytes.decode()] = _SURROGATE
    return message, whys


def _marker(character: str, message: bytes) -> bytes:
    """Return a text of one character that is not in a message, neither as it is nor as escapes."""
    marker, escaped = character, f"\\u{ord(character):04x}"
    while marker.encode() in message or (escaped * len(marker)).encode() in message.lower():
        marker += marker
    return marker.encode()


def why_not_json(given: bytes, what: str = "the message") -> str | None:
    """Return why bytes, which errors name ``what``, are not JSON; None if they are. Bytes are counted from 0."""
    if not given.strip(b" \t\r\n"):
        return f"{what} is empty"
    if given.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return f"{what} begins with a byte order mark"
    if given[:1] == b"\0" and len(given) >= _HEADER:
        number = int.from_bytes(given[1:_HEADER], "big")
        return f"{what} begins with the header of a Schema Registry: schema {number}"
    # Each fault of text is replaced by one of the same length, so that bytes count as they were sent.
    text = given.decode(errors="surrogateescape")
    same = _NOT_UTF_8.sub("?", text).encode()
    same = _ESCAPES.sub(lambda each: each[0] if each[1] is None else rb"\ufffd", same)
    try:
        _decode(same)
    except RecursionError:
        return "JSON is nested too deeply"
    except msgspec.DecodeError as error:
        return str(error)
    except ArithmeticError:
        return None
    return None
