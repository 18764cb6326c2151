"""Regular expressions: REGEXP_LIKE _COUNT _REPLACE _SUBSTR _EXTRACT.

The expressions are those of RE2, which Arrow uses: their time is linear in the text. Rows and columns
use the same code, so that they agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.expr.evaluation import ColumnKernel
from rowtide.expr.functions import arrow
from rowtide.expr.functions.function import CallSignature, Resolve, ScalarFunction
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import always, any_length, as_long_as_first, declared
from rowtide.rows.arrays import Mask
from rowtide.rows.types import BOOLEAN, INTEGER

_FLAGS = frozenset("ims")
REMEMBERED_PATTERNS = 256

_Columns = Callable[..., Any]
"""Takes an Arrow array of texts, a pattern and the further texts; returns an Arrow array."""


def _with_flags(name: str, pattern: str, flags: str) -> str:
    """Return a pattern with inline flags.

    i ignores case, with m ^ and $ match at each line, with s . matches a line end.

    Raises:
      RejectedRowError: the flag does not exist.
    """
    if not flags_of(name).issuperset(flags):
        raise undefined(name, (pattern, flags), f"the flags are {', '.join(sorted(flags_of(name)))}")
    # All matches are replaced anyway.
    given = sorted(set(flags) - {"g"})
    return f"(?{''.join(given)}){pattern}" if given else pattern


def flags_of(name: str) -> frozenset[str]:
    """Return the flags that a function of expressions takes."""
    return _FLAGS | {"g"} if name == "REGEXP_REPLACE" else _FLAGS


def _regular(name: str, further: int, result: Resolve, compute: _Columns, out: Any) -> ScalarFunction:
    """Declare a function of a text, a pattern, ``further`` texts and, if they are given, flags."""

    def one(*args: str) -> object:
        text, pattern, *rest = args
        whole = _with_flags(name, pattern, rest[further] if len(rest) > further else "")
        try:
            return compute(pa.array([text], pa.string()), whole, *rest[:further])[0].as_py()
        except pa.ArrowInvalid as error:
            raise undefined(name, args, _why(error)) from error

    def columnar(signature: CallSignature) -> ColumnKernel | None:
        text, *rest = signature.constants
        if out is None or text is not None or not all(isinstance(each, str) for each in rest):
            return None
        pattern, *others = (str(each) for each in rest)
        if len(others) > further and not flags_of(name).issuperset(others[further]):
            return None
        whole = _with_flags(name, pattern, others[further] if len(others) > further else "")
        try:
            compute(pa.array([""], pa.string()), whole, *others[:further])
        except pa.ArrowInvalid:
            # Evaluate row by row, so that each row has its own error.
            return None

        def all_rows(texts: Any, *constants: Any) -> tuple[Any, Mask | None]:
            del constants
            return out(compute(texts, whole, *others[:further])), None

        return all_rows

    return declared(name, "tt" + "t" * further + "?t", result, one, columnar)


def groups_of(pattern: str) -> int:
    """Return how many groups a regular expression has."""
    return _in_one_group(pattern)[1]


def pattern_error(pattern: str) -> str | None:
    """Return why a regular expression is invalid; None where it is valid."""
    try:
        pc.match_substring_regex(pa.array([""], pa.string()), pattern)
    except pa.ArrowInvalid as error:
        return _why(error)
    return None


def _why(error: Exception) -> str:
    return str(error).removeprefix("Invalid regular expression: ")


@lru_cache(maxsize=REMEMBERED_PATTERNS)
def _in_one_group(pattern: str, group: int = 0) -> tuple[str, int]:
    """Return a pattern in which one group has a name and is the only one; group 0 is the whole match.

    The other groups of the pattern become such as capture nothing. Return also how many there are.
    """
    found, at, in_set, groups = [], 0, False, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            found.append(pattern[at : at + 2])
            at += 2
            continue
        if char == "[" and not in_set:
            # A ] that comes first is one of the set.
            first = re.compile(r"\[\^?\]?").match(pattern, at)
            opening = "[" if first is None else first.group()
            found.append(opening)
            at, in_set = at + len(opening), True
            continue
        if char == "]":
            in_set = False
        if char == "(" and not in_set:
            named = re.compile(r"\(\?P?<\w+>").match(pattern, at)
            if named is not None or pattern[at + 1 : at + 2] != "?":
                groups += 1
                found.append("(?P<found>" if groups == group else "(?:")
                at = at + 1 if named is None else named.end()
                continue
        found.append(char)
        at += 1
    whole = "".join(found)
    return whole if group else f"(?P<found>{whole})", groups


def _found(texts: Any, pattern: str) -> Any:
    return pc.struct_field(pc.extract_regex(texts, _in_one_group(pattern)[0]), "found")


def _extract() -> ScalarFunction:
    """Declare REGEXP_EXTRACT(text, pattern [, group]): a group of the first match, 0 the whole one."""

    def one(text: str, pattern: str, group: int = 0) -> object:
        args = (text, pattern, group)
        named, groups = _in_one_group(pattern, group)
        try:
            if not 0 <= group <= groups:
                why = pattern_error(pattern) or f"group {group} does not exist, the expression has {groups}"
                raise undefined("REGEXP_EXTRACT", args, why)
            texts = pa.array([text], pa.string())
            return pc.struct_field(pc.extract_regex(texts, named), "found")[0].as_py()
        except pa.ArrowInvalid as error:
            raise undefined("REGEXP_EXTRACT", args, _why(error)) from error

    return declared("REGEXP_EXTRACT", "tt?i", as_long_as_first, one)


_REFERENCE = re.compile(r"\\(.)", re.DOTALL)


def _replaced(texts: Any, pattern: str, replacement: str) -> Any:
    return pc.replace_substring_regex(texts, pattern, replacement)


_ASSERTS = re.compile(r"(?<!\[)\^|\$|\\[AbBz]")
"""What an expression says about the place of a match."""


def _counted(texts: Any, pattern: str) -> Any:
    """Count matches: after one that is empty, the search continues at the next character.

    Arrow's count forgets the text before the rest of the search, so an expression that asserts a place has as
    many matches as are replaced. It continues at the next byte, so it counts one match too many for each byte
    within a character, if the expression can be empty, unless a match has the character.
    """
    if _ASSERTS.search(pattern):
        with_mark, without = (pc.replace_substring_regex(texts, pattern, mark) for mark in ("-", ""))
        return pc.subtract(pc.binary_length(with_mark), pc.binary_length(without))
    found = pc.count_substring_regex(texts, pattern)
    if not _can_be_empty(pattern):
        return found
    outside = pc.replace_substring_regex(texts, pattern, "")
    within = pc.subtract(pc.binary_length(outside), pc.utf8_length(outside))
    return pc.subtract(found, within)


@lru_cache(maxsize=REMEMBERED_PATTERNS)
def _can_be_empty(pattern: str) -> bool:
    """Return whether an expression matches the empty text between two bytes of one character."""
    return bool(pc.match_substring_regex(pa.array(["é"]), rf"\A\C(?:{pattern})\C\z")[0].as_py())


PATTERNS: Sequence[ScalarFunction] = (
    _regular("REGEXP_LIKE", 0, always(BOOLEAN), pc.match_substring_regex, arrow.flags),
    _regular(
        "REGEXP_COUNT",
        0,
        always(INTEGER),
        _counted,
        lambda found: arrow.numbers(found, "int32"),
    ),
    _regular("REGEXP_REPLACE", 1, any_length, _replaced, lambda texts: texts),
    _regular("REGEXP_SUBSTR", 0, as_long_as_first, _found, None),
    _extract(),
)
