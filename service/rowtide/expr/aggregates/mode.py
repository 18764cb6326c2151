"""MODE and HISTOGRAM: how often values come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from rowtide.expr.aggregates.aggregate import (
    Aggregate,
    Calling,
    Compiled,
    Sketch,
    is_plain_or_text,
    of_argument,
    of_sketch,
)
from rowtide.rows.types import JSON, Type


def _mode(call: Calling, values: Sequence[Any]) -> object:
    del call
    counts = Counter(values)
    return max(counts, key=counts.__getitem__)


class TextCounts:
    """How often each text is there."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, value: Any) -> None:
        self._counts[value] = self._counts.get(value, 0) + 1

    def remove(self, value: Any) -> None:
        left = self._counts.pop(value) - 1
        if left:
            self._counts[value] = left

    def result(self) -> object:
        return msgspec.json.encode(dict(self.save())).decode() if self._counts else None

    def save(self) -> list[Any]:
        return [[text, count] for text, count in sorted(self._counts.items())]

    def load(self, saved: list[Any]) -> None:
        self._counts = dict(saved)


def _text_counts(call: Calling, growing: bool) -> Sketch:
    del call, growing
    return TextCounts()


def _json_of_text(argument: Type | None) -> Type | None:
    return JSON if argument is not None and argument.is_text else None


MODES = (
    Aggregate(
        "MODE",
        "the type of `x`: the most frequent value, and the first one if several are",
        of_argument,
        order_matters=True,
        compiled=Compiled(group=is_plain_or_text),
        of_values=_mode,
    ),
    Aggregate(
        "HISTOGRAM",
        "JSON: an object with the number of rows of each value, by its text",
        _json_of_text,
        of_values=of_sketch(_text_counts),
        sketch=_text_counts,
    ),
)
