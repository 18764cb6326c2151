"""LEVENSHTEIN, SPLIT_INDEX and REGEXP_INSTR: how far texts differ, and where a part of one is."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.expr.functions.function import ScalarFunction
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import always, as_long_as_first, declared
from rowtide.rows.types import INTEGER

MOST_STEPS = 4_000_000
"""The product of the lengths of two texts that are compared: more would take seconds for one row."""


def _levenshtein(first: str, second: str) -> int:
    """Return the fewest characters to insert, delete or replace to make one text of the other."""
    if len(first) * len(second) > MOST_STEPS:
        raise undefined(
            "LEVENSHTEIN", (first[:20], second[:20]), "the lengths multiplied are more than 4,000,000"
        )
    before = list(range(len(second) + 1))
    for row, one in enumerate(first, start=1):
        now = [row]
        for at, other in enumerate(second, start=1):
            now.append(min(before[at] + 1, now[-1] + 1, before[at - 1] + (one != other)))
        before = now
    return before[-1]


def _split_index(text: str, separator: str, index: int) -> str | None:
    """Return the part of ``text`` between separators, counted from 0; None if it does not exist."""
    if index < 0:
        return None
    parts = text.split(separator) if separator else [text]
    return parts[index] if index < len(parts) else None


def _instr(text: str, pattern: str) -> int:
    """Return the place of the first match, counted from 1; 0 without one."""
    try:
        (found,) = pc.find_substring_regex(pa.array([text], pa.string()), pattern).to_pylist()
    except pa.ArrowInvalid as error:
        raise undefined("REGEXP_INSTR", (text, pattern), "the expression is invalid") from error
    # Arrow counts bytes.
    return 0 if found < 0 else len(text.encode()[:found].decode()) + 1


COMPARED: Sequence[ScalarFunction] = (
    declared("LEVENSHTEIN", "tt", always(INTEGER), _levenshtein),
    declared("SPLIT_INDEX", "tti", as_long_as_first, _split_index),
    declared("REGEXP_INSTR", "tt", always(INTEGER), _instr),
)
