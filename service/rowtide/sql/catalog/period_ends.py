"""Periods over rows whose ROWTIME is the end of a period: ``check`` warns that they are off by one.

The ROWTIME of a group is the end of its period, which is the start of the
next one. Rounded down again, the group of 08:00 to 09:00 counts as 09:00
(docs/sql/group-by.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.expr.tree import Call, Expr, Literal, RowtimeRef
from rowtide.plan.nodes import (
    AsOfJoin,
    Filter,
    GroupByCumulate,
    GroupByHop,
    GroupByPeriod,
    Merge,
    Node,
    Project,
    Sort,
    SortInPeriod,
    WindowAggregate,
    WindowsAbreast,
)
from rowtide.plan.show import show, show_interval
from rowtide.rowtime.period import Cumulate, Hop, Period, PeriodEdge

_DOWN = frozenset({"FLOOR_TO", "STEP"})


def rounded_again(node: Node) -> Iterator[str]:
    """Yield each expression of ``node`` that rounds down the end of a period."""
    match node:
        case GroupByPeriod(input=below, period=period) | SortInPeriod(input=below, period=period):
            yield from _of_period(below, period)
        case WindowAggregate(input=below, order=period):
            yield from _of_period(below, period)
        case GroupByHop(input=below, hop=hop):
            if (ends := _ends(below)) is not None:
                yield _warning(_shown(hop), None, ends)
        case GroupByCumulate(input=below, cumulate=cumulate):
            if (ends := _ends(below)) is not None:
                yield _warning(_shown(cumulate), None, ends)
        case Project(input=below, expressions=expressions):
            yield from _of_expressions(below, expressions)
        case Filter(input=below, condition=condition):
            yield from _of_expressions(below, (condition,))


def _of_period(below: Node, period: Period) -> Iterator[str]:
    ends = _ends(below) if period.edge is PeriodEdge.FLOOR else None
    if ends is not None:
        yield _warning(_shown(period), None if period.unit is None else period.unit.value, ends)


def _of_expressions(below: Node, expressions: tuple[Expr, ...]) -> Iterator[str]:
    calls = [call for each in expressions for call in _rounding(each)]
    ends = _ends(below) if calls else None
    for call in calls if ends is not None else ():
        unit = call.args[1] if call.function == "FLOOR_TO" else None
        named = unit.value if isinstance(unit, Literal) and isinstance(unit.value, str) else None
        if ends is not None:
            yield _warning(show(call, below.row_type), named, ends)


def _rounding(expr: Expr) -> Iterator[Call]:
    """Return the calls that round ROWTIME itself down."""
    if isinstance(expr, Call):
        if expr.function in _DOWN and isinstance(expr.args[0], RowtimeRef):
            yield expr
        for each in expr.args:
            yield from _rounding(each)


def _ends(node: Node) -> Period | Hop | Cumulate | None:
    """Return the period whose end is the ROWTIME of the rows of ``node``; None if it is another time."""
    match node:
        case GroupByPeriod(period=period) if period.edge is not PeriodEdge.EXACT:
            return period
        case SortInPeriod(period=period) if period.edge is not PeriodEdge.EXACT:
            return period
        case GroupByHop(hop=hop):
            return hop
        case GroupByCumulate(cumulate=cumulate):
            return cumulate
        case GroupByPeriod(input=below) | SortInPeriod(input=below) | WindowAggregate(input=below):
            return _ends(below)
        case WindowsAbreast(input=below) | Sort(input=below):
            return _ends(below)
        case AsOfJoin(stream=stream):
            return _ends(stream)
        case Merge(inputs=inputs):
            return next((found for each in inputs if (found := _ends(each)) is not None), None)
        case _:
            return _ends(node.inputs[0]) if node.keeps_rowtime else None


def _warning(what: str, unit: str | None, ends: Period | Hop | Cumulate) -> str:
    """Return the rounded expression, and the text to write instead; ``unit`` is for CEIL to a calendar unit."""
    effect = "each" if what == _shown(ends) else "one that ends where another period begins"
    ceil = "Let" if unit is None else f"Write CEIL(ROWTIME TO {unit}), or let"
    return (
        f"{what} of rows whose ROWTIME is the end of their {_shown(ends)}: {effect} counts in the next "
        f"period. {ceil} the query that makes those rows select the start of its period AS ROWTIME"
    )


def _shown(period: Period | Hop | Cumulate) -> str:
    if isinstance(period, Cumulate):
        return f"CUMULATE(ROWTIME, {show_interval(period.step_ms)}, {show_interval(period.size_ms)})"
    if isinstance(period, Hop):
        return f"HOP(ROWTIME, {show_interval(period.slide_ms)}, {show_interval(period.size_ms)})"
    if period.unit is not None:
        return f"{period.edge.value}(ROWTIME TO {period.unit.value})"
    return f"STEP(ROWTIME BY {show_interval(period.step_ms or 0)})"
