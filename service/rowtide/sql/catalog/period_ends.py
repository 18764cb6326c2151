"""Periods over rows whose ROWTIME is the end of a period: ``check`` warns that they are off by one.

The ROWTIME of a group is the end of its period, which is the start of the
next one. Rounded down again, the group of 08:00 to 09:00 counts as 09:00
(docs/sql/group-by.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rowtide.expr.tree import Call, Expr, Literal, RowtimeRef
from rowtide.plan.nodes import Node
from rowtide.plan.show import show, show_group_window, show_period
from rowtide.rowtime.period import GridWindow, Period, PeriodEdge

_DOWN = frozenset({"FLOOR_TO", "STEP"})


def rounded_again(node: Node) -> Iterator[str]:
    """Yield a warning for each window and expression of ``node`` that rounds down the end of a period."""
    windows = [each for each in node.windows_of_input() if _rounds_down(each)]
    calls = [call for each in node.computed() for call in _rounding(each)]
    if not windows and not calls:
        return
    (below,) = node.inputs
    ends = below.ended_window()
    if ends is None:
        return
    for window in windows:
        unit = window.unit if isinstance(window, Period) else None
        yield _warning(_shown(window), None if unit is None else unit.value, ends)
    for call in calls:
        to = call.args[1] if call.function == "FLOOR_TO" else None
        unit_name = to.value if isinstance(to, Literal) and isinstance(to.value, str) else None
        yield _warning(show(call, below.row_type), unit_name, ends)


def _rounds_down(window: GridWindow) -> bool:
    return not isinstance(window, Period) or window.edge is PeriodEdge.FLOOR


def _rounding(expr: Expr) -> Iterator[Call]:
    """Return the calls that round ROWTIME itself down."""
    if isinstance(expr, Call):
        if expr.function in _DOWN and isinstance(expr.args[0], RowtimeRef):
            yield expr
        for each in expr.args:
            yield from _rounding(each)


def _warning(what: str, unit: str | None, ends: GridWindow) -> str:
    """Return the rounded expression, and the text to write instead; ``unit`` is for CEIL to a calendar unit."""
    effect = "each" if what == _shown(ends) else "one that ends where another period begins"
    ceil = "Let" if unit is None else f"Write CEIL(ROWTIME TO {unit}), or let"
    return (
        f"{what} of rows whose ROWTIME is the end of their {_shown(ends)}: {effect} counts in the next "
        f"period. {ceil} the query that makes those rows select the start of its period AS ROWTIME"
    )


def _shown(window: GridWindow) -> str:
    if not isinstance(window, Period):
        return show_group_window(window)
    # A step has no function that rounds up.
    return show_period(window if window.unit is not None else replace(window, edge=PeriodEdge.FLOOR))
