"""Aggregate functions, and the aggregators that are put together from them.

NULLs are passed over by sum, average, minimum and maximum, each of which is
NULL if nothing is left; first, last and nth take a NULL as it comes (engine
decision 10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from rowtide.engine.aggregate.aggregator import (
    AFTER_DELETE,
    AFTER_INSERT,
    BEFORE_MOD,
    Additive,
    Aggregator,
    AggregatorContext,
    Running,
)
from rowtide.engine.errors import ModelError
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.table.tree import Index
from rowtide.engine.unit.rowop import NOP
from rowtide.engine.values import FieldType, Value, field_type, is_array
from rowtide.rows.types import BIGINT, DOUBLE, Kind, Type

Argument = str | Callable[[Row], Value]
"""The name of a field, or a function of the row."""


class Function:
    """One field of a result: what it is computed from, and how, over the rows of a group in order."""

    def __init__(self, argument: Argument | None, kind: str | FieldType | None = None) -> None:
        self._argument = argument
        self._kind = None if kind is None else field_type(kind)

    def type_in(self, row_type: RowType) -> FieldType:
        """Give the type of the result over rows of ``row_type``.

        Raises:
          ModelError: if it follows from nothing and was not given.
        """
        if self._kind is not None:
            return self._kind
        if isinstance(self._argument, str):
            return row_type.types[row_type.index(self._argument)]
        raise ModelError(f"{type(self).__name__} of a function needs the type of its result")

    def values_of(self, row_type: RowType) -> Callable[[Row], Value]:
        """Give the function from a row to the value that is aggregated."""
        if isinstance(self._argument, str):
            return row_type.getter(self._argument)
        return self._argument or _whole_row

    def compute(self, values: Sequence[Value]) -> Value:
        """Give the result for the values of a group, which has at least one row."""
        raise NotImplementedError


def _whole_row(row: Row) -> Value:
    return row


class First(Function):
    """The value in the first row of the group."""

    def compute(self, values: Sequence[Value]) -> Value:
        """Give the first value."""
        return values[0]


class Last(Function):
    """The value in the last row of the group."""

    def compute(self, values: Sequence[Value]) -> Value:
        """Give the last value."""
        return values[-1]


class Nth(Function):
    """The value in row ``n`` of the group, counted from 0; NULL if there are fewer rows."""

    def __init__(self, argument: Argument, n: int, kind: str | FieldType | None = None) -> None:
        super().__init__(argument, kind)
        if n < 0:
            raise ModelError(f"Nth counts from 0, not from {n}")
        self._n = n

    def compute(self, values: Sequence[Value]) -> Value:
        """Give the value at place ``n``."""
        return values[self._n] if self._n < len(values) else None


class Count(Function):
    """The number of rows or, of an argument, of its values that are not NULL."""

    def __init__(self, argument: Argument | None = None) -> None:
        super().__init__(argument, BIGINT)

    def compute(self, values: Sequence[Value]) -> Value:
        """Count what is not NULL; a row never is."""
        return len(values) - list(values).count(None)


class Sum(Function):
    """The sum: int64 of integers, else of the argument's type."""

    def type_in(self, row_type: RowType) -> FieldType:
        """Give the type of the sum."""
        kind = super().type_in(row_type)
        if is_array(kind) or not (isinstance(kind, Type) and kind.is_numeric):
            raise ModelError(f'{type(self).__name__} of "{self._argument}": it is no number')
        if self._kind is not None or kind.kind is Kind.DECIMAL:
            return kind
        return BIGINT if kind.is_integer else DOUBLE

    def compute(self, values: Sequence[Value]) -> Value:
        """Add the values from first to last."""
        counted = [value for value in values if value is not None]
        return sum(counted) if counted else None


class Avg(Sum):
    """The average: float64 of integers and floats."""

    def type_in(self, row_type: RowType) -> FieldType:
        """Give the type of the average."""
        return DOUBLE if super().type_in(row_type) == BIGINT else super().type_in(row_type)

    def compute(self, values: Sequence[Value]) -> Value:
        """Divide the sum by the number of values."""
        counted = [value for value in values if value is not None]
        return sum(counted) / len(counted) if counted else None


class Min(Function):
    """The least value."""

    def compute(self, values: Sequence[Value]) -> Value:
        """Give the least value."""
        return min((value for value in values if value is not None), default=None)


class Max(Function):
    """The greatest value."""

    def compute(self, values: Sequence[Value]) -> Value:
        """Give the greatest value."""
        return max((value for value in values if value is not None), default=None)


class Computed(Function):
    """Whatever ``function`` makes of the rows of the group, of type ``kind``."""

    def __init__(self, kind: str | FieldType, function: Callable[[Sequence[Row]], Value]) -> None:
        super().__init__(None, kind)
        self._function = function

    def compute(self, values: Sequence[Value]) -> Value:
        """Give what the function gives."""
        return self._function(values)


class Fold(Function):
    """A function of your own, row by row: ``step`` takes what is held and the next value.

    Each computation begins with ``start`` and ends with ``finish`` of what is held; ``start`` must not be
    changed by ``step``, which gives the new value.
    """

    def __init__(
        self,
        argument: Argument,
        kind: str | FieldType,
        start: Any,
        step: Callable[[Any, Value], Any],
        finish: Callable[[Any], Value] | None = None,
    ) -> None:
        super().__init__(argument, kind)
        self._start = start
        self._step = step
        self._finish = finish

    def compute(self, values: Sequence[Value]) -> Value:
        """Step through the values from first to last."""
        held = reduce(self._step, values, self._start)
        return held if self._finish is None else self._finish(held)


def _result_type(name: str, row_type: RowType, fields: dict[str, Function]) -> RowType:
    types = []
    for field, function in fields.items():
        try:
            types.append((field, function.type_in(row_type)))
        except ModelError as error:
            raise ModelError(
                f'aggregator "{name}", field "{field}": {error.message}', hint=error.hint
            ) from error
    return RowType.of(types)


class SimpleAggregator(Aggregator):
    """Computes each field of its result afresh from all rows of a group, for every change."""

    def __init__(self, name: str, row_type: RowType, /, **fields: Function) -> None:
        result_type = _result_type(name, row_type, fields)
        plan = [(function.values_of(row_type), function.compute) for function in fields.values()]

        def handle(context: AggregatorContext) -> None:
            if context.opcode is NOP or not len(context):
                return
            rows = list(context.rows())
            context.send(
                result_type.row(*[compute([value_of(row) for row in rows]) for value_of, compute in plan])
            )

        super().__init__(name, result_type, handle)


class AdditiveAggregator(Aggregator):
    """Keeps running sums, so that the cost of a change does not depend on the size of the group.

    Takes First, Last, Count, Sum and Avg. Sums of floats drift where large and small values meet: a
    large one that comes and goes takes the small ones with it.
    """

    def __init__(self, name: str, row_type: RowType, /, **fields: Function) -> None:
        result_type = _result_type(name, row_type, fields)
        added: list[Callable[[Row], Value]] = []
        outputs: list[Output] = []
        for field, function in fields.items():
            value_of = function.values_of(row_type)
            if isinstance(function, First | Last):
                outputs.append(_at_end(value_of, is_first=isinstance(function, First)))
            elif isinstance(function, Count | Sum):
                outputs.append(_additive(function, len(added)))
                added.append(_one_each(value_of) if isinstance(function, Count) else value_of)
            else:
                kind = type(function).__name__
                raise ModelError(f'aggregator "{name}", field "{field}": {kind} is not additive')
        numbered = list(enumerate(added))
        make = result_type.make

        def add(running: Running, row: Row) -> None:
            for place, value_of in numbered:
                value = value_of(row)
                if value is not None:
                    running.sums[place] += value
                    running.counts[place] += 1

        def subtract(running: Running, row: Row) -> None:
            for place, value_of in numbered:
                value = value_of(row)
                if value is not None:
                    running.sums[place] -= value
                    running.counts[place] -= 1

        def refresh(running: Running, index: Index) -> Row | None:
            first, last = index.first(), index.last()
            if first is None or last is None:
                running.sent = None
            else:
                running.sent = make([output(first.row, last.row, running) for output in outputs])
            return running.sent

        def handle(context: AggregatorContext) -> None:
            running: Running = context.state
            call = context.call
            if call is BEFORE_MOD:
                if running.sent is not None:
                    context.send(running.sent)
                return
            if call is AFTER_INSERT:
                add(running, context.changed)
            elif call is AFTER_DELETE:
                subtract(running, context.changed)
            if context.opcode is not NOP:
                result = refresh(running, context.index)
                if result is not None:
                    context.send(result)

        def load(saved: Any) -> Running:
            running = Running(len(added))
            running.sums, running.counts, sent = saved
            running.sent = None if sent is None else make(sent)
            return running

        super().__init__(
            name,
            result_type,
            handle,
            lambda: Running(len(added)),
            save_state=_save,
            load_state=load,
            additive=Additive(add, subtract, refresh),
        )


def _save(running: Running) -> Any:
    return running.sums, running.counts, None if running.sent is None else tuple(running.sent)


Output = Callable[[Row, Row, Running], Value]
"""Gives one field of a result from the first row, the last row and the sums of a group."""


def _one_each(value_of: Callable[[Row], Value]) -> Callable[[Row], Value]:
    return lambda row: None if value_of(row) is None else 1


def _at_end(value_of: Callable[[Row], Value], *, is_first: bool) -> Output:
    if is_first:
        return lambda first, last, running: value_of(first)
    return lambda first, last, running: value_of(last)


def _additive(function: Function, place: int) -> Output:
    def count(first: Row, last: Row, running: Running) -> Value:
        return running.counts[place]

    def total(first: Row, last: Row, running: Running) -> Value:
        return running.sums[place] if running.counts[place] else None

    def average(first: Row, last: Row, running: Running) -> Value:
        return running.sums[place] / running.counts[place] if running.counts[place] else None

    if isinstance(function, Count):
        return count
    return average if isinstance(function, Avg) else total
