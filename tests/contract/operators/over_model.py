"""What windowed aggregation means: all rows are kept, and each frame is looked for again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from contract.operators.meanings import (
    FIRST_TIMESTAMP,
    LAST_TIMESTAMP,
    aggregate,
    as_key,
    bits,
    exact,
    period_name,
    whole,
)
from contract.operators.model import Model, later
from rowtide.errors import Reason
from rowtide.expr.aggregates import aggregate_of
from rowtide.expr.tree import AggregateCall, Expr, FieldRef
from rowtide.operators.contract import OperatorSite
from rowtide.plan.frames import Edge, EdgeUnit, WindowCall
from rowtide.plan.nodes import WindowAggregate, WindowsAbreast
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import DOUBLE
from rowtide.rowtime.bound import NO_BOUND, Bound


class OverModel(Model):
    """One row out for one row in, once nothing that may still come can be in its frame."""

    def __init__(self, node: WindowAggregate, _site: OperatorSite) -> None:
        super().__init__()
        self.node = node
        self.rows: list[TimedRow] = []
        self.waiting: list[TimedRow] = []
        self.passed = NO_BOUND

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.passed = later(self.passed, Bound(timed.rowtime, timed.origin, timed.counter - 1))
        self.rows.append(timed)
        self.waiting.append(timed)
        self.let_go()

    def bound(self, port: int, bound: Bound) -> None:
        self.passed = later(self.passed, bound)
        self.let_go()

    def let_go(self) -> None:
        while self.waiting and is_complete(self.node, self.rows, self.passed, self.waiting[0]):
            timed = self.waiting.pop(0)
            inside = frame_of(self.node, self.rows, timed)
            try:
                found = tuple(window_result(call, inside, timed) for call in self.node.calls)
            except OverflowError:
                self.tell(self.node.relation, Reason.OVERFLOW, timed)
                if not self.node.frame.waits:
                    self.rows.remove(timed)
                continue
            self.account.done += 1
            self.give(timed._replace(row=timed.row + found))

    def promised(self) -> int:
        return self.promise().rowtime

    def promise(self) -> Bound:
        if not self.waiting:
            return self.passed
        first = self.waiting[0]
        return Bound(first.rowtime, first.origin, first.counter - 1)

    def held(self) -> int:
        return len(self.waiting)


class AbreastModel(OverModel):
    """One row out for one row in, once none of the windows lets it wait."""

    def __init__(self, node: WindowsAbreast, site: OperatorSite) -> None:
        self.windows = node.each()
        super().__init__(self.windows[0], site)

    def let_go(self) -> None:
        while self.waiting and self.is_done(self.waiting[0]):
            timed = self.waiting.pop(0)
            try:
                found = tuple(
                    window_result(call, frame_of(each, self.rows, timed), timed)
                    for each in self.windows
                    for call in each.calls
                )
            except OverflowError:
                self.tell(self.node.relation, Reason.OVERFLOW, timed)
                continue
            self.account.done += 1
            self.give(timed._replace(row=timed.row + found))

    def is_done(self, timed: TimedRow) -> bool:
        return all(is_complete(each, self.rows, self.passed, timed) for each in self.windows)


def is_complete(node: WindowAggregate, rows: Sequence[TimedRow], passed: Bound, timed: TimedRow) -> bool:
    """Return whether nothing that may still come can be in a row's frame."""
    end = node.frame.end
    if not node.frame.waits or passed.rowtime > LAST_TIMESTAMP:
        return True
    if end.unit is EdgeUnit.ROWS:
        mine = partition_of(node, rows, timed)
        return place_of(mine, timed) + end.offset < len(mine)
    reached = max(passed.rowtime, FIRST_TIMESTAMP)
    return order_of(node, reached) > order_of(node, timed.rowtime) + end.offset


def order_of(node: WindowAggregate, rowtime: int) -> int:
    """Return what a row at ``rowtime`` is measured by."""
    return period_name(node.order, rowtime)


def partition_of(node: WindowAggregate, rows: Sequence[TimedRow], timed: TimedRow) -> list[TimedRow]:
    """Return the rows of one row's partition, itself included."""

    def key(row: TimedRow) -> object:
        return bits(tuple(as_key(row.row[index]) for index in node.partition))

    return [row for row in rows if key(row) == key(timed)]


def place_of(rows: Sequence[TimedRow], timed: TimedRow) -> int:
    """Return the place of a row, which is this very one."""
    return next(at for at, row in enumerate(rows) if row is timed)


def frame_of(node: WindowAggregate, rows: Sequence[TimedRow], timed: TimedRow) -> list[TimedRow]:
    """Look through all rows for those in the frame of one of them."""
    mine = partition_of(node, rows, timed)
    place, now = place_of(mine, timed), order_of(node, timed.rowtime)

    def side(edge: Edge, other: int) -> int:
        """Return whether a row is before an edge (below zero), on it or after it (above zero)."""
        if edge.unit is EdgeUnit.UNBOUNDED:
            return 1
        if edge.unit is EdgeUnit.ROWS:
            return other - (place + edge.offset)
        return order_of(node, mine[other].rowtime) - (now + edge.offset)

    start, end = node.frame.start, node.frame.end
    return [row for other, row in enumerate(mine) if side(start, other) >= 0 >= side(end, other)]


def window_result(call: WindowCall, inside: Sequence[TimedRow], current: TimedRow) -> object:
    """Compute a call from the rows of its frame by its definition.

    Raises:
      OverflowError: if its type does not hold it.
    """
    if call.condition is not None:
        inside = [row for row in inside if field(call.condition, row) is True]
    if call.argument is None:
        return len(inside)
    every = [field(call.argument, row) for row in inside]
    values = [value for value in every if value is not None]
    if call.distinct:
        values = [value for at, value in enumerate(values) if value not in values[:at]]
    held = values if call.ignore_nulls else every
    match call.function:
        case "COUNT":
            return len(values)
        case "FIRST_VALUE" | "NTH_VALUE":
            return held[call.number - 1] if len(held) >= call.number else None
        case "LAST_VALUE":
            return held[-1] if held else None
        case "LAG" | "LEAD":
            if len(held) >= call.number:
                return held[-call.number]
            return None if call.default is None else field(call.default, current)
        case "MIN":
            return min(values, default=None)
        case "MAX":
            return max(values, default=None)
        case "EVERY" | "BOOL_OR" | "MODE" | "ANY_VALUE" | "MEDIAN" | "PERCENTILE_CONT" | "PERCENTILE_DISC":
            of_group = AggregateCall(
                call.function, FieldRef(0, call.argument.type), call.type, fraction=call.fraction
            )
            return aggregate(of_group, [current._replace(row=(value,)) for value in values])
    declared = aggregate_of(call)
    if declared.of_values is not None:
        return declared.value_of(call, sorted(values) if declared.ascending else values)
    return total_of(call, [Fraction(value) for value in values])


def total_of(call: WindowCall, values: Sequence[Fraction]) -> object:
    """Compute sums, averages and variances exactly, and round them once."""
    count = len(values)
    weight = count - 1 if call.function.endswith("SAMP") else count
    if weight <= 0:
        return None
    match call.function:
        case "SUM":
            total = sum(values, Fraction(0))
        case "AVG":
            total = sum(values, Fraction(0)) / count
        case _:
            mean = sum(values, Fraction(0)) / count
            total = sum(((value - mean) ** 2 for value in values), Fraction(0)) / weight
    if call.type == DOUBLE:
        return math.sqrt(float(total)) if call.function.startswith("STDDEV") else float(total)
    if call.type.is_integer:
        if not -(2**63) <= total < 2**63:
            raise OverflowError
        return int(total)
    return whole(total) if call.type.is_interval else exact(total, call.type)


def field(expr: Expr, timed: TimedRow) -> Any:
    """Return the field of a row that an argument is."""
    assert isinstance(expr, FieldRef)
    return timed.row[expr.index]
