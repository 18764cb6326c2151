"""Patterns of SQL: SIMILAR TO, and SUBSTRING(text SIMILAR pattern ESCAPE c).

They are translated to expressions of RE2, for rows and columns alike. It tries no match after the other, so a pattern
of a message cannot take a time that grows exponentially.
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
from rowtide.expr.functions import arrow
from rowtide.expr.functions.function import CallSignature, ScalarFunction
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import always, as_long_as_first, declared
from rowtide.expr.functions.text.patterns import pattern_error
from rowtide.rows.arrays import Mask
from rowtide.rows.types import BOOLEAN

REMEMBERED_PATTERNS = 256
"""The number of translated patterns in the cache, for patterns that are not constants."""
_CLASSES = {
    "ALPHA": "a-zA-Z",
    "UPPER": "A-Z",
    "LOWER": "a-z",
    "DIGIT": "0-9",
    "ALNUM": "a-zA-Z0-9",
    "SPACE": " ",
    "WHITESPACE": "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000",
}


@lru_cache(maxsize=REMEMBERED_PATTERNS)
def _whole(pattern: str, escape: str | None = None) -> str:
    """Return the regular expression for whole texts that have a pattern.

    Raises:
      RejectedRowError: the pattern is invalid.
    """
    return rf"(?s)\A(?:{_translated(pattern, escape)})\z"


def _translated(pattern: str, escape: str | None, *, lazy: bool = False) -> str:
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
        elif char == "{" and pattern.startswith(",", at):
            parts.append("{0")
        elif char in ")|{":
            parts.append(char)
        elif char in "*+?}":
            parts.append(f"{char}?" if lazy else char)
        else:
            parts.append(re.escape(char))
    regex = "".join(parts)
    why = pattern_error(regex)
    if why is not None:
        raise wrong(f"{why:.100}")
    return regex


def _character_set(inner: str, wrong: Callable[[str], RejectedRowError]) -> str:
    """Translate what is in [ ]."""
    negated = inner.startswith("^")
    pieces = re.split(rf"\[:({'|'.join(_CLASSES)}):\]", inner.removeprefix("^"))
    if pieces == [""] or any("[" in piece for piece in pieces[::2]):
        raise wrong("the character set does not exist")
    translated = [
        _CLASSES[piece] if place % 2 else re.sub(r"[\\^\[\]&~|]", r"\\\g<0>", piece)
        for place, piece in enumerate(pieces)
    ]
    return f"[{'^' if negated else ''}{''.join(translated)}]"


def _similar(text: str, pattern: str, escape: str | None = None) -> object:
    return pc.match_substring_regex(pa.array([text], pa.string()), _whole(pattern, escape))[0].as_py()


def _similar_columns(signature: CallSignature) -> ColumnKernel | None:
    text, *rest = signature.constants
    if text is not None or not all(isinstance(each, str) for each in rest):
        return None
    try:
        whole = _whole(*map(str, rest))
    except RejectedRowError:
        # Evaluate row by row, so that each row has its own error.
        return None

    def match(texts: Any, *constants: Any) -> tuple[Any, Mask | None]:
        del constants
        return arrow.flags(pc.match_substring_regex(texts, whole)), None

    return match


def _part(text: str, pattern: str, escape: str) -> object:
    """Return the match between two ``escape"`` of a pattern; None without a match."""
    if len(escape) != 1:
        raise undefined("SUBSTRING", (text, pattern, escape), "the escape is one character")
    parts = pattern.split(f'{escape}"')
    if len(parts) != 3:
        why = f'the pattern has two {escape}" around the part that is wanted'
        raise undefined("SUBSTRING", (text, pattern, escape), why)
    before, wanted, after = (_translated(part, escape, lazy=place != 1) for place, part in enumerate(parts))
    whole = rf"(?s)\A(?:{before})(?P<found>{wanted})(?:{after})\z"
    return pc.struct_field(pc.extract_regex(pa.array([text], pa.string()), whole), "found")[0].as_py()


SIMILAR: Sequence[ScalarFunction] = (
    declared("SIMILAR TO", "tt?t", always(BOOLEAN), _similar, _similar_columns),
    declared("SUBSTRING SIMILAR", "ttt", as_long_as_first, _part, shown="SUBSTRING"),
)
