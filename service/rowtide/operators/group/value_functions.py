"""What aggregates remember that look at all values inside: percentiles, MODE, truths, text put together.

The same over groups whose changes are emitted and over windows; see ``window_functions.WindowFunction``.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort_right
from collections import Counter, deque
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from rowtide.expr.tree import AggregateCall
from rowtide.operators.over.by_row.functions import (
    MAX_DECIMAL,
    DistinctFunction,
    WindowFunction,
    from_json,
    make_function,
    overflow,
    to_json,
)
from rowtide.plan.frames import WindowCall
from rowtide.rows.column import scaled, unscaled
from rowtide.rows.types import Type

CONTINUOUS = frozenset({"MEDIAN", "PERCENTILE_CONT"})
SORTED = CONTINUOUS | {"PERCENTILE_DISC"}
LISTS = frozenset({"LISTAGG", "SORTED_LISTAGG"})
"""Text put together: in the order in which it comes, or in its own order."""


def make_window_function(call: WindowCall, *, endless: bool) -> WindowFunction:
    """Make the function of a call; ``endless``: its frame has no start, nothing ever leaves.

    Raises:
      KeyError: there is no such function.
    """
    of = call.type if call.argument is None else call.argument.type
    match call.function:
        case "EVERY" | "BOOL_AND" | "BOOL_OR":
            return TruthFunction(all_of=call.function != "BOOL_OR")
        case "MODE" | "ANY_VALUE":
            return Listed(call.function, of)
        case function if function in SORTED:
            found = SortedValues(call, of)
            return DistinctFunction(found, of) if call.distinct else found
        case _:
            return make_function(call, endless=endless)


class TruthFunction:
    """EVERY, BOOL_AND and BOOL_OR: how many are TRUE and FALSE."""

    def __init__(self, *, all_of: bool) -> None:
        self._all = all_of
        self._counts = [0, 0]

    def add(self, value: Any) -> None:
        if value is not None:
            self._counts[value] += 1

    def drop(self, value: Any) -> None:
        if value is not None:
            self._counts[value] -= 1

    def result(self) -> object:
        false, true = self._counts
        if not false and not true:
            return None
        return not false if self._all else bool(true)

    def save(self) -> list[Any]:
        return list(self._counts)

    def load(self, saved: list[Any]) -> None:
        self._counts = list(saved)


class SortedValues:
    """MEDIAN, PERCENTILE_CONT, PERCENTILE_DISC, and text in its own order: all values, sorted."""

    def __init__(self, call: AggregateCall | WindowCall, of: Type) -> None:
        self._of = of
        self._type = call.type
        self._between = call.function in CONTINUOUS
        self._joins = call.function in LISTS
        self._fraction = call.fraction or Fraction(0)
        self._held: list[Any] = []

    def add(self, value: Any) -> None:
        if value is not None:
            insort_right(self._held, value)

    def drop(self, value: Any) -> None:
        if value is not None:
            del self._held[bisect_left(self._held, value)]

    def result(self) -> object:
        held = self._held
        if not held:
            return None
        if self._joins:
            return "".join(held)
        if self._between:
            found = between(held, self._fraction, self._type)
            if isinstance(found, Decimal) and abs(unscaled(found, self._type.scale)) >= MAX_DECIMAL:
                raise overflow()
            return found
        return held[max(0, math.ceil(self._fraction * len(held)) - 1)]

    def save(self) -> list[Any]:
        return [to_json(value) for value in self._held]

    def load(self, saved: list[Any]) -> None:
        self._held = [from_json(self._of, value) for value in saved]


class Listed:
    """All values in their order: MODE, ANY_VALUE, LISTAGG of what comes at the end and goes at the front."""

    def __init__(self, function: str, of: Type) -> None:
        self._function = function
        self._of = of
        self._held: deque[Any] = deque()

    def add(self, value: Any) -> None:
        if value is not None:
            self._held.append(value)

    def drop(self, value: Any) -> None:
        if value is not None:
            self._held.remove(value)

    def result(self) -> object:
        return picked(self._function, self._held)

    def save(self) -> list[Any]:
        return [to_json(value) for value in self._held]

    def load(self, saved: list[Any]) -> None:
        self._held = deque(from_json(self._of, value) for value in saved)


def picked(function: str, held: Sequence[Any]) -> object:
    """Return MODE, ANY_VALUE or LISTAGG of values in their order."""
    if not held:
        return None
    if function in LISTS:
        return "".join(held)
    if function == "MODE":
        counts = Counter(held)
        # The first of those that are most frequent.
        return max(counts, key=counts.__getitem__)
    return held[0]


def between(held: list[Any], fraction: Fraction, kind: Type) -> object:
    """Return the value at ``fraction`` of the way through sorted values, between two if need be."""
    place = fraction * (len(held) - 1)
    low, part = held[int(place)], place - int(place)
    high = held[min(int(place) + 1, len(held) - 1)]
    exact = Fraction(low) + (Fraction(high) - Fraction(low)) * part
    if kind.is_float:
        return float(exact)
    whole = abs(exact) * 10**kind.scale
    units = int(whole + Fraction(1, 2))
    return scaled(-units if exact < 0 else units, kind.scale)
