"""Text: || LIKE ILIKE UPPER LOWER INITCAP CHAR_LENGTH SUBSTRING TRIM POSITION REPLACE OVERLAY.

Characters are Unicode code points, positions begin at 1. Upper and lower case are converted character
by character, and only to single characters, so text keeps its length (``ß`` is unchanged). || takes
binary strings too.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.errors import RejectedRowError
from rowtide.expr.evaluation import ColumnKernel
from rowtide.expr.functions import arrow
from rowtide.expr.functions.function import CallSignature, ScalarFunction, mismatch, strict
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import always, any_length, as_long_as_first, declared
from rowtide.rows.arrays import Mask
from rowtide.rows.types import BOOLEAN, INTEGER, Kind, Type

_WORD = re.compile(r"[^\W_]+")
REMEMBERED_PATTERNS = 256
"""The number of translated LIKE patterns in the cache, for patterns that are not constants."""


def _together(args: Sequence[Type]) -> Type:
    """Return the type of two texts, or two binary strings, after one another."""
    first, second = args[0].precision, args[1].precision
    kind = Kind.VARCHAR if args[0].is_text else Kind.VARBINARY
    return Type(kind, None if first is None or second is None else first + second)


# ------------------------------------------------------------- concatenation


def _concat() -> ScalarFunction:
    def resolve(args: Sequence[Type]) -> Type:
        if len(args) == 2 and (all(a.is_text for a in args) or all(a.is_binary for a in args)):
            return _together(args)
        raise mismatch("||", args, hint="CAST values of other types to VARCHAR.")

    def columnar(signature: CallSignature) -> ColumnKernel:
        nothing: object = "" if signature.result.is_text else b""

        def join(first: Any, second: Any) -> tuple[Any, Mask | None]:
            between = pa.scalar(nothing, type=first.type)
            parts = (arrow.operand(signature, 0, first), arrow.operand(signature, 1, second))
            return pc.binary_join_element_wise(*parts, between), None

        return join

    return strict("||", resolve, lambda signature: operator.add, columnar)


# ---------------------------------------------------------------------- LIKE


@lru_cache(maxsize=REMEMBERED_PATTERNS)
def _pattern(pattern: str, escape: str | None, name: str = "LIKE") -> tuple[re.Pattern[str], str]:
    r"""Return a regex, and the pattern in Arrow's form, with \ as escape.

    % is any text, _ any character. A pattern of ILIKE matches text in lower case.

    Raises:
      RejectedRowError: the escape is not one character, or comes before an ordinary one.
    """
    if escape is not None and len(escape) != 1:
        raise undefined(name, (pattern, escape), "ESCAPE is one character")
    segments: list[list[str]] = [[]]
    plain = []
    chars = iter(pattern)
    for char in chars:
        literal = char
        if char == escape:
            literal = next(chars, "")
            if literal not in ("%", "_", escape):
                raise undefined(
                    name, (pattern, escape), "the escape character must be followed by %, _ or itself"
                )
        elif char in "%_":
            if char == "%":
                segments.append([])
            else:
                segments[-1].append(".")
            plain.append(char)
            continue
        if name == "ILIKE":
            literal = _lower(literal)
        segments[-1].append(re.escape(literal))
        plain.append("\\" + literal if literal in "%_\\" else literal)
    first, *rest = map("".join, segments)
    # The first place of a segment leaves the most text for the others: no other one is tried.
    regex = [first, *(f"(?>.*?{each})" for each in rest[:-1]), *(f".*{each}" for each in rest[-1:])]
    return re.compile("".join(regex), re.DOTALL), "".join(plain)


def _like(name: str) -> ScalarFunction:
    """Declare LIKE, or ILIKE: as LIKE of both in lower case."""
    in_any_case = name == "ILIKE"

    def resolve(args: Sequence[Type]) -> Type:
        if len(args) not in (2, 3) or not all(arg.is_text for arg in args):
            raise mismatch(name, args, hint="It compares texts: CAST(x AS VARCHAR) writes a value as text.")
        return BOOLEAN

    def row(text: str, pattern: str, escape: str | None = None) -> bool:
        regex, _ = _pattern(pattern, escape, name)
        return regex.fullmatch(_lower(text) if in_any_case else text) is not None

    def columnar(signature: CallSignature) -> ColumnKernel | None:
        pattern, escape = signature.constants[1], signature.constants[2:]
        if not isinstance(pattern, str) or None in escape:
            return None

        def match(texts: Any, *rest: Any) -> tuple[Any, Mask | None]:
            del rest
            if not in_any_case:
                return arrow.flags(pc.match_like(texts, plain)), None
            found = arrow.flags(pc.match_like(pc.ascii_lower(texts), plain))
            return found, None if arrow.is_ascii(texts) else ~arrow.flags(pc.string_is_ascii(texts))

        def fail(texts: Any, *rest: Any) -> tuple[Any, Mask | None]:
            del rest
            return np.zeros(len(texts), dtype=np.bool_), np.ones(len(texts), dtype=np.bool_)

        try:
            plain = _pattern(pattern, escape[0] if escape else None, name)[1]
        except RejectedRowError:
            return fail
        return match

    return strict(name, resolve, lambda signature: row, columnar)


# ----------------------------------------------------------------- cases


def _upper(text: str) -> str:
    if text.isascii():
        return text.upper()
    return "".join(map(_upper_of, text))


def _lower(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Only İ has more than one character in lower case: the first is the i that it becomes by itself.
    return "".join(char.lower()[0] for char in text)


def _upper_of(char: str) -> str:
    """Return the simple upper case of Unicode: one character, or ``char`` itself where there is none, as of ß."""
    for changed in (char.upper(), char.title()):
        if len(changed) == 1:
            return changed
    return char


def _initcap(text: str) -> str:
    """Convert the first letter of every run of letters and digits to upper case, the others to lower case."""
    return _WORD.sub(lambda word: _upper(word.group()[0]) + _lower(word.group()[1:]), text)


def _case(name: str, row: Callable[[str], str], ascii_function: Any) -> ScalarFunction:
    def columnar(signature: CallSignature) -> ColumnKernel:
        del signature

        def change(texts: Any) -> tuple[Any, Mask | None]:
            changed = ascii_function(texts)
            if arrow.is_ascii(texts):
                return changed, None
            return changed, ~arrow.flags(pc.string_is_ascii(texts))

        return change

    return declared(name, "t", as_long_as_first, row, columnar)


# ------------------------------------------------------------------- parts


def _char_length() -> ScalarFunction:
    def columnar(signature: CallSignature) -> ColumnKernel:
        del signature
        return lambda texts: (arrow.numbers(pc.utf8_length(texts), "int32"), None)

    return declared("CHAR_LENGTH", "t", always(INTEGER), len, columnar)


def _substring() -> ScalarFunction:
    """Declare SUBSTRING(text FROM start FOR length): counted from ``start`` also where that is before 1."""

    def row(text: str, start: int, length: int | None = None) -> str:
        if length is None:
            return text[max(start, 1) - 1 :]
        if length < 0:
            raise undefined("SUBSTRING", (text, start, length), "the length is negative")
        return text[max(start, 1) - 1 : max(start + length, 1) - 1]

    def columnar(signature: CallSignature) -> ColumnKernel | None:
        start, *rest = signature.constants[1:]
        if not isinstance(start, int) or None in rest or signature.constants[0] is not None:
            return None
        begin = max(start, 1) - 1
        end = None
        if rest:
            (length,) = rest
            if not isinstance(length, int) or length < 0:
                return None
            end = max(start + length, 1) - 1

        def cut(texts: Any, *numbers: Any) -> tuple[Any, Mask | None]:
            del numbers
            return pc.utf8_slice_codeunits(texts, begin, end), None

        return cut

    return declared("SUBSTRING", "ti?i", as_long_as_first, row, columnar)


def _trim(name: str, strip: Callable[[str, str], str], function: Any) -> ScalarFunction:
    """Declare TRIM(text [, characters]): any of ``characters``, a blank if they are not given."""

    def row(text: str, characters: str = " ") -> str:
        return strip(text, characters)

    def columnar(signature: CallSignature) -> ColumnKernel | None:
        characters = signature.constants[1] if len(signature.args) == 2 else " "
        if not isinstance(characters, str) or signature.constants[0] is not None:
            return None

        def trim(texts: Any, *rest: Any) -> tuple[Any, Mask | None]:
            del rest
            return function(texts, characters=characters), None

        return trim

    return declared(name, "t?t", as_long_as_first, row, columnar)


def _position() -> ScalarFunction:
    """Declare POSITION(part IN text): 0 where there is none."""

    def row(part: str, text: str) -> int:
        return text.find(part) + 1

    def columnar(signature: CallSignature) -> ColumnKernel | None:
        part = signature.constants[0]
        if not isinstance(part, str):
            return None

        def find(parts: Any, texts: Any) -> tuple[Any, Mask | None]:
            del parts
            found = arrow.numbers(pc.find_substring(texts, part), "int32") + np.int32(1)
            # Arrow counts bytes.
            return found, None if arrow.is_ascii(texts) else ~arrow.flags(pc.string_is_ascii(texts))

        return find

    return declared("POSITION", "tt", always(INTEGER), row, columnar)


def _replace() -> ScalarFunction:
    def row(text: str, old: str, new: str) -> str:
        return text.replace(old, new) if old else text

    def columnar(signature: CallSignature) -> ColumnKernel | None:
        text, old, new = signature.constants
        if text is not None or not isinstance(old, str) or not isinstance(new, str):
            return None

        def replace(texts: Any, *rest: Any) -> tuple[Any, Mask | None]:
            del rest
            return (pc.replace_substring(texts, old, new) if old else texts), None

        return replace

    return declared("REPLACE", "ttt", any_length, row, columnar)


def _overlay() -> ScalarFunction:
    """Declare OVERLAY(text PLACING put FROM start FOR length); ``length`` is that of ``put`` by default."""

    def row(text: str, put: str, start: int, length: int | None = None) -> str:
        replaced = len(put) if length is None else length
        if start < 1 or replaced < 0:
            why = "it starts before 1" if start < 1 else "the length is negative"
            raise undefined("OVERLAY", (text, put, start, replaced), why)
        return text[: start - 1] + put + text[start - 1 + replaced :]

    return declared("OVERLAY", "tti?i", _together, row)


TEXT: Sequence[ScalarFunction] = (
    _concat(),
    _like("LIKE"),
    _like("ILIKE"),
    _case("UPPER", _upper, pc.ascii_upper),
    _case("LOWER", _lower, pc.ascii_lower),
    declared("INITCAP", "t", as_long_as_first, _initcap),
    _char_length(),
    _substring(),
    _trim("TRIM", str.strip, pc.utf8_trim),
    _trim("LTRIM", str.lstrip, pc.utf8_ltrim),
    _trim("RTRIM", str.rstrip, pc.utf8_rtrim),
    _position(),
    _replace(),
    _overlay(),
)
