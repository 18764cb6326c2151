"""The state of each aggregate of a group that emits its changes (EMIT CHANGES).

Over a stream values are only added; sums of REAL and DOUBLE are added in order, as for closed
groups. Over changes values are also removed: then everything is exact, so that a removed value
has no effect, and a zero has no sign. ``make`` selects the function.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rowtide.expr.aggregates import aggregate_of
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.operators.aggregates.changes.change_states import ChangedState, RowsLeft, Undo, over_changes
from rowtide.operators.aggregates.groups.group_functions import limit_of as least_too_large
from rowtide.operators.aggregates.groups.value_functions import make_window_function
from rowtide.operators.aggregates.row_functions import (
    DistinctFunction,
    NthFunction,
    SumFunction,
    WindowFunction,
    from_json,
    in_order,
    is_nan,
    one_nan,
    overflow,
    to_json,
    to_whole,
)
from rowtide.operators.storage.row_keys import DescendingKey
from rowtide.plan.frames import WindowCall
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType, Type

STALE_OVER = 64
"""Removed values are dropped from a heap once they are more than this, and more than the others."""
OF_ENDS = frozenset({"FIRST_VALUE", "LAST_VALUE", "ANY_VALUE"})
"""Aggregates of only the first or the last value."""


def make(call: AggregateCall, row_type: RowType, *, of_changes: bool) -> WindowFunction:
    """Make the function of an aggregate over rows of ``row_type``; ``of_changes``: values are removed, too.

    Over changes, aggregates that depend on order take whole rows: which of two equal values is removed may
      matter.
    """
    of = call.type if call.argument is None else call.argument.type
    aggregate = aggregate_of(call)
    if of_changes and call.of is not None:
        return over_changes(call, call.of, row_type)
    if of_changes and takes_rows(call):
        return Arrivals(call, row_type)
    maker = (MAKERS_OF_CHANGES if of_changes else MAKERS_OF_ROWS).get(call.function)
    if maker is not None:
        found = maker(call, of)
    else:
        over = WindowCall(
            call.function,
            call.argument,
            call.type,
            distinct=call.of is not None and call.distinct,
            ignore_nulls=call.ignore_nulls,
            fraction=call.fraction,
            of=call.of,
            number=1 if call.number is None else call.number,
        )
        found = make_window_function(over, endless=not of_changes)
    each_once = call.distinct and aggregate.distinct_matters and call.of is None
    return DistinctValues(found, of) if each_once else found


def takes_rows(call: AggregateCall) -> bool:
    """Return whether an aggregate over changes depends on which of two rows with one value is removed."""
    return aggregate_of(call).order_matters


def limit_of(call: AggregateCall) -> Callable[[Any], bool] | None:
    """Return the test for values that an aggregate can never take; None: it takes all."""
    if call.argument is None:
        return None
    if call.argument.type.is_float and aggregate_of(call).finite:
        return lambda value: not math.isfinite(value)
    least = least_too_large(call)
    if least is None:
        return None
    whole, limit = to_whole(call.argument.type), least
    return lambda value: abs(whole(value)) >= limit


class PlainSum:
    """SUM and AVG of floats that are only added, in order."""

    def __init__(self, *, average: bool) -> None:
        self._average = average
        self._count = 0
        self._total = 0.0
        self._before = 0.0

    def add(self, value: Any) -> None:
        if value is not None:
            self._before = self._total
            self._total += value
            self._count += 1

    def drop(self, value: Any) -> None:
        """Remove the last added value."""
        if value is not None:
            self._total = self._before
            self._count -= 1

    def result(self) -> object:
        if not self._count:
            return None
        if not math.isfinite(self._total):
            raise overflow()
        return self._total / self._count if self._average else self._total

    def save(self) -> list[Any]:
        return [self._count, to_json(self._total)]

    def load(self, saved: list[Any]) -> None:
        self._count, total = saved
        self._total = float.fromhex(total)


class RetractableExtreme:
    """MIN and MAX of values that are added and removed: a heap with lazy removal. NaN is only counted."""

    def __init__(self, of: Type, *, greatest: bool) -> None:
        self._of = of
        self._greatest = greatest
        self._counts: Counter[Any] = Counter()
        self._heap: list[Any] = []

    def add(self, value: Any) -> None:
        if value is None:
            return
        value = one_nan(value)
        self._counts[value] += 1
        if self._counts[value] == 1 and not is_nan(value):
            heapq.heappush(self._heap, DescendingKey(value) if self._greatest else value)

    def drop(self, value: Any) -> None:
        if value is None:
            return
        value = one_nan(value)
        self._counts[value] -= 1
        if not self._counts[value]:
            del self._counts[value]
            if len(self._heap) > max(STALE_OVER, 2 * len(self._counts)):
                self._fill()

    def result(self) -> object:
        heap = self._heap
        while heap:
            value = heap[0].value if self._greatest else heap[0]
            if value in self._counts:
                return value
            heapq.heappop(heap)
        return next(iter(self._counts), None)

    def save(self) -> list[Any]:
        """Values are sorted so that equal states are equal."""
        return [[to_json(value), self._counts[value]] for value in in_order(self._counts)]

    def load(self, saved: list[Any]) -> None:
        self._counts = Counter({from_json(self._of, value): count for value, count in saved})
        self._fill()

    def _fill(self) -> None:
        values = [value for value in self._counts if not is_nan(value)]
        self._heap = [DescendingKey(value) if self._greatest else value for value in values]
        heapq.heapify(self._heap)


class Arrivals:
    """An aggregate that depends on order, of rows that are added and removed (of equal rows the first)."""

    def __init__(self, call: AggregateCall, row_type: RowType) -> None:
        if not isinstance(call.argument, FieldRef):
            raise TypeError("this aggregate has a field as argument")
        self._argument = call.argument.index
        self._call = call
        self._aggregate = aggregate_of(call)
        self._each_once = call.distinct and self._aggregate.distinct_matters
        self._types = [field.type for field in row_type]
        self._added = 0
        self._values: OrderedDict[int, Any] = OrderedDict()
        self._numbers: dict[Row, deque[int]] = {}

    def add(self, value: Any) -> None:
        """``value`` is the row."""
        held = value[self._argument]
        self._values[self._added] = held + 0.0 if isinstance(held, float) else held
        self._numbers.setdefault(value, deque()).append(self._added)
        self._added += 1

    def drop(self, value: Any) -> None:
        """``value`` is the row."""
        numbers = self._numbers[value]
        del self._values[numbers.popleft()]
        if not numbers:
            del self._numbers[value]

    def result(self) -> object:
        values = self._values
        if not values:
            return None
        if self._call.function in OF_ENDS:
            ends = (values[next(iter(values))], values[next(reversed(values))])
            return self._aggregate.value_of(self._call, ends)
        held = dict.fromkeys(values.values()) if self._each_once else values.values()
        return self._aggregate.value_of(self._call, list(held))

    def save(self) -> list[Any]:
        # The rows in their order.
        rows = {number: row for row, numbers in self._numbers.items() for number in numbers}
        return [[to_json(value) for value in rows[number]] for number in self._values]

    def load(self, saved: list[Any]) -> None:
        for row in saved:
            self.add(tuple(from_json(of, value) for of, value in zip(self._types, row, strict=True)))


class Mode:
    """MODE of values that are only added: the first of the most frequent values."""

    def __init__(self, of: Type) -> None:
        self._of = of
        self._counts: dict[Any, int] = {}

    def add(self, value: Any) -> None:
        if value is not None:
            self._counts[value] = self._counts.get(value, 0) + 1

    def drop(self, value: Any) -> None:
        """Do nothing: values are never removed."""

    def result(self) -> object:
        return max(self._counts, key=self._counts.__getitem__) if self._counts else None

    def save(self) -> list[Any]:
        return [[to_json(value), count] for value, count in self._counts.items()]

    def load(self, saved: list[Any]) -> None:
        self._counts = {from_json(self._of, value): count for value, count in saved}


class DistinctValues(DistinctFunction):
    """As for windows. The state of the inner function is saved, too, because its order may matter."""

    def save(self) -> list[Any]:
        return [super().save(), self._inner.save()]

    def load(self, saved: list[Any]) -> None:
        counts, inner = saved
        self._counts = Counter({from_json(self._of, value): count for value, count in counts})
        self._inner.load(inner)


def moved(function: WindowFunction, value: Any, *, leaves: bool) -> Undo:
    """Add a value to a function, or remove it, and return what undoes it.

    Raises:
      RejectedRowError: an aggregate in Python fails; nothing has changed.
    """
    if isinstance(function, ChangedState | RowsLeft):
        return function.moved(value, leaves=leaves)
    move(function, value, leaves=leaves)
    return partial(move, function, value, leaves=not leaves)


def move(function: WindowFunction, value: Any, *, leaves: bool) -> None:
    """Add a value to a function, or remove it."""
    if leaves:
        function.drop(value)
    else:
        function.add(value)


def check_result(function: WindowFunction) -> None:
    """Check that the current result of a function fits its type.

    Raises:
      RejectedRowError: it does not.
    """
    if not (isinstance(function, SumFunction) and function.surely_fits()):
        function.result()


def to_text(function: WindowFunction) -> str:
    """Return the state of a function as text, for a snapshot."""
    return json.dumps(function.save())


def from_text(function: WindowFunction, text: str) -> None:
    """Restore the result of ``to_text`` into a new function."""
    function.load(json.loads(text))


def _plain_sum(call: AggregateCall, of: Type) -> WindowFunction:
    average = call.function == "AVG"
    return PlainSum(average=average) if of.is_float else SumFunction(of, call.type, average=average)


def _best(call: AggregateCall, of: Type) -> WindowFunction:
    return RetractableExtreme(of, greatest=call.function == "MAX")


def _first(call: AggregateCall, of: Type) -> WindowFunction:
    del call
    return NthFunction(of, 1, None, ignore_nulls=True, endless=True)


def _mode(call: AggregateCall, of: Type) -> WindowFunction:
    del call
    return Mode(of)


Maker = Callable[[AggregateCall, Type], WindowFunction]
MAKERS_OF_ROWS: Mapping[str, Maker] = {
    **dict.fromkeys(("SUM", "AVG"), _plain_sum),
    "ANY_VALUE": _first,
    "MODE": _mode,
}
"""Makers of the functions of values that are only added, where they differ from those of a window."""
MAKERS_OF_CHANGES: Mapping[str, Maker] = dict.fromkeys(("MIN", "MAX"), _best)
"""Makers of the functions of values that are added and removed."""
