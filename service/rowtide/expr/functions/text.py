"""Text: lengths and positions count characters, from 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.functions.declaration import Function, mismatch
from rowtide.rows.types import BOOLEAN, INTEGER, Kind, Type

Resolve = Callable[[tuple[Type, ...]], Type]


def _text(length: int | None = None) -> Type:
    return Type(Kind.VARCHAR, length)


def _signature(
    name: str, *, texts: int, integers: tuple[int, ...] = (0,), gives: Type | None = None
) -> Resolve:
    """Make the rule of a function of ``texts`` texts, then as many integers as one of ``integers`` says.

    Without ``gives`` the result is a VARCHAR of the first argument's length.
    """

    def resolve(types: tuple[Type, ...]) -> Type:
        count = len(types) - texts
        fits = count in integers and all(kind.is_text for kind in types[:texts])
        if not fits or not all(kind.is_integer for kind in types[texts:]):
            raise mismatch(name, types)
        return gives or _text(types[0].precision)

    return resolve


def _concat_type(types: tuple[Type, ...]) -> Type:
    if len(types) != 2 or not (all(t.is_text for t in types) or all(t.is_binary for t in types)):
        raise mismatch("||", types, "Both sides are text: write a CAST.")
    lengths = [kind.precision for kind in types]
    total = None if None in lengths else sum(each or 0 for each in lengths)
    return Type(Kind.VARCHAR if types[0].is_text else Kind.VARBINARY, total)


@lru_cache(maxsize=1024)
def _pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Translate a LIKE pattern: % is any text, _ any character.

    Raises:
      RejectedRowError: FUNCTION, if the escape is no character or escapes nothing.
    """
    if escape is not None and len(escape) != 1:
        raise RejectedRowError(Reason.FUNCTION, "the ESCAPE of LIKE is one character")
    parts = []
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            following = next(chars, None)
            if following not in ("%", "_", escape):
                raise RejectedRowError(Reason.FUNCTION, "the ESCAPE of LIKE stands before %, _ or itself")
            parts.append(re.escape(following or ""))
        else:
            parts.append(".*" if char == "%" else "." if char == "_" else re.escape(char))
    return re.compile("".join(parts), re.DOTALL)


def _like_type(types: tuple[Type, ...]) -> Type:
    if len(types) not in (2, 3) or not all(kind.is_text for kind in types):
        raise mismatch("LIKE", types)
    return BOOLEAN


def _like(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    return _pattern(args[1], args[2] if len(args) > 2 else None).fullmatch(args[0]) is not None


def _substring(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    text, start = args[0], args[1]
    end = len(text) + 1
    if len(args) > 2:
        if args[2] < 0:
            raise RejectedRowError(Reason.FUNCTION, f"SUBSTRING has a length below zero: {args[2]}")
        end = start + args[2]
    return text[max(start, 1) - 1 : max(end, 1) - 1]


def _overlay(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    text, put, start = args[:3]
    length = args[3] if len(args) > 3 else len(put)
    if start < 1 or length < 0:
        raise RejectedRowError(Reason.FUNCTION, "OVERLAY begins at 1 or later and has no length below zero")
    return text[: start - 1] + put + text[start - 1 + length :]


def _overlay_type(types: tuple[Type, ...]) -> Type:
    if len(types) not in (3, 4) or not all(t.is_text for t in types[:2]):
        raise mismatch("OVERLAY", types)
    if not all(t.is_integer for t in types[2:]):
        raise mismatch("OVERLAY", types)
    return _text()


def _trim(strip: Callable[[str, str], str]) -> Callable[[Sequence[Any], tuple[Type, ...], Type], object]:
    def row(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
        characters = args[1] if len(args) > 1 else " "
        if len(characters) != 1:
            raise RejectedRowError(Reason.FUNCTION, "TRIM takes away one character")
        return strip(args[0], characters)

    return row


def _trim_type(name: str) -> Resolve:
    def resolve(types: tuple[Type, ...]) -> Type:
        if len(types) not in (1, 2) or not all(kind.is_text for kind in types):
            raise mismatch(name, types)
        return _text(types[0].precision)

    return resolve


def _replace_type(types: tuple[Type, ...]) -> Type:
    if len(types) != 3 or not all(kind.is_text for kind in types):
        raise mismatch("REPLACE", types)
    return _text()


def _initcap(args: Sequence[Any], types: tuple[Type, ...], of: Type) -> object:
    return re.sub(r"[^\W_]+", lambda word: word.group()[0].upper() + word.group()[1:].lower(), args[0])


FUNCTIONS = (
    Function("||", _concat_type, lambda args, types, of: args[0] + args[1]),
    Function("LIKE", _like_type, _like),
    Function("UPPER", _signature("UPPER", texts=1, gives=None), lambda args, types, of: args[0].upper()),
    Function("LOWER", _signature("LOWER", texts=1), lambda args, types, of: args[0].lower()),
    Function("INITCAP", _signature("INITCAP", texts=1), _initcap),
    Function(
        "CHAR_LENGTH",
        _signature("CHAR_LENGTH", texts=1, gives=INTEGER),
        lambda args, types, of: len(args[0]),
    ),
    Function("SUBSTRING", _signature("SUBSTRING", texts=1, integers=(1, 2)), _substring),
    Function(
        "POSITION",
        _signature("POSITION", texts=2, gives=INTEGER),
        lambda args, types, of: args[1].find(args[0]) + 1,
    ),
    Function(
        "REPLACE",
        _replace_type,
        lambda args, types, of: args[0].replace(args[1], args[2]) if args[1] else args[0],
    ),
    Function("OVERLAY", _overlay_type, _overlay),
    Function("TRIM", _trim_type("TRIM"), _trim(lambda text, char: text.strip(char))),
    Function("TRIM_LEADING", _trim_type("TRIM"), _trim(lambda text, char: text.lstrip(char))),
    Function("TRIM_TRAILING", _trim_type("TRIM"), _trim(lambda text, char: text.rstrip(char))),
    Function("LTRIM", _trim_type("LTRIM"), _trim(lambda text, char: text.lstrip(char))),
    Function("RTRIM", _trim_type("RTRIM"), _trim(lambda text, char: text.rstrip(char))),
)
