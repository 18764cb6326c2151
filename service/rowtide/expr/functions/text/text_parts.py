"""Parts of text, padding and repetition: LEFT RIGHT LPAD RPAD REPEAT REVERSE SPLIT_PART.

Characters are Unicode code points. Only SPLIT_PART has a kernel over columns: the others
are computed row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.expr.evaluation import ColumnKernel
from rowtide.expr.functions.function import CallSignature, ScalarFunction
from rowtide.expr.functions.rejections import undefined
from rowtide.expr.functions.shapes import any_length, as_long_as_first, declared
from rowtide.rows.arrays import Mask

MAX_CHARACTERS = 10_000_000
"""The longest text that REPEAT, LPAD and RPAD make: more would be a mistake, and fill the memory."""


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


TEXT_PARTS: Sequence[ScalarFunction] = (
    declared("LEFT", "ti", as_long_as_first, _left),
    declared("RIGHT", "ti", as_long_as_first, _right),
    declared("LPAD", "ti?t", any_length, _pad("LPAD", before=True)),
    declared("RPAD", "ti?t", any_length, _pad("RPAD", before=False)),
    declared("REPEAT", "ti", any_length, _repeat),
    declared("REVERSE", "t", as_long_as_first, lambda text: text[::-1]),
    declared("SPLIT_PART", "tti", as_long_as_first, _split_part, _split_part_columns),
)
