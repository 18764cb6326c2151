"""Aggregate functions, and the aggregators that are built from them.

Sum, average, minimum and maximum ignore NULLs, and are NULL for a group without
other values; first, last and nth can be NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from rowtide.engine.errors import FieldValueError, ModelError
from rowtide.engine.generated import generated
from rowtide.engine.row_type import Row, RowType
from rowtide.engine.table.aggregate.aggregator import (
    AFTER_DELETE,
    AFTER_INSERT,
    BEFORE_MOD,
    Additive,
    Aggregator,
    AggregatorContext,
    Running,
)
from rowtide.engine.unit.rowop import NOP
from rowtide.engine.values import FieldType, Value, check_of, field_type, is_array, type_name
from rowtide.rows.types import BIGINT, DOUBLE, Kind, Type

Argument = str | Callable[[Row], Value]
"""The name of a field, or a function of a row."""


class Function:
    """Base of aggregate functions: one field of a result, computed from the rows of a group in order.

    ``argument`` is the name of a field or a function of a row, ``kind`` the type of the result: needed if
    ``argument`` is a function.
    """

    def __init__(self, argument: Argument | None, kind: str | FieldType | None = None) -> None:
        if argument is not None and not isinstance(argument, str) and not callable(argument):
            raise ModelError(
                f"{type(self).__name__} takes the name of a field or a function of the row, not {argument!r}"
            )
        self._argument = argument
        self._kind = None if kind is None else field_type(kind)

    def describe(self) -> str:
        """Return the function with its argument as text: a field in quotes, a function by its name."""
        return f"{type(self).__name__}({', '.join(self._words())})"

    def _words(self) -> list[str]:
        if self._argument is None:
            return []
        return [f'"{self._argument}"' if isinstance(self._argument, str) else _name_of(self._argument)]

    def type_in(self, row_type: RowType) -> FieldType:
        """Return the type of the result for rows of ``row_type``.

        Raises:
          ModelError: if it is unknown, the field does not exist or has a type that does not fit.
        """
        if self._kind is not None:
            return self._kind
        if isinstance(self._argument, str):
            return row_type.types[row_type.index(self._argument)]
        raise ModelError(f"{type(self).__name__} of a function needs the type of its result")

    def values_of(self, row_type: RowType) -> Callable[[Row], Value]:
        """Return the function from a row to its value for the aggregate function."""
        if isinstance(self._argument, str):
            return row_type.getter(self._argument)
        return self._argument or _whole_row

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the result for the values of a group that is not empty."""
        raise NotImplementedError


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _whole_row(row: Row) -> Value:
    return row


class First(Function):
    """The value in the first row of the group."""

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the first value."""
        return values[0]


class Last(Function):
    """The value in the last row of the group."""

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the last value."""
        return values[-1]


class Nth(Function):
    """The value in row ``n`` of the group, counting from 0; NULL if there are fewer rows."""

    def __init__(self, argument: Argument, n: int, kind: str | FieldType | None = None) -> None:
        super().__init__(argument, kind)
        if n < 0:
            raise ModelError(f"Nth counts from 0, not from {n}")
        self._n = n

    def _words(self) -> list[str]:
        return [*super()._words(), str(self._n)]

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the value in row ``n``."""
        return values[self._n] if self._n < len(values) else None


class Count(Function):
    """The number of rows or, with an argument, of its values that are not NULL.

    The result is an int64 unless ``kind`` names another integer or float type.
    """

    def __init__(self, argument: Argument | None = None, kind: str | FieldType | None = None) -> None:
        super().__init__(argument, BIGINT if kind is None else kind)

    def type_in(self, row_type: RowType) -> FieldType:
        """Return the type of the count.

        Raises:
          ModelError: if it is neither an integer nor a float.
        """
        if isinstance(self._argument, str):
            row_type.index(self._argument)
        kind = super().type_in(row_type)
        if not isinstance(kind, Type) or not (kind.is_integer or kind.is_float):
            raise ModelError(
                f"Count cannot have the type {type_name(kind)}",
                hint="A count is an integer type, for example int32.",
            )
        return kind

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the number of values that are not NULL; a row never is NULL."""
        return len(values) - list(values).count(None)


class Sum(Function):
    """The sum of the values: an int64 for integers, otherwise of the type of the argument."""

    def type_in(self, row_type: RowType) -> FieldType:
        """Return the type of the sum."""
        kind = super().type_in(row_type)
        if is_array(kind) or not (isinstance(kind, Type) and kind.is_numeric):
            raise ModelError(f'{type(self).__name__} of "{self._argument}": it is not a number')
        if self._kind is not None or kind.kind is Kind.DECIMAL:
            return kind
        return BIGINT if kind.is_integer else DOUBLE

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the sum, added from first to last."""
        counted = [value for value in values if value is not None]
        return sum(counted) if counted else None


class Avg(Sum):
    """The average of the values: a float64 for integers and floats.

    With ``null_is_zero``, NULL counts as 0 instead of being ignored.
    """

    def __init__(
        self, argument: Argument, kind: str | FieldType | None = None, *, null_is_zero: bool = False
    ) -> None:
        super().__init__(argument, kind)
        self.null_is_zero = null_is_zero

    def _words(self) -> list[str]:
        return [*super()._words(), *(["null_is_zero=True"] if self.null_is_zero else [])]

    def type_in(self, row_type: RowType) -> FieldType:
        """Return the type of the average."""
        return DOUBLE if super().type_in(row_type) == BIGINT else super().type_in(row_type)

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the sum divided by the number of values."""
        if self.null_is_zero:
            return sum(value or 0 for value in values) / len(values)
        counted = [value for value in values if value is not None]
        return sum(counted) / len(counted) if counted else None


def _extreme(choose: Callable[..., Value], values: Sequence[Value]) -> Value:
    """Return the least or greatest value; NaN only if all values are NaN."""
    counted = [value for value in values if value is not None]
    numbers = (value for value in counted if not (isinstance(value, float) and math.isnan(value)))
    return choose(numbers, default=counted[0] if counted else None)


class Min(Function):
    """The least value."""

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the least value."""
        return _extreme(min, values)


class Max(Function):
    """The greatest value."""

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the greatest value."""
        return _extreme(max, values)


class Computed(Function):
    """The value, of type ``kind``, that ``function`` returns for the list of rows of the group."""

    def __init__(self, kind: str | FieldType, function: Callable[[Sequence[Row]], Value]) -> None:
        super().__init__(None, kind)
        _check_callable(self, function=function)
        self._function = function

    def _words(self) -> list[str]:
        return [_name_of(self._function)]

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the value of the function."""
        return self._function(values)


class Fold(Function):
    """A value computed row by row: ``step`` returns the new accumulator from the old one and a value.

    The accumulator starts as ``start``, which ``step`` must not modify; the result is the last accumulator,
    or ``finish`` of it.
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
        _check_callable(self, step=step, **({} if finish is None else {"finish": finish}))
        self._start = start
        self._step = step
        self._finish = finish

    def _words(self) -> list[str]:
        finish = [] if self._finish is None else [f"finish={_name_of(self._finish)}"]
        return [*super()._words(), f"start={self._start!r}", f"step={_name_of(self._step)}", *finish]

    def compute(self, values: Sequence[Value]) -> Value:
        """Return the accumulator after all values, from first to last."""
        held = reduce(self._step, values, self._start)
        return held if self._finish is None else self._finish(held)


def _check_callable(function: Function, /, **parts: object) -> None:
    for name, part in parts.items():
        if not callable(part):
            raise ModelError(f"{type(function).__name__}: {name} is not a function: {part!r}")


def _result_type(name: str, row_type: RowType, fields: dict[str, Function]) -> RowType:
    types = []
    for field, function in fields.items():
        if not isinstance(function, Function):
            raise ModelError(
                f'aggregator "{name}", field "{field}": {function!r} is not an aggregate function',
                hint='Pass a function with its argument, such as Sum("price").',
            )
        try:
            types.append((field, function.type_in(row_type)))
        except ModelError as error:
            raise ModelError(
                f'aggregator "{name}", field "{field}": {error.message}', hint=error.hint
            ) from error
    return RowType.of(types)


class SimpleAggregator(Aggregator):
    """Computes each field of its result from all rows of a group, at every change of the group.

    ``fields`` are the fields of the result with their functions, such as ``total=Sum("price")``.

    Raises:
      ModelError: if a function does not fit the row type.
    """

    def __init__(self, name: str, row_type: RowType, /, **fields: Function) -> None:
        result_type = _result_type(name, row_type, fields)
        self._fields = fields
        plan = [(function.values_of(row_type), function.compute) for function in fields.values()]

        def handle(context: AggregatorContext) -> None:
            if context.opcode is NOP or not len(context):
                return
            rows = list(context.rows())
            context.send(
                result_type.row(*[compute([value_of(row) for row in rows]) for value_of, compute in plan])
            )

        super().__init__(name, result_type, handle)

    def describe(self) -> str:
        """Return a readable description of the computation, one line for each step."""
        fields = zip(self._fields.items(), self.result_type.types, strict=True)
        return "\n".join(
            [
                f'aggregator "{self.name}": before and after the changes of a group, unless it is empty',
                "  from all its rows in order compute",
                *(f"    {type_name(kind)} {name} = {each.describe()}" for (name, each), kind in fields),
                "  send that: OP_DELETE before the changes, OP_INSERT after the last one",
            ]
        )


class AdditiveAggregator(Aggregator):
    """Keeps running sums, so that the cost of a change does not depend on the size of the group.

    Its functions can be ``First``, ``Last``, ``Count``, ``Sum`` and ``Avg``; ``code`` is the text of the
    functions generated for them. Running sums of floats lose precision: a large value that is added and
    removed again makes smaller values inexact, until the group has no values left.

    Raises:
      ModelError: if a function does not fit the row type, or is not additive.
    """

    def __init__(self, name: str, row_type: RowType, /, **fields: Function) -> None:
        result_type = _result_type(name, row_type, fields)
        make = result_type.make
        parts = _AdditiveText(name, row_type, fields)
        width = parts.width
        add, subtract, refresh = parts.add(), parts.subtract(), parts.refresh(make)
        self.code = "\n".join(part.source for part in (add, subtract, refresh))
        """The text of the functions that were generated for these fields."""

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
            running = Running(width)
            running.sums, running.counts, sent = saved
            running.sent = None if sent is None else make(sent)
            return running

        super().__init__(
            name,
            result_type,
            handle,
            lambda: Running(width),
            save_state=_save,
            load_state=load,
            additive=Additive(add, subtract, refresh),
        )


def _save(running: Running) -> Any:
    return running.sums, running.counts, None if running.sent is None else tuple(running.sent)


class _AdditiveText:
    """The text of an additive aggregator: one line for each field instead of a loop over fields."""

    def __init__(self, name: str, row_type: RowType, fields: dict[str, Function]) -> None:
        self._known: dict[str, Any] = {}
        self._added: list[str] = []
        self._outputs: list[str] = []
        self._ends: set[str] = set()
        for field, function in fields.items():
            if isinstance(function, First | Last):
                end = "first" if isinstance(function, First) else "last"
                self._ends.add(end)
                self._outputs.append(
                    self._fitted(field, function, row_type, self._value(function, row_type, end))
                )
            elif isinstance(function, Count | Sum):
                result = _additive(function, len(self._added))
                self._outputs.append(self._fitted(field, function, row_type, result))
                value = self._value(function, row_type, "row")
                if isinstance(function, Avg) and function.null_is_zero:
                    value = f"{value} or 0"
                self._added.append(
                    f"1 if {value} is not None else None" if isinstance(function, Count) else value
                )
            else:
                kind = type(function).__name__
                raise ModelError(f'aggregator "{name}", field "{field}": {kind} is not additive')

    def _fitted(self, field: str, function: Function, row_type: RowType, result: str) -> str:
        """Return the text of a result with a check of its type, unless it always has this type."""
        kind = function.type_in(row_type)
        if kind == (BIGINT if isinstance(function, Count) else _type_of(function, row_type)):
            return result
        name = f"fit{len(self._outputs)}"
        self._known[name] = _fitting(field, kind)
        return f"{name}({result})"

    @property
    def width(self) -> int:
        """The number of running sums."""
        return len(self._added)

    def add(self) -> Any:
        """Return the function that adds a row to the sums of a group."""
        return self._step("add", "+=")

    def subtract(self) -> Any:
        """Return the function that subtracts a row from the sums of a group."""
        return self._step("subtract", "-=")

    def refresh(self, make: Callable[[Any], Row]) -> Any:
        """Return the function that makes the result of a group, None if it is empty."""
        lines = ["if not len(index):", "    running.sent = None", "    return None"]
        lines += [f"{end} = index.{end}().row" for end in sorted(self._ends)]
        lines += ["sums, counts = running.sums, running.counts"] if self._added else []
        lines += [f"result = running.sent = make(({''.join(f'{each}, ' for each in self._outputs)}))"]
        return generated("refresh", ("running", "index"), [*lines, "return result"], make=make, **self._known)

    def _step(self, name: str, sign: str) -> Any:
        lines = ["sums, counts = running.sums, running.counts"] if self._added else []
        for place, value in enumerate(self._added):
            lines += [f"value = {value}", "if value is not None:"]
            lines += [f"    sums[{place}] {sign} value", f"    counts[{place}] {sign} 1"]
            if sign == "-=":
                # Errors of float sums, and NaN from infinities, end when no value is left.
                lines += [f"    if not counts[{place}]:", f"        sums[{place}] = 0"]
        return generated(name, ("running", "row"), lines, **self._known)

    def _value(self, function: Function, row_type: RowType, row: str) -> str:
        if isinstance(function._argument, str):
            return f"{row}[{row_type.index(function._argument)}]"
        if function._argument is None:
            return row
        name = f"argument{len(self._known)}"
        self._known[name] = function._argument
        return f"{name}({row})"


def _type_of(function: Function, row_type: RowType) -> FieldType | None:
    """Return the type of values that come from rows unchanged; None for those that are computed."""
    if not isinstance(function, First | Last) or not isinstance(function._argument, str):
        return None
    return row_type.types[row_type.index(function._argument)]


def _fitting(field: str, kind: FieldType) -> Callable[[Value], Value]:
    """Return the function that checks a result and converts it to the form that rows store."""
    check = check_of(kind)

    def fit(value: Value) -> Value:
        try:
            return None if value is None else check(value)
        except (TypeError, ValueError) as error:
            raise FieldValueError(field, type_name(kind), value) from error

    return fit


def _additive(function: Function, place: int) -> str:
    """Return the text of a result field of a sum, NULL if there are no values."""
    if isinstance(function, Count):
        return f"counts[{place}]"
    value = f"sums[{place}] / counts[{place}]" if isinstance(function, Avg) else f"sums[{place}]"
    return f"{value} if counts[{place}] else None"
