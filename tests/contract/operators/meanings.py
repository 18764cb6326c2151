"""What values, aggregates, periods and expressions mean, in plain Python; see ``models``."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from rowtide.errors import Reason
from rowtide.expr.aggregates import aggregate_of
from rowtide.expr.tree import AggregateCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.rows.rowop import Row, TimedRow
from rowtide.rows.types import Kind, Type
from rowtide.rowtime.period import CalendarUnit, Hop, HopByMonths, Period, PeriodEdge


def bits(value: object) -> object:
    """Return something that is equal only for the very same value: zeros have signs, decimals digits."""
    match value:
        case float():
            return ("float", struct.pack(">d", value))
        case Decimal():
            return ("decimal", value.as_tuple())
        case tuple():
            return tuple(bits(each) for each in value)
        case _:
            return (type(value).__name__, value)


def as_key(value: object) -> object:
    """Zero has no sign as a key; NULL is a key like others."""
    return value + 0.0 if isinstance(value, float) else value


def aggregate(call: AggregateCall, rows: Sequence[TimedRow]) -> object:
    """Return the value of an aggregate over all rows of a group.

    Raises:
      OverflowError: if its type does not hold it.
    """
    if call.condition is not None:
        assert isinstance(call.condition, FieldRef)
        wanted = call.condition.index
        rows = [timed for timed in rows if timed.row[wanted] is True]
    if call.argument is None:
        return len(rows)
    assert isinstance(call.argument, FieldRef)
    index = call.argument.index
    if call.function in ("FIRST_VALUE", "LAST_VALUE"):
        picked = [timed.row[index] for timed in rows if timed.row[index] is not None or not call.ignore_nulls]
        return None if not picked else picked[0 if call.function == "FIRST_VALUE" else -1]
    values: list[Any] = [timed.row[index] for timed in rows if timed.row[index] is not None]
    if call.distinct:
        values = [value for at, value in enumerate(values) if value not in values[:at]]
    kind = call.argument.type
    if call.function == "COUNT":
        return len(values)
    if not values:
        return 0 if aggregate_of(call).never_null else None
    match call.function:
        case "MIN":
            return min(values)
        case "MAX":
            return max(values)
        case "SUM":
            return total_of(values, kind)
        case "AVG" if kind.is_float:
            return total_of(values, kind) / len(values)
        case "EVERY" | "BOOL_AND":
            return all(values)
        case "BOOL_OR":
            return any(values)
        case "ANY_VALUE":
            return values[0]
        case "LISTAGG" | "SORTED_LISTAGG":
            return "".join(sorted(values) if call.function == "SORTED_LISTAGG" else values)
        case "ARRAY_AGG":
            return tuple(element for array in values for element in array)
        case "JSON_ARRAYAGG" | "JSON_OBJECTAGG":
            parts = [part for value in values if (part := value.strip("[]"))]
            return f"[{','.join(parts)}]"
        case "MODE":
            return max(values, key=values.count)
        case "VAR_POP" | "VAR_SAMP" | "STDDEV_POP" | "STDDEV_SAMP":
            return spread_of(call.function, list(map(Fraction, values)))
        case "MEDIAN" | "PERCENTILE_CONT" | "PERCENTILE_DISC":
            assert call.fraction is not None
            return percentile_of(call, sorted(values), call.fraction)
        case "AVG" if kind.is_interval:
            return whole(Fraction(sum(values), len(values)))
        case "AVG":
            for value in values:
                exact(Fraction(value), call.type)
            return exact(Fraction(sum(map(Fraction, values)), len(values)), call.type)
    # Any other aggregate means what it declares.
    declared = aggregate_of(call)
    return declared.value_of(call, sorted(values) if declared.ascending else values)


def spread_of(function: str, values: Sequence[Fraction]) -> float | None:
    """Return a variance or a standard deviation from the differences to the mean."""
    mean = sum(values) / len(values)
    weight = len(values) - function.endswith("SAMP")
    if weight == 0:
        return None
    variance = float(sum((value - mean) ** 2 for value in values) / weight)
    return math.sqrt(variance) if function.startswith("STDDEV") else variance


def percentile_of(call: AggregateCall, values: Sequence[Any], fraction: Fraction) -> object:
    """Return the value with at least this part of all up to it, or one between two neighbours."""
    if call.function == "PERCENTILE_DISC":
        return next(value for at, value in enumerate(values, 1) if Fraction(at, len(values)) >= fraction)
    for value in values:
        if not call.type.is_float and not call.type.is_interval:
            exact(Fraction(value), call.type)
    at = fraction * (len(values) - 1)
    low, high = values[math.floor(at)], values[math.ceil(at)]
    found = Fraction(low) * (1 - at % 1) + Fraction(high) * (at % 1)
    if call.type.is_interval:
        return whole(found)
    return float(found) if call.type.is_float else exact(found, call.type)


def total_of(values: Sequence[Any], kind: Type) -> Any:
    """Add up from left to right."""
    if kind.is_float:
        total = 0.0
        for value in values:
            total += value
        if not math.isfinite(total):
            raise OverflowError
        return total
    if kind.is_integer or kind.is_interval:
        total = 0
        for value in values:
            total += value
            if not -(2**63) <= total < 2**63:
                raise OverflowError
        return total
    sums = Fraction(0)
    for value in values:
        sums += Fraction(value)
        exact(sums, Type(Kind.DECIMAL, 38, kind.scale))
    return exact(sums, Type(Kind.DECIMAL, 38, kind.scale))


def whole(value: Fraction) -> int:
    """Return a length of time in its least unit, rounded half away from zero.

    Raises:
      OverflowError: if an INTERVAL does not hold it.
    """
    found = math.floor(abs(value) + Fraction(1, 2)) * (-1 if value < 0 else 1)
    if not -(2**63) <= found < 2**63:
        raise OverflowError
    return found


def exact(value: Fraction, kind: Type) -> Decimal:
    """Return a DECIMAL of 38 digits, rounded half away from zero.

    Raises:
      OverflowError: if it has more than 38 digits.
    """
    shifted = abs(value) * 10**kind.scale
    unscaled = math.floor(shifted + Fraction(1, 2))
    if unscaled >= 10**38:
        raise OverflowError
    digits = tuple(int(digit) for digit in str(unscaled))
    return Decimal((int(value < 0 and unscaled > 0), digits, -kind.scale))


EPOCH = datetime(1970, 1, 1)
UNITS_MS = {
    CalendarUnit.MILLISECOND: 1,
    CalendarUnit.SECOND: 1_000,
    CalendarUnit.MINUTE: 60 * 1_000,
    CalendarUnit.HOUR: 60 * 60 * 1_000,
    CalendarUnit.DAY: 24 * 60 * 60 * 1_000,
}


def to_datetime(rowtime: int) -> datetime:
    """Return the date and time of a rowtime (UTC, without saying so)."""
    return EPOCH + timedelta(milliseconds=rowtime)


def to_rowtime(when: datetime) -> int:
    """Return the rowtime of a date and time."""
    return (when - EPOCH) // timedelta(milliseconds=1)


def floor_of(period: Period, rowtime: int) -> int:
    """Return the start of the half-open period that a rowtime is in."""
    if period.unit is None:
        assert period.step_ms is not None
        return (rowtime - period.offset_ms) // period.step_ms * period.step_ms + period.offset_ms
    if period.unit in UNITS_MS:
        return rowtime // UNITS_MS[period.unit] * UNITS_MS[period.unit]
    day = to_datetime(rowtime).replace(hour=0, minute=0, second=0, microsecond=0)
    match period.unit:
        case CalendarUnit.WEEK:
            return to_rowtime(day - timedelta(days=day.weekday()))
        case CalendarUnit.MONTH:
            return to_rowtime(day.replace(day=1))
        case CalendarUnit.QUARTER:
            return to_rowtime(day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1))
        case CalendarUnit.YEAR:
            return to_rowtime(day.replace(month=1, day=1))
    raise KeyError(period.unit)


def next_after(period: Period, start: int) -> int:
    """Return the edge after the edge ``start``."""
    if period.unit is None:
        assert period.step_ms is not None
        return start + period.step_ms
    if period.unit in UNITS_MS:
        return start + UNITS_MS[period.unit]
    if period.unit is CalendarUnit.WEEK:
        return start + 7 * UNITS_MS[CalendarUnit.DAY]
    # No period is longer than 366 days: a day inside the next one, rounded down.
    longest = {CalendarUnit.MONTH: 31, CalendarUnit.QUARTER: 92, CalendarUnit.YEAR: 366}[period.unit]
    return floor_of(period, start + longest * UNITS_MS[CalendarUnit.DAY])


def period_name(period: Period, rowtime: int) -> int:
    """Return the name of the period that a rowtime is in.

    See docs/sql/semantics.md#periods, #alignment-of-periods.
    """
    if period.edge is PeriodEdge.EXACT:
        return rowtime
    start = floor_of(period, rowtime)
    if period.edge is PeriodEdge.FLOOR or start == rowtime:
        return start
    return next_after(period, start)


def period_end(period: Period, name: int) -> int:
    """Return the rowtime that the groups of a period have (docs/sql/semantics.md#rowtime-of-a-group)."""
    return next_after(period, name) if period.edge is PeriodEdge.FLOOR else name


def month_edge(number: int) -> int:
    """Return the first rowtime of a month, counted from January 1970."""
    return to_rowtime(EPOCH.replace(year=1970 + number // 12, month=1 + number % 12))


NEAR_MONTHS = range(-60, 720)
"""Months from 1965 to 2029, which have all the rowtimes of the cases."""


def hop_windows(hop: Hop | HopByMonths, rowtime: int) -> list[tuple[int, int]]:
    """Return start and end of the windows that contain a rowtime, the earliest first."""
    if isinstance(hop, HopByMonths):
        starts = (number for number in NEAR_MONTHS if number % hop.slide == 0)
        edges = [(month_edge(number), month_edge(number + hop.size)) for number in starts]
        return [(start, end) for start, end in edges if start <= rowtime < end]
    near = range(rowtime - hop.size_ms + 1, rowtime + 1)
    return [(start, start + hop.size_ms) for start in near if (start - hop.offset_ms) % hop.slide_ms == 0]


def next_hop_end(hop: Hop | HopByMonths, reached: int) -> int:
    """Return the earliest end of a window after a rowtime."""
    if isinstance(hop, HopByMonths):
        starts = (number for number in NEAR_MONTHS if number % hop.slide == 0)
        return min(end for number in starts if (end := month_edge(number + hop.size)) > reached)
    later = range(reached + 1, reached + hop.slide_ms + 1)
    return min(end for end in later if (end - hop.size_ms - hop.offset_ms) % hop.slide_ms == 0)


class Rejected(Exception):
    """An expression has no value for a row."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


FIRST_TIMESTAMP, LAST_TIMESTAMP = -62_135_596_800_000, 253_402_300_799_999
"""0001-01-01 00:00:00.000 and 9999-12-31 23:59:59.999."""


def evaluate(expr: Expr, row: Row, rowtime: int) -> Any:
    """Return the value of one of the few expressions that the cases use, None for NULL.

    Raises:
      Rejected: if it has none.
    """
    match expr:
        case Literal(value=value):
            return value
        case FieldRef(index=index):
            return row[index]
        case RowtimeRef():
            return rowtime
        case Call(function="AND", args=(left, right)):
            # A FALSE decides; what comes after it is not looked at.
            first = evaluate(left, row, rowtime)
            if first is False:
                return False
            second = evaluate(right, row, rowtime)
            return False if second is False else None if None in (first, second) else True
        case Call(function=function, args=args, type=kind):
            values = [evaluate(arg, row, rowtime) for arg in args]
            return None if None in values else call(function, values, kind)
    raise KeyError(expr)


def call(function: str, values: Sequence[Any], kind: Type) -> Any:
    """Return the value of a function of values that are not NULL."""
    left, right = values
    match function:
        case "=":
            return left == right
        case "<":
            return left < right
        case "FLOOR_TO":
            return within(floor_of(Period(PeriodEdge.FLOOR, CalendarUnit(right)), left), kind)
        case "STEP":
            return within(left // right * right, kind)
        case "+":
            return within(left + right, kind)
        case "/":
            if right == 0:
                raise Rejected(Reason.DIVISION_BY_ZERO)
            quotient = abs(left) // abs(right)
            return within(quotient if (left < 0) == (right < 0) else -quotient, kind)
    raise KeyError(function)


def within(value: int, kind: Type) -> int:
    """Return a value that its type holds."""
    low, high = -(2**63), 2**63 - 1
    if kind.is_timestamp:
        low, high = FIRST_TIMESTAMP, LAST_TIMESTAMP
    if not low <= value <= high:
        raise Rejected(Reason.OVERFLOW)
    return value
