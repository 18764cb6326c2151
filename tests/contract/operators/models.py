"""What each operator means, one row at a time, in plain Python.

Written from the decisions and the docstrings, not from the operators: lists,
dicts, fractions and ``datetime``, no columns, no codes, everything worked out
anew for each row. Slow and short is right here.

A model takes rows and bounds one by one (``row``, ``bound``) and keeps all that
has come out so far in ``out`` and ``faults``.

More than 600 lines, so that all models stand side by side and share one idea of time.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from rowtide.errors import Reason
from rowtide.expr.tree import AggregateCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.operators.contract import Account, Place
from rowtide.plan.nodes import (
    AsOfJoin,
    BoundPolicy,
    Filter,
    GroupByHop,
    GroupByPeriod,
    GroupBySession,
    JoinKind,
    KeyedTable,
    Merge,
    Node,
    Project,
    Promote,
    Sort,
    SortInPeriod,
)
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.types import Kind, Type
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, UNMARKED, Bound
from rowtide.rowtime.period import CalendarUnit, Period, PeriodEdge

Told = tuple[str, Reason, int | None, int, int, object, int | None]
"""A fault without its words: relation, reason, rowtime, origin, counter, row (as bits), bound."""


class Model:
    """What all models share: what has come out, and the numbers of law 4."""

    def __init__(self) -> None:
        self.out: list[TimedRow] = []
        self.faults: list[Told] = []
        self.account = Account()

    def row(self, port: int, timed: TimedRow) -> None:
        """Take one row at a port."""
        raise NotImplementedError

    def bound(self, port: int, bound: Bound) -> None:
        """Take a bound at a port."""
        raise NotImplementedError

    def promised(self) -> int:
        """Give the rowtime of the bound that follows what has come out."""
        raise NotImplementedError

    def held(self) -> int:
        """Count the rows for which output may still come."""
        return 0

    def give(self, timed: TimedRow) -> None:
        """Let a row out."""
        self.account.rows_out += 1
        self.out.append(timed)

    def tell(self, relation: str, reason: Reason, timed: TimedRow, bound: int | None = None) -> None:
        """Tell of a row that was late or rejected."""
        if reason is Reason.LATE:
            self.account.late += 1
        else:
            self.account.rejected += 1
        self.faults.append(
            (relation, reason, timed.rowtime, timed.origin, timed.counter, bits(timed.row), bound)
        )


def bits(value: object) -> object:
    """Give something that is equal only for the very same value: zeros have signs, decimals digits."""
    match value:
        case float():
            return ("float", struct.pack(">d", value))
        case Decimal():
            return ("decimal", value.as_tuple())
        case tuple():
            return tuple(bits(each) for each in value)
        case _:
            return (type(value).__name__, value)


class SortModel(Model):
    """t-sort: late iff t + WITHIN < H or t < the explicit bound; ties leave in order of arrival."""

    def __init__(self, node: Sort, place: Place) -> None:
        super().__init__()
        self.node = node
        self.signs = place.origin if place.merged else None
        self.signed = 0
        self.highest: int | None = None
        self.explicit = EARLIEST
        self.waiting: list[TimedRow] = []

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        if timed.rowtime < self.promised():
            self.tell(self.node.relation, Reason.LATE, timed, self.promised())
            return
        self.highest = timed.rowtime if self.highest is None else max(self.highest, timed.rowtime)
        if self.signs is not None:
            timed = timed._replace(origin=self.signs, counter=self.signed)
            self.signed += 1
        self.waiting.append(timed)
        self.let_go()

    def bound(self, port: int, bound: Bound) -> None:
        self.explicit = max(self.explicit, bound.rowtime)
        self.let_go()

    def let_go(self) -> None:
        limit = self.promised()
        for timed in sorted(self.waiting, key=lambda each: each.rowtime):
            if timed.rowtime <= limit:
                self.waiting.remove(timed)
                self.account.done += 1
                self.give(timed)

    def promised(self) -> int:
        if self.highest is None:
            return self.explicit
        return max(self.highest - self.node.within_ms, self.explicit)

    def held(self) -> int:
        return len(self.waiting)


class MergeModel(Model):
    """The ordered union: the least row leaves once no other port can still bring one before it."""

    def __init__(self, node: Merge, place: Place) -> None:
        super().__init__()
        self.origins = place.port_origins
        together = [origin for origins in self.origins for origin in origins]
        self.order = sorted(set(together), key=together.index)
        self.waiting: list[tuple[TimedRow, int]] = []
        self.bounds = [NO_BOUND for _ in self.origins]
        self.last: list[TimedRow | None] = [None for _ in self.origins]

    def place_of(self, timed: TimedRow, port: int) -> tuple[int, int, int, int]:
        return (timed.rowtime, self.order.index(timed.origin), timed.counter, port)

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.waiting.append((timed, port))
        self.last[port] = timed
        self.let_go()

    def bound(self, port: int, bound: Bound) -> None:
        self.bounds[port] = later(self.bounds[port], bound)
        self.let_go()

    def may_come(self, port: int) -> tuple[int, int, int, int]:
        """Give the least place that a row of this port may still have."""
        bound, last = self.bounds[port], self.last[port]
        found = (bound.rowtime, *self.least_at(port, bound.origin, bound.counter + 1), port)
        if last is not None:
            # Rows come in order, so a row promises as much as a bound just before it.
            found = max(found, (last.rowtime, *self.least_at(port, last.origin, last.counter), port))
        return found

    def least_at(self, port: int, origin: int, counter: int) -> tuple[int, int]:
        """Give the least (rank, counter) at one rowtime if this origin goes on with ``counter``."""
        mine = self.origins[port]
        if origin == UNMARKED:
            return min((self.order.index(each), -1) for each in mine)
        later_ones = mine[mine.index(origin) + 1 :]
        return min([(self.order.index(origin), counter), *((self.order.index(o), -1) for o in later_ones)])

    def let_go(self) -> None:
        while self.waiting:
            least = min(self.waiting, key=lambda each: self.place_of(*each))
            place = self.place_of(*least)
            if any(self.may_come(each) < place for each in range(len(self.bounds))):
                return
            self.waiting.remove(least)
            self.account.done += 1
            self.give(least[0])

    def promised(self) -> int:
        coming = [self.may_come(port)[0] for port in range(len(self.bounds))]
        return min(coming)

    def held(self) -> int:
        return len(self.waiting)


def later(old: Bound, new: Bound) -> Bound:
    """Give the promise that holds after ``old`` and then ``new``; one without a mark takes none away."""
    if new.rowtime != old.rowtime:
        return new if new.rowtime > old.rowtime else old
    return old if new.origin == UNMARKED else new


class GroupModel(Model):
    """A row a group when its period closes; the row that overflows an aggregate was never there."""

    def __init__(self, node: GroupByPeriod, place: Place) -> None:
        super().__init__()
        self.node = node
        self.origin = place.origin
        self.reached = EARLIEST
        self.groups: dict[tuple[int, Row], list[TimedRow]] = {}

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        key = tuple(as_key(timed.row[index]) for index in self.node.keys)
        group = (period_name(self.node.period, timed.rowtime), key)
        rows = [*self.groups.get(group, []), timed]
        try:
            for call in self.node.aggregates:
                aggregate(call, rows)
        except OverflowError:
            self.tell(self.node.relation, Reason.OVERFLOW, timed)
            return
        self.groups[group] = rows

    def bound(self, port: int, bound: Bound) -> None:
        self.reached = max(self.reached, bound.rowtime)
        for group in list(self.groups):
            end = period_end(self.node.period, group[0])
            if end < self.reached or (end == self.reached and self.node.period.edge is PeriodEdge.FLOOR):
                rows = self.groups.pop(group)
                self.account.done += len(rows)
                values = tuple(aggregate(call, rows) for call in self.node.aggregates)
                row = (group[0], *group[1], *values)
                self.give(TimedRow(end, self.origin, self.account.rows_out, Opcode.INSERT, row))

    def promised(self) -> int:
        if self.reached in (EARLIEST, LATEST):
            return self.reached
        return period_end(self.node.period, period_name(self.node.period, self.reached))

    def held(self) -> int:
        return sum(len(rows) for rows in self.groups.values())


@dataclass
class Window:
    """One open group: its window, its key and its rows."""

    start: int
    end: int
    key: Row
    rows: list[TimedRow]


class WindowModel(Model):
    """Groups that end at times of their own, in the order of their first rows."""

    node: GroupByHop | GroupBySession

    def __init__(self, node: GroupByHop | GroupBySession, place: Place) -> None:
        super().__init__()
        self.node = node
        self.origin = place.origin
        self.reached = EARLIEST
        self.open: list[Window] = []

    def grown(self, timed: TimedRow, key: Row) -> list[tuple[Window | None, Window]]:
        """Give the groups that a row changes or, None, begins, as they were and as they are with it."""
        raise NotImplementedError

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        changes = self.grown(timed, tuple(as_key(timed.row[index]) for index in self.node.keys))
        try:
            for _, window in changes:
                for call in self.node.aggregates:
                    aggregate(call, window.rows)
        except OverflowError:
            self.tell(self.node.relation, Reason.OVERFLOW, timed)
            return
        for before, after in changes:
            if before is None:
                self.open.append(after)
            else:
                self.open[self.open.index(before)] = after
        self.account.done += not changes

    def bound(self, port: int, bound: Bound) -> None:
        self.reached = max(self.reached, bound.rowtime)
        held = self.held()
        for window in sorted(self.open, key=lambda each: each.end):
            if window.end <= self.reached:
                self.open.remove(window)
                values = tuple(aggregate(call, window.rows) for call in self.node.aggregates)
                row = (window.start, *window.key, *values)
                self.give(TimedRow(window.end, self.origin, self.account.rows_out, Opcode.INSERT, row))
        self.account.done += held - self.held()

    def held(self) -> int:
        rows = [timed for window in self.open for timed in window.rows]
        return len({(timed.rowtime, timed.origin, timed.counter) for timed in rows})


class HopModel(WindowModel):
    """Every window that holds a row, also those that began before the first one."""

    node: GroupByHop

    def grown(self, timed: TimedRow, key: Row) -> list[tuple[Window | None, Window]]:
        found = []
        for start in range(timed.rowtime - self.node.hop.size_ms + 1, timed.rowtime + 1):
            if self.is_start(start):
                before = next((each for each in self.open if (each.start, each.key) == (start, key)), None)
                rows = [*(before.rows if before else []), timed]
                found.append((before, Window(start, start + self.node.hop.size_ms, key, rows)))
        return found

    def promised(self) -> int:
        if self.reached in (EARLIEST, LATEST):
            return self.reached
        end = self.reached + 1
        while not self.is_start(end - self.node.hop.size_ms):
            end += 1
        return end

    def is_start(self, rowtime: int) -> bool:
        return (rowtime - self.node.hop.offset_ms) % self.node.hop.slide_ms == 0


class SessionModel(WindowModel):
    """A row less than a gap behind the one before it prolongs its key's session."""

    node: GroupBySession

    def grown(self, timed: TimedRow, key: Row) -> list[tuple[Window | None, Window]]:
        gap = self.node.session.gap_ms
        before = next((each for each in self.open if each.key == key and timed.rowtime < each.end), None)
        if before is None:
            return [(None, Window(timed.rowtime, timed.rowtime + gap, key, [timed]))]
        return [(before, Window(before.start, timed.rowtime + gap, key, [*before.rows, timed]))]

    def promised(self) -> int:
        if self.reached in (EARLIEST, LATEST):
            return self.reached
        return min([LATEST, self.reached + self.node.session.gap_ms, *(each.end for each in self.open)])


class SortInPeriodModel(Model):
    """The rows of a period, put into order one by one when it closes."""

    def __init__(self, node: SortInPeriod, place: Place) -> None:
        super().__init__()
        self.node = node
        self.origin = place.origin
        self.reached = EARLIEST
        self.waiting: list[TimedRow] = []

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        self.waiting.append(timed)

    def bound(self, port: int, bound: Bound) -> None:
        self.reached = max(self.reached, bound.rowtime)
        sorted_rows: list[tuple[int, TimedRow]] = []
        for timed in self.waiting:
            end = period_end(self.node.period, period_name(self.node.period, timed.rowtime))
            if end < self.reached or (end == self.reached and self.node.period.edge is PeriodEdge.FLOOR):
                place = len(sorted_rows)
                while place and self.before((end, timed), sorted_rows[place - 1]):
                    place -= 1
                sorted_rows.insert(place, (end, timed))
        for end, timed in sorted_rows:
            self.waiting.remove(timed)
            self.account.done += 1
            self.give(TimedRow(end, self.origin, self.account.rows_out, Opcode.INSERT, timed.row))

    def before(self, one: tuple[int, TimedRow], other: tuple[int, TimedRow]) -> bool:
        """Tell whether one row has to stand before another that came earlier."""
        if one[0] != other[0]:
            return one[0] < other[0]
        for index, descending in self.node.keys:
            left, right = one[1].row[index], other[1].row[index]
            if left == right:
                continue
            if left is None or right is None:
                return (right is None) is not descending
            return (left < right) is not descending  # type: ignore[operator]
        return False

    def promised(self) -> int:
        if self.reached in (EARLIEST, LATEST):
            return self.reached
        return period_end(self.node.period, period_name(self.node.period, self.reached))

    def held(self) -> int:
        return len(self.waiting)


def as_key(value: object) -> object:
    """Zero has no sign as a key; NULL is a key like others."""
    return value + 0.0 if isinstance(value, float) else value


def aggregate(call: AggregateCall, rows: Sequence[TimedRow]) -> object:
    """Give the value of an aggregate over all rows of a group.

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
    values: list[Any] = [timed.row[index] for timed in rows if timed.row[index] is not None]
    if call.distinct:
        values = [value for at, value in enumerate(values) if value not in values[:at]]
    kind = call.argument.type
    if call.function == "COUNT":
        return len(values)
    if not values:
        return None
    match call.function:
        case "MIN":
            return min(values)
        case "MAX":
            return max(values)
        case "SUM":
            return total_of(values, kind)
        case "AVG" if kind.is_float:
            return total_of(values, kind) / len(values)
        case "AVG":
            for value in values:
                exact(Fraction(value), call.type)
            return exact(Fraction(sum(map(Fraction, values)), len(values)), call.type)
    raise KeyError(call.function)


def total_of(values: Sequence[Any], kind: Type) -> Any:
    """Add up from left to right."""
    if kind.is_float:
        total = 0.0
        for value in values:
            total += value
        if not math.isfinite(total):
            raise OverflowError
        return total
    if kind.is_integer:
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


def exact(value: Fraction, kind: Type) -> Decimal:
    """Give a DECIMAL of 38 digits, rounded half away from zero.

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
    CalendarUnit.SECOND: 1_000,
    CalendarUnit.MINUTE: 60 * 1_000,
    CalendarUnit.HOUR: 60 * 60 * 1_000,
    CalendarUnit.DAY: 24 * 60 * 60 * 1_000,
}


def to_datetime(rowtime: int) -> datetime:
    """Give the date and time of a rowtime (UTC, without saying so)."""
    return EPOCH + timedelta(milliseconds=rowtime)


def to_rowtime(when: datetime) -> int:
    """Give the rowtime of a date and time."""
    return (when - EPOCH) // timedelta(milliseconds=1)


def floor_of(period: Period, rowtime: int) -> int:
    """Give the start of the half-open period that a rowtime is in."""
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
    """Give the edge after the edge ``start``."""
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
    """Give the name of the period that a rowtime is in (sql-decisions 1, 3)."""
    if period.edge is PeriodEdge.EXACT:
        return rowtime
    start = floor_of(period, rowtime)
    if period.edge is PeriodEdge.FLOOR or start == rowtime:
        return start
    return next_after(period, start)


def period_end(period: Period, name: int) -> int:
    """Give the rowtime that the groups of a period have (sql-decisions 2)."""
    return next_after(period, name) if period.edge is PeriodEdge.FLOOR else name


class TableModel(Model):
    """An engine table: the row of a key is replaced, or a multiset where there is no key."""

    def __init__(self, node: KeyedTable, _place: Place) -> None:
        super().__init__()
        self.node = node
        self.rows: list[Row] = []
        self.reached = EARLIEST

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        if any(timed.row[index] is None for index in self.node.key):
            self.tell(self.node.relation, Reason.NULL_KEY, timed)
            return
        self.account.done += 1
        if timed.opcode == Opcode.NOP:
            return
        if not self.node.key:
            if timed.opcode == Opcode.INSERT:
                self.rows.append(timed.row)
                self.give(timed)
            elif timed.row in self.rows:
                self.rows.remove(timed.row)
                self.give(timed)
            return
        for old in self.rows:
            if self.key(old) == self.key(timed.row):
                self.rows.remove(old)
                self.give(timed._replace(opcode=Opcode.DELETE, row=old))
                break
        if timed.opcode == Opcode.INSERT:
            self.rows.append(timed.row)
            self.give(timed)

    def key(self, row: Row) -> Row:
        return tuple(row[index] for index in self.node.key)

    def bound(self, port: int, bound: Bound) -> None:
        self.reached = max(self.reached, bound.rowtime)

    def promised(self) -> int:
        return self.reached


class JoinModel(Model):
    """A stream row at T leaves when the table's bound is past T, and sees the changes up to T."""

    def __init__(self, node: AsOfJoin, _place: Place) -> None:
        super().__init__()
        self.node = node
        self.changes: list[TimedRow] = []
        self.waiting: list[TimedRow] = []
        self.bounds = [EARLIEST, EARLIEST]

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        (self.changes if port == 0 else self.waiting).append(timed)
        # Rows come in order, so a row promises its rowtime.
        self.bound(port, Bound(timed.rowtime))

    def bound(self, port: int, bound: Bound) -> None:
        self.bounds[port] = max(self.bounds[port], bound.rowtime)
        self.let_go()

    def let_go(self) -> None:
        while self.waiting and self.waiting[0].rowtime < self.bounds[0]:
            timed = self.waiting.pop(0)
            matches = self.matches(timed)
            for match in matches:
                self.give(timed._replace(row=timed.row + match))
            if not matches and self.node.kind is JoinKind.LEFT:
                self.give(timed._replace(row=timed.row + (None,) * len(self.node.table.row_type)))
        self.account.done = self.account.rows_in - self.held()

    def matches(self, timed: TimedRow) -> list[Row]:
        key = [timed.row[index] for index in self.node.stream_key]
        image: list[Row] = []
        for change in self.changes:
            if change.rowtime <= timed.rowtime:
                if change.opcode == Opcode.INSERT:
                    image.append(change.row)
                elif change.opcode == Opcode.DELETE and change.row in image:
                    image.remove(change.row)
        return [
            row for row in image if None not in key and [row[index] for index in self.node.table_key] == key
        ]

    def promised(self) -> int:
        return self.waiting[0].rowtime if self.waiting else self.bounds[1]

    def held(self) -> int:
        # A change is over once every row that may still come is at its rowtime or after it.
        return len(self.waiting) + sum(1 for change in self.changes if change.rowtime > self.promised())


class Rejected(Exception):
    """An expression has no value for a row."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason


FIRST_TIMESTAMP, LAST_TIMESTAMP = -62_135_596_800_000, 253_402_300_799_999
"""0001-01-01 00:00:00.000 and 9999-12-31 23:59:59.999."""


def evaluate(expr: Expr, row: Row, rowtime: int) -> Any:
    """Give the value of one of the few expressions that the cases use, None for NULL.

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
            # A FALSE decides; what stands behind it is not looked at.
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
    """Give the value of a function of values that are not NULL."""
    left, right = values
    match function:
        case "=":
            return left == right
        case "<":
            return left < right
        case "FLOOR_TO":
            return within(floor_of(Period(PeriodEdge.FLOOR, CalendarUnit(right)), left), kind)
        case "+":
            return within(left + right, kind)
        case "/":
            if right == 0:
                raise Rejected(Reason.DIVISION_BY_ZERO)
            quotient = abs(left) // abs(right)
            return within(quotient if (left < 0) == (right < 0) else -quotient, kind)
    raise KeyError(function)


def within(value: int, kind: Type) -> int:
    """Give a value that its type holds."""
    low, high = -(2**63), 2**63 - 1
    if kind.kind is Kind.TIMESTAMP:
        low, high = FIRST_TIMESTAMP, LAST_TIMESTAMP
    if not low <= value <= high:
        raise Rejected(Reason.OVERFLOW)
    return value


class RowWiseModel(Model):
    """What remembers nothing: each row by itself, and every bound passed on."""

    def __init__(self, node: Any, _place: Place) -> None:
        super().__init__()
        self.node = node
        self.reached = EARLIEST

    def row(self, port: int, timed: TimedRow) -> None:
        self.account.rows_in += 1
        try:
            found = self.of(timed)
        except Rejected as error:
            self.tell(self.node.relation, error.reason, timed)
            return
        if found is None:
            self.account.filtered += 1
            return
        self.account.done += 1
        self.give(found)

    def of(self, timed: TimedRow) -> TimedRow | None:
        """Give what becomes of a row; None: it is filtered."""
        raise NotImplementedError

    def bound(self, port: int, bound: Bound) -> None:
        self.reached = max(self.reached, bound.rowtime)

    def promised(self) -> int:
        return self.reached


class FilterModel(RowWiseModel):
    """Keeps what is TRUE."""

    def of(self, timed: TimedRow) -> TimedRow | None:
        return timed if evaluate(self.node.condition, timed.row, timed.rowtime) is True else None


class ProjectModel(RowWiseModel):
    """Computes new fields; NULL in one that is NOT NULL is rejected, except where the row is deleted."""

    def of(self, timed: TimedRow) -> TimedRow | None:
        row = tuple(evaluate(each, timed.row, timed.rowtime) for each in self.node.expressions)
        for field, value in zip(self.node.row_type, row, strict=True):
            if value is None and not field.nullable and timed.opcode != Opcode.DELETE:
                raise Rejected(Reason.CONSTRAINT)
        return timed._replace(row=row)


class PromoteModel(RowWiseModel):
    """Gives a new rowtime; bounds are passed, dropped, or mapped by the same expression."""

    def of(self, timed: TimedRow) -> TimedRow | None:
        rowtime = evaluate(self.node.rowtime, timed.row, timed.rowtime)
        if rowtime is None:
            raise Rejected(Reason.MISSING_FIELD)
        if self.node.max_ahead_ms is not None and rowtime > timed.rowtime + self.node.max_ahead_ms:
            raise Rejected(Reason.FUTURE)
        return timed._replace(rowtime=rowtime)

    def promised(self) -> int:
        if self.node.bounds is BoundPolicy.PASS or self.reached == EARLIEST:
            return self.reached
        if self.node.bounds is BoundPolicy.DROP:
            return EARLIEST
        if self.reached > LAST_TIMESTAMP:
            return LATEST
        try:
            return self.at(self.reached)
        except Rejected:
            pass
        try:
            # Out of range now; the last rowtime is in range again if there are any that are.
            self.at(LAST_TIMESTAMP)
        except Rejected:
            return LATEST
        return EARLIEST

    def at(self, rowtime: int) -> int:
        return int(evaluate(self.node.rowtime, (), rowtime))


MODELS: dict[type, Callable[[Any, Place], Model]] = {
    Filter: FilterModel,
    Project: ProjectModel,
    Promote: PromoteModel,
    Sort: SortModel,
    Merge: MergeModel,
    GroupByPeriod: GroupModel,
    GroupByHop: HopModel,
    SortInPeriod: SortInPeriodModel,
    GroupBySession: SessionModel,
    KeyedTable: TableModel,
    AsOfJoin: JoinModel,
}


def model_of(node: Node, place: Place) -> Model:
    """Make the model of a plan node."""
    return MODELS[type(node)](node, place)


def origins_out(node: Node, place: Place) -> tuple[int, ...]:
    """Give the origins of the rows that leave, in their order at one rowtime (sql-decisions 14)."""
    match node:
        case GroupByPeriod() | GroupByHop() | GroupBySession() | SortInPeriod():
            return (place.origin,)
        case Sort() if place.merged:
            return (place.origin,)
        case AsOfJoin():
            return place.port_origins[1]
        case _:
            return unique(origin for origins in place.port_origins for origin in origins)


def unique(origins: Iterable[int]) -> tuple[int, ...]:
    """Give each origin once, where it stands first."""
    return tuple(dict.fromkeys(origins))
