"""The group windows of GROUP BY: TUMBLE, HOP, CUMULATE and SESSION, and their *_START and *_END.

See docs/sql/semantics.md#grouped-windows.

``TUMBLE(ROWTIME, size [, offset])`` is a STEP whose edges are moved by ``offset``. The group's row has the
start of its window as first field and the end as ROWTIME.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.functions import resolve
from rowtide.expr.functions.times.zones import FROM_UTC
from rowtide.expr.tree import AggregateCall, Call, Expr, FieldRef, Literal, RowtimeRef, calls_function
from rowtide.rows.types import INTERVAL_DAY, INTERVAL_MONTH, TIMESTAMP, VARCHAR, Kind
from rowtide.rowtime.period import (
    DAY_MS,
    CalendarUnit,
    Cumulate,
    CumulateByMonths,
    Hop,
    HopByMonths,
    Period,
    PeriodEdge,
    Session,
    comes_twice,
)
from rowtide.sql.expressions.aggregate_list import AggregateList
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.literals import unit_literal
from rowtide.sql.grammar.syntax import Expression, FunctionCall
from rowtide.sql.relations.relations import is_plain_rowtime, substitute

Window = Period | Hop | HopByMonths | Cumulate | CumulateByMonths | Session
"""The windows of groups with a limited period."""

FORMS = {
    "TUMBLE": "TUMBLE(ROWTIME, size [, offset])",
    "HOP": "HOP(ROWTIME, slide, size [, offset])",
    "CUMULATE": "CUMULATE(ROWTIME, step, size [, offset])",
    "SESSION": "SESSION(ROWTIME, gap)",
}
OF_ZONE = (
    "Periods of a zone's clocks are FLOOR(ROWTIME AT TIME ZONE zone TO DAY), or to another unit, and "
    "TUMBLE(ROWTIME AT TIME ZONE zone, INTERVAL '1' DAY)."
)
"""What to write for periods of a zone."""
MAX_WINDOWS = 1_000
"""Maximum windows of a HOP that contain one row: each costs an addition, and one group for each key."""
_UNITS_OF_MONTHS = {1: CalendarUnit.MONTH, 3: CalendarUnit.QUARTER, 12: CalendarUnit.YEAR}
_UNITS_OF_LENGTHS = {3_600_000: CalendarUnit.HOUR, DAY_MS: CalendarUnit.DAY}
_LENGTHS = {"TUMBLE": 1, "HOP": 2, "CUMULATE": 2, "SESSION": 1}


def group_window(planner: ExpressionPlanner, syntax: FunctionCall, name: str) -> Window:
    """Return the window for the arguments of ``name``, or of its *_START or *_END.

    Raises:
      StatementError: the arguments are not ROWTIME and constant intervals.
    """
    count = _LENGTHS[name]
    most = 1 + count + (name != "SESSION")
    plain = not (syntax.star or syntax.distinct or syntax.condition is not None)
    if not plain or not count < len(syntax.args) <= most:
        raise StatementError(f"the window is written {FORMS[name]}", span=syntax.place)
    rowtime, *rest = syntax.args
    typed = planner.plan(rowtime)
    zone = _zone_of(typed) if name == "TUMBLE" else None
    if zone is not None:
        return _tumble_on_clocks(planner, zone, syntax)
    if not is_plain_rowtime(typed):
        hint = "Promote another column in a query in FROM: SELECT STREAM x AS ROWTIME, .."
        raise StatementError(
            f"{name} takes ROWTIME only",
            span=rowtime.place,
            hint=OF_ZONE if calls_function(typed, FROM_UTC) else hint,
        )
    if name != "SESSION" and (months := _months(planner, rest[count - 1], name)) is not None:
        return _of_months(planner, name, months, rest)
    lengths = [_length(planner, each, name) for each in rest[:count]]
    match name:
        case "TUMBLE":
            (size,) = lengths
            return Period(
                PeriodEdge.FLOOR, step_ms=size, offset_ms=_offset(planner, rest[count:], name) % size
            )
        case "HOP":
            slide, size = lengths
            if size > MAX_WINDOWS * slide:
                raise _too_many(name, syntax.place)
            return Hop(slide, size, _offset(planner, rest[count:], name) % slide)
        case "CUMULATE":
            step, size = lengths
            if size % step or size > MAX_WINDOWS * step:
                raise StatementError(
                    f"the size of CUMULATE must be a multiple of its step, up to {MAX_WINDOWS} steps",
                    span=syntax.place,
                    hint=f"It is written {FORMS[name]}: the step comes first.",
                )
            return Cumulate(step, size, _offset(planner, rest[count:], name) % size)
        case _:
            return Session(lengths[0])


def _tumble_on_clocks(planner: ExpressionPlanner, zone: str, syntax: FunctionCall) -> Period:
    _, size, *offset = syntax.args
    months = _months(planner, size, "TUMBLE")
    length = None if months is not None else _length(planner, size, "TUMBLE")
    unit = _UNITS_OF_LENGTHS.get(length or 0) or _UNITS_OF_MONTHS.get(months or 0)
    if unit is None or offset:
        raise StatementError(
            "TUMBLE by the clocks of a zone takes an hour, a day, a month, 3 months or a year, and no offset",
            span=size.place,
            hint="Weeks are FLOOR(ROWTIME AT TIME ZONE zone TO WEEK): they begin on Monday.",
        )
    return _on_clocks(unit, zone, syntax.place)


def _on_clocks(unit: CalendarUnit, zone: str, span: SourceSpan) -> Period:
    """Return the period of a zone's clocks.

    Raises:
      StatementError: the clocks show such a period again after the next one has begun.
    """
    if comes_twice(Period(PeriodEdge.FLOOR, unit), zone):
        raise StatementError(
            f"the clocks of {zone} show a {unit.value} again after the next one has begun",
            span=span,
            hint=f"FLOOR(ROWTIME TO {unit.value}) groups by each {unit.value} of UTC.",
        )
    return Period(PeriodEdge.FLOOR, unit, zone=zone)


def _zone_of(expr: Expr) -> str | None:
    """Return the zone whose local time of ROWTIME an expression is."""
    match expr:
        case Call(function="FROM_UTC_TIMESTAMP", args=(of, Literal(value=str(zone)))) if is_plain_rowtime(of):
            return zone
        case _:
            return None


def _of_months(
    planner: ExpressionPlanner, name: str, months: int, lengths: list[Expression]
) -> Period | HopByMonths | CumulateByMonths:
    """Return a window with a size of months, which are those of the calendar; ``lengths`` are all arguments."""
    count = _LENGTHS[name]
    if len(lengths) > count:
        raise StatementError(
            f"{name} by months takes no offset: its windows begin with months of the calendar",
            span=lengths[count].place,
        )
    unit = _UNITS_OF_MONTHS.get(months)
    if name == "TUMBLE":
        return HopByMonths(months, months) if unit is None else Period(PeriodEdge.FLOOR, unit)
    step = _months(planner, lengths[0], name)
    if name == "HOP":
        if step is None:
            raise StatementError(
                "the slide of a HOP by months is a number of months",
                span=lengths[0].place,
                hint="CUMULATE(ROWTIME, INTERVAL '1' DAY, INTERVAL '1' MONTH) has a row each day of the month so far.",
            )
        return _few(HopByMonths(step, months), "HOP", lengths[0].place)
    if unit is None:
        raise StatementError(
            "the size of CUMULATE by months is 1 month, 3 months or 1 year",
            span=lengths[1].place,
            hint="These begin with the months, quarters and years of the calendar.",
        )
    if step is not None:
        if months % step:
            raise StatementError(
                "the size of CUMULATE must be a multiple of its step",
                span=lengths[0].place,
                hint=f"It is written {FORMS[name]}: the step comes first.",
            )
        return CumulateByMonths(unit, step_months=step)
    length = _length(planner, lengths[0], name)
    if DAY_MS % length:
        raise StatementError(
            "a day must be a multiple of the step of CUMULATE by months",
            span=lengths[0].place,
            hint="Every month has whole days: INTERVAL '1' DAY, or INTERVAL '6' HOUR.",
        )
    return _few(CumulateByMonths(unit, step_ms=length), "CUMULATE", lengths[0].place)


_Overlapping = TypeVar("_Overlapping", HopByMonths, CumulateByMonths)


def _few(window: _Overlapping, name: str, span: SourceSpan) -> _Overlapping:
    """Return a window that overlaps.

    Raises:
      StatementError: a row is in too many of them.
    """
    if window.at_a_time() > MAX_WINDOWS:
        raise _too_many(name, span)
    return window


def _too_many(name: str, span: SourceSpan) -> StatementError:
    return StatementError(
        f"each row would be in more than {MAX_WINDOWS} windows",
        span=span,
        hint=f"Use a larger {'slide' if name == 'HOP' else 'step'} in {name}.",
    )


def _months(planner: ExpressionPlanner, syntax: Expression, name: str) -> int | None:
    """Return the months of a length; None if it is none of months.

    Raises:
      StatementError: it is not above zero.
    """
    months = _constant(planner, syntax, (Kind.INTERVAL_MONTH,))
    if months is not None and months <= 0:
        raise _no_interval(name, "an interval above zero", syntax.place)
    return months


def window_edge(
    planner: ExpressionPlanner, window: Window | None, end: Callable[[], Expr], syntax: FunctionCall
) -> Expr:
    """Return *_START or *_END as an expression over the group's row; ``end`` returns that for *_END.

    Raises:
      StatementError: the call names another window than GROUP BY.
    """
    name, _, edge = syntax.name.partition("_")
    if group_window(planner, syntax, name) != window:
        raise StatementError(
            "this window is not the one in GROUP BY",
            span=syntax.place,
            hint=f"Pass {syntax.name} the same arguments as {name} in GROUP BY.",
        )
    if isinstance(window, Period) and window.zone is not None:
        start = period_call(window, FieldRef(0, TIMESTAMP))
        return start if edge == "START" else _moved("+", start, _length_of(window))
    return FieldRef(0, TIMESTAMP) if edge == "START" else end()


def last_edge(window: Window | None, aggregates: AggregateList) -> Expr:
    """Return the end of a window, for groups that send rows before the end, when ROWTIME is not the end.

    A session ends one gap after its last row.
    """
    match window:
        case None | Cumulate() | CumulateByMonths():
            raise ValueError("these groups have no window whose end is known from a row")
        case Session(gap_ms=gap):
            last = aggregates.reference(AggregateCall("MAX", RowtimeRef(), TIMESTAMP))
            return _moved("+", last, Literal(gap, INTERVAL_DAY))
        case Hop(size_ms=size):
            return _moved("+", FieldRef(0, TIMESTAMP), Literal(size, INTERVAL_DAY))
        case HopByMonths(size=months):
            return _moved("+", FieldRef(0, TIMESTAMP), Literal(months, INTERVAL_MONTH))
        case Period():
            return _moved("+", FieldRef(0, TIMESTAMP), _length_of(window))


def _length_of(period: Period) -> Literal:
    """Return the length of the period of a TUMBLE."""
    for units, of in ((_UNITS_OF_MONTHS, INTERVAL_MONTH), (_UNITS_OF_LENGTHS, INTERVAL_DAY)):
        for length, unit in units.items():
            if unit is period.unit:
                return Literal(length, of)
    return Literal(period.step_ms or 0, INTERVAL_DAY)


def start_of_end(window: Window) -> Expr | None:
    """Return the first field of a group's row as a function of its ROWTIME; None if ROWTIME does not determine it."""
    match window:
        case Period(zone=str()):
            return None
        case Period(edge=PeriodEdge.FLOOR):
            millisecond = Literal(1, INTERVAL_DAY)
            return period_call(window, _moved("-", RowtimeRef(), millisecond))
        case Period():
            return RowtimeRef()
        case Hop(size_ms=size):
            return _moved("-", RowtimeRef(), Literal(size, INTERVAL_DAY))
        case HopByMonths(size=months):
            return _moved("-", RowtimeRef(), Literal(months, INTERVAL_MONTH))
        case Cumulate() | CumulateByMonths():
            whole = (
                Period(PeriodEdge.FLOOR, window.unit)
                if isinstance(window, CumulateByMonths)
                else Period(PeriodEdge.FLOOR, step_ms=window.size_ms, offset_ms=window.offset_ms)
            )
            return period_call(whole, _moved("-", RowtimeRef(), Literal(1, INTERVAL_DAY)))
        case Session():
            return None


def of_group_end(expr: Expr, window: Window) -> Expr:
    """Write the first field of a group's row as a function of ROWTIME, so that it can map bounds."""
    start = start_of_end(window)
    return expr if start is None else substitute(expr, {FieldRef(0, TIMESTAMP): start})


def period_of(expr: Expr) -> Period | None:
    """Return the period of ROWTIME that an expression computes, or None."""
    if expr == RowtimeRef():
        return Period(PeriodEdge.EXACT)
    found = rounded(expr)
    return None if found is None or found[1] != RowtimeRef() else found[0]


def period_of_clocks(expr: Expr, span: SourceSpan) -> Period | None:
    """Return the period of a zone's clocks that an expression computes; None if it is not one.

    Raises:
      StatementError: the clocks show such a period again after the next one has begun.
    """
    found = rounded(expr)
    zone = None if found is None else _zone_of(found[1])
    if found is None or zone is None or found[0].edge is not PeriodEdge.FLOOR or found[0].unit is None:
        return None
    return _on_clocks(found[0].unit, zone, span)


def rounded(expr: Expr) -> tuple[Period, Expr] | None:
    """Return the period that an expression rounds a time to, and this time; None for any other expression."""
    match expr:
        case Call(function="FLOOR_TO" | "CEIL_TO" as name, args=(of, Literal(value=str(unit)))):
            return Period(PeriodEdge(name.removesuffix("_TO")), CalendarUnit(unit)), of
        case Call(function="STEP", args=(of, Literal(value=int(length)))):
            return Period(PeriodEdge.FLOOR, step_ms=length), of
        case Call(
            function="+",
            args=(
                Call(
                    function="STEP", args=(Call(function="-", args=(of, before)), Literal(value=int(length)))
                ),
                Literal(value=int(offset)) as by,
            ),
        ) if before == by:
            # DATE_BIN(length, ROWTIME, origin).
            return Period(PeriodEdge.FLOOR, step_ms=length, offset_ms=offset), of
        case _:
            return None


def period_call(period: Period, of: Expr) -> Expr:
    """Return the call that computes the period of ``of``: in local time, if it has a zone."""
    if period.zone is not None:
        of = Call(FROM_UTC, (of, Literal(period.zone, VARCHAR)), TIMESTAMP)
    if period.unit is not None:
        unit = unit_literal(period.unit.value)
        name = f"{period.edge.value}_TO"
        return Call(name, (of, unit), resolve(name, (of.type, unit.type)))
    length = Literal(period.step_ms, INTERVAL_DAY)
    offset = Literal(period.offset_ms, INTERVAL_DAY)
    inner = _moved("-", of, offset) if period.offset_ms else of
    step = Call("STEP", (inner, length), resolve("STEP", (inner.type, length.type)))
    return _moved("+", step, offset) if period.offset_ms else step


def _moved(sign: str, of: Expr, by: Literal) -> Expr:
    return Call(sign, (of, by), resolve(sign, (of.type, by.type)))


def _length(planner: ExpressionPlanner, syntax: Expression, name: str) -> int:
    value = _constant(planner, syntax, (Kind.INTERVAL_DAY,))
    if value is None or value <= 0:
        if _constant(planner, syntax, (Kind.INTERVAL_MONTH,)) is not None:
            raise StatementError(
                f"this length of {name} is an interval of days to seconds: months have different lengths",
                span=syntax.place,
                hint="If the size is a number of months, the slide of a HOP and the step of a CUMULATE can be, too.",
            )
        raise _no_interval(name, "an interval of days to seconds above zero", syntax.place)
    return value


def _offset(planner: ExpressionPlanner, syntax: list[Expression], name: str) -> int:
    """Return the offset of a window, 0 by default. It can be a TIME, as in Calcite."""
    if not syntax:
        return 0
    value = _constant(planner, syntax[0], (Kind.INTERVAL_DAY, Kind.TIME))
    if value is None:
        raise _no_interval(name, "as offset an interval of days to seconds", syntax[0].place)
    return value


def _constant(planner: ExpressionPlanner, syntax: Expression, kinds: tuple[Kind, ...]) -> int | None:
    found = planner.plan(syntax)
    fits = isinstance(found, Literal) and found.type.kind in kinds
    return found.value if fits and isinstance(found, Literal) and isinstance(found.value, int) else None


def _no_interval(name: str, wanted: str, span: SourceSpan) -> StatementError:
    return StatementError(f"{name} takes {wanted}", span=span, hint=f"It is written {FORMS[name]}.")
