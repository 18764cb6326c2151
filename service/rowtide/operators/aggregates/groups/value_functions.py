"""Functions that compute a call row by row: over windows, and over groups with changes.

``MAKERS`` has the functions that continue from a result. Every other aggregate is computed from all
values, as declared: ``ByValues`` and ``SortedValues``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import astuple
from fractions import Fraction
from typing import Any

from rowtide.expr.aggregates import Calling, Family, Sketch, aggregate_of
from rowtide.expr.aggregates.regression import REGRESSIONS, PairSums, regression
from rowtide.expr.ascending import put, put_greatest, take_out
from rowtide.operators.aggregates.python_states import over_frame
from rowtide.operators.aggregates.row_functions import (
    NOTHING,
    CountFunction,
    DistinctFunction,
    EndlessExtreme,
    ExtremeFunction,
    NthFromEnd,
    NthFunction,
    RankFunction,
    SumFunction,
    VarianceFunction,
    WindowFunction,
    from_json,
    to_json,
)
from rowtide.plan.frames import WindowCall
from rowtide.rows.types import Type


def make_window_function(call: WindowCall, *, endless: bool) -> WindowFunction:
    """Make the function of a call; ``endless``: its frame has no start, so values never leave."""
    if call.of is not None:
        return over_frame(call.of, endless=endless, distinct=call.distinct)
    of = call.type if call.argument is None else call.argument.type
    aggregate = aggregate_of(call)
    maker = MAKERS.get(call.function)
    differs = call.distinct and aggregate.distinct_matters and aggregate.family is Family.VALUES
    if maker is not None:
        found = maker(call, of, endless)
    elif aggregate.sketch is not None:
        found = Sketched(aggregate.sketch(call, endless))
    elif endless and aggregate.takes_number is not None:
        found = GreatestValues(call, of)
    elif endless and aggregate.folds and aggregate.family is Family.VALUES and not differs:
        found = FoldedValues(call, of)
    else:
        found = by_values(call, of)
    return DistinctFunction(found, of) if differs else found


def by_values(call: Calling, of: Type) -> WindowFunction:
    """Make the function of any aggregate that declares its result over values."""
    return SortedValues(call, of) if aggregate_of(call).ascending else ByValues(call, of)


class TruthFunction:
    """EVERY, BOOL_AND and BOOL_OR: the numbers of TRUE and FALSE values."""

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


class FoldedValues:
    """An aggregate over rows that are only added, whose result over some values can replace them."""

    def __init__(self, call: Calling, of: Type) -> None:
        self._call = call
        self._aggregate = aggregate_of(call)
        self._of = of
        self._held: list[Any] = []
        self._before: list[Any] = []

    def add(self, value: Any) -> None:
        if value is not None:
            self._before = self._held
            self._held = [self._aggregate.value_of(self._call, [*self._held, value])]

    def drop(self, value: Any) -> None:
        """Take back the value that came last."""
        if value is not None:
            self._held = self._before

    def result(self) -> object:
        return self._held[0] if self._held else None

    def save(self) -> list[Any]:
        return [to_json(value) for value in self._held]

    def load(self, saved: list[Any]) -> None:
        self._held = [from_json(self._of, value) for value in saved]


class Regression:
    """CORR, COVAR and REGR: exact sums over the pairs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._sums = PairSums()

    def add(self, value: Any) -> None:
        if value is not None:
            self._sums.change(value, 1)

    def drop(self, value: Any) -> None:
        if value is not None:
            self._sums.change(value, -1)

    def result(self) -> object:
        return regression(self._name, self._sums)

    def save(self) -> list[Any]:
        return [str(part) for part in astuple(self._sums)]

    def load(self, saved: list[Any]) -> None:
        count, *parts = saved
        self._sums = PairSums(int(count), *map(Fraction, parts))


class Sketched:
    """An aggregate that keeps a sketch of its values."""

    def __init__(self, sketch: Sketch) -> None:
        self._sketch = sketch

    def add(self, value: Any) -> None:
        if value is not None:
            self._sketch.add(value)

    def drop(self, value: Any) -> None:
        if value is not None:
            self._sketch.remove(value)

    def result(self) -> object:
        return self._sketch.result()

    def save(self) -> list[Any]:
        return self._sketch.save()

    def load(self, saved: list[Any]) -> None:
        self._sketch.load(saved)


class SortedValues:
    """An aggregate of values in ascending order: all values, sorted."""

    def __init__(self, call: Calling, of: Type) -> None:
        self._call = call
        self._aggregate = aggregate_of(call)
        self._of = of
        self._held: list[Any] = []

    def add(self, value: Any) -> None:
        if value is not None:
            put(self._held, value)

    def drop(self, value: Any) -> None:
        if value is not None:
            take_out(self._held, value)

    def result(self) -> object:
        return self._aggregate.value_of(self._call, self._held)

    def save(self) -> list[Any]:
        return [to_json(value) for value in self._held]

    def load(self, saved: list[Any]) -> None:
        self._held = [from_json(self._of, value) for value in saved]


class GreatestValues(SortedValues):
    """An aggregate of the greatest values, of values that are only added: no others are kept."""

    def __init__(self, call: WindowCall, of: Type) -> None:
        super().__init__(call, of)
        self._most = call.number
        self._before: list[Any] = []

    def add(self, value: Any) -> None:
        if value is not None:
            self._before = self._held.copy()
            put_greatest(self._held, value, self._most)

    def drop(self, value: Any) -> None:
        """Take back the value that came last."""
        if value is not None:
            self._held = self._before


class ByValues:
    """An aggregate of all values in order, which enter at the end and leave at the front."""

    def __init__(self, call: Calling, of: Type) -> None:
        self._call = call
        self._aggregate = aggregate_of(call)
        self._nulls = self._aggregate.counts_nulls(call)
        self._of = of
        self._held: deque[Any] = deque()

    def add(self, value: Any) -> None:
        if value is not None or self._nulls:
            self._held.append(value)

    def drop(self, value: Any) -> None:
        if value is not None or self._nulls:
            self._held.remove(value)

    def result(self) -> object:
        return self._aggregate.value_of(self._call, self._held)

    def save(self) -> list[Any]:
        return [to_json(value) for value in self._held]

    def load(self, saved: list[Any]) -> None:
        self._held = deque(from_json(self._of, value) for value in saved)


def _count(call: WindowCall, of: Type, endless: bool) -> WindowFunction:
    del call, of, endless
    return CountFunction()


def _sum(call: WindowCall, of: Type, endless: bool) -> WindowFunction:
    del endless
    return SumFunction(of, call.type, average=call.function == "AVG")


def _spread(call: WindowCall, of: Type, endless: bool) -> WindowFunction:
    del endless
    return VarianceFunction(of, call.function)


def _extreme(call: WindowCall, of: Type, endless: bool) -> WindowFunction:
    greatest = call.function == "MAX"
    return EndlessExtreme(of, greatest=greatest) if endless else ExtremeFunction(greatest=greatest)


def _truth(call: WindowCall, of: Type, endless: bool) -> WindowFunction:
    del of, endless
    return TruthFunction(all_of=call.function != "BOOL_OR")


def _nth(call: WindowCall, of: Type, endless: bool) -> WindowFunction:
    missing = NOTHING if call.function in ("LAG", "LEAD") else None
    if call.function == "LAST_VALUE" or (call.function == "LAG" and call.ignore_nulls):
        return NthFromEnd(of, call.number, missing, ignore_nulls=call.ignore_nulls, endless=endless)
    return NthFunction(of, call.number, missing, ignore_nulls=call.ignore_nulls, endless=endless)


def _regression(call: WindowCall, of: Type, endless: bool) -> WindowFunction:
    del of, endless
    return Regression(call.function)


def _rank(call: WindowCall, of: Type, endless: bool) -> WindowFunction:
    del of, endless
    return RankFunction(dense=call.function == "DENSE_RANK")


MAKERS: Mapping[str, Callable[[WindowCall, Type, bool], WindowFunction]] = {
    **dict.fromkeys(("COUNT", "ROW_NUMBER"), _count),
    **dict.fromkeys(("SUM", "AVG"), _sum),
    **dict.fromkeys(("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"), _spread),
    **dict.fromkeys(("MIN", "MAX"), _extreme),
    **dict.fromkeys(("EVERY", "BOOL_AND", "BOOL_OR"), _truth),
    **dict.fromkeys(("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE", "LAG", "LEAD"), _nth),
    **dict.fromkeys(("RANK", "DENSE_RANK"), _rank),
    **dict.fromkeys((each.name for each in REGRESSIONS), _regression),
}
"""Makers of the functions that continue from a result."""
