"""Parts of text, padding and repetition: LEFT RIGHT LPAD RPAD REPEAT REVERSE SPLIT_PART, and SIMILAR TO.

Characters are Unicode code points. Only SPLIT_PART has a kernel over columns: the others
are computed row by row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.errors import RejectedRowError
from rowtide.expr.evaluation import ColumnKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import always, any_length, as_long_as_first, declared
from rowtide.rows.arrays import Mask
from rowtide.rows.types import BOOLEAN

MAX_CHARACTERS = 10_000_000
"""The longest text that REPEAT, LPAD and RPAD make: more would be a mistake, and fill the memory."""
REMEMBERED_PATTERNS = 256
"""The number of translated patterns in the cache, for patterns that are not constants."""


def _left(text: str, count: int) -> str:
    return text[: max(count, 0)]


def _right(text: str, count: int) -> str:
    return text[max(len(text) - max(count, 0), 0) :]


def _pad(name: str, *, before: bool) -> Callable[..., str]:
    def pad(text: str, length: int, filling: str = " ") -> str:
        if length > MAX_CHARACTERS:
            raise undefined(name, (text, length, filling), f"more than {MAX_CHARACTERS} characters")
        missing = length - len(text)
        if missing <= 0 or not filling:
            return text[: max(length, 0)]
        added = (filling * (missing // len(filling) + 1))[:missing]
        return added + text if before else text + added

    return pad


def _repeat(text: str, count: int) -> str:
    if len(text) * count > MAX_CHARACTERS:
        raise undefined("REPEAT", (text, count), f"more than {MAX_CHARACTERS} characters")
    return text * max(count, 0)


def _split_part(text: str, separator: str, number: int) -> str:
    """Return the part of ``text`` between separators, counted from 1, from the end if it is negative."""
    if number == 0:
        raise undefined("SPLIT_PART", (text, separator, number), "parts are counted from 1")
    parts = text.split(separator) if separator else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def _split_part_columns(signature: CallSignature) -> ColumnKernel | None:
    text, separator, number = signature.constants
    if text is not None or not isinstance(separator, str) or not isinstance(number, int):
        return None
    if not separator or not number:
        return None

    def split(texts: Any, *rest: Any) -> tuple[Any, Mask | None]:
        del rest
        # Text after the requested part need not be split.
        parts = pc.split_pattern(texts, separator, max_splits=number if number > 0 else None)
        edges = parts.offsets.to_numpy()
        place = edges[:-1] + number - 1 if number > 0 else edges[1:] + number
        there = (place >= edges[:-1]) & (place < edges[1:])
        found = parts.values.take(pa.array(place, mask=~there))
        return pc.fill_null(found, ""), None

    return split


# ---------------------------------------------------------------- SIMILAR TO

_CLASSES = {
    "ALPHA": "a-zA-Z",
    "UPPER": "A-Z",
    "LOWER": "a-z",
    "DIGIT": "0-9",
    "ALNUM": "a-zA-Z0-9",
    "SPACE": " ",
    "WHITESPACE": r"\s",
}


@lru_cache(maxsize=REMEMBERED_PATTERNS)
def _similar_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    return re.compile(similar_regex(pattern, escape), re.DOTALL)


def similar_regex(pattern: str, escape: str | None, *, lazy: bool = False) -> str:
    """Translate a pattern of SIMILAR TO: % _ | * + ? {n,m} ( ) [..] have a meaning, all else is itself.

    With ``lazy`` it matches as little as it can.

    Raises:
      RejectedRowError: the pattern is invalid.
    """

    def wrong(why: str) -> RejectedRowError:
        return undefined("SIMILAR TO", (pattern,) if escape is None else (pattern, escape), why)

    if escape is not None and len(escape) != 1:
        raise wrong("ESCAPE is one character")
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == escape:
            if at == len(pattern):
                raise wrong("the pattern ends with the escape character")
            parts.append(re.escape(pattern[at]))
            at += 1
        elif char == "[":
            end = pattern.find("]", at + 1)
            while pattern.startswith("[:", at) and end >= 0 and pattern[end - 1] == ":":
                end = pattern.find("]", end + 1)
            if end < 0:
                raise wrong("a [ is not closed")
            parts.append(_character_set(pattern[at:end], wrong))
            at = end + 1
        elif char == "%":
            parts.append(".*?" if lazy else ".*")
        elif char == "_":
            parts.append(".")
        elif char == "(":
            parts.append("(?:")
        elif char in ")|{":
            parts.append(char)
        elif char in "*+?}":
            parts.append(f"{char}?" if lazy else char)
        else:
            parts.append(re.escape(char))
    regex = "".join(parts)
    try:
        re.compile(regex)
    except re.error as error:
        raise wrong(str(error.msg)) from error
    return regex


def _character_set(inner: str, wrong: Callable[[str], RejectedRowError]) -> str:
    """Translate what is in [ ]."""
    negated = inner.startswith("^")
    rest = inner.removeprefix("^")
    for name, characters in _CLASSES.items():
        rest = rest.replace(f"[:{name}:]", f"\0{name}\0")
        del characters
    if not rest or "[" in rest:
        raise wrong("the character set does not exist")
    pieces = rest.split("\0")
    translated = [
        _CLASSES[piece] if place % 2 else re.sub(r"[\\^\[\]&~|]", r"\\\g<0>", piece)
        for place, piece in enumerate(pieces)
    ]
    return f"[{'^' if negated else ''}{''.join(translated)}]"


def _similar(text: str, pattern: str, escape: str | None = None) -> bool:
    return _similar_pattern(pattern, escape).fullmatch(text) is not None


TEXT_PARTS: Sequence[ScalarFunction] = (
    declared("LEFT", "ti", as_long_as_first, _left),
    declared("RIGHT", "ti", as_long_as_first, _right),
    declared("LPAD", "ti?t", any_length, _pad("LPAD", before=True)),
    declared("RPAD", "ti?t", any_length, _pad("RPAD", before=False)),
    declared("REPEAT", "ti", any_length, _repeat),
    declared("REVERSE", "t", as_long_as_first, lambda text: text[::-1]),
    declared("SPLIT_PART", "tti", as_long_as_first, _split_part, _split_part_columns),
    declared("SIMILAR TO", "tt?t", always(BOOLEAN), _similar),
)
