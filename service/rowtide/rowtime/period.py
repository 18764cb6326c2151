"""Periods of rowtime: the period that contains a rowtime, and its end.

See docs/sql/semantics.md#periods, #rowtime-of-a-group, #alignment-of-periods.

FLOOR and STEP periods are half-open [start, end) and named by their start;
CEIL periods are (start, end] and named by their end; EXACT ones hold one
millisecond and are named by it. STEP is aligned to 1970-01-01 00:00:00 UTC plus
an offset, the units to the calendar; weeks begin on Monday. Units of a zone
begin when its clocks first show the edge: a day may have 23 or 25 hours. Their
names are times of UTC, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS, OMITTED
from rowtide.rowtime.zones import clock_changes, first_showing, local_times

Rowtimes = NDArray[np.int64]

DAY_MS = 86_400_000
WEEK_OFFSET_MS = 4 * DAY_MS
"""The epoch was a Thursday: the first Monday is four days later."""


class PeriodEdge(Enum):
    """The direction in which a rowtime is rounded to name its period."""

    FLOOR = "FLOOR"
    CEIL = "CEIL"
    EXACT = "EXACT"
    """GROUP BY ROWTIME: every rowtime is a period of its own."""


class CalendarUnit(Enum):
    """Units that FLOOR and CEIL round to; those up to WEEK have a fixed length."""

    MILLISECOND = "MILLISECOND"
    SECOND = "SECOND"
    MINUTE = "MINUTE"
    HOUR = "HOUR"
    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"
    QUARTER = "QUARTER"
    YEAR = "YEAR"


_FIXED_MS = {
    CalendarUnit.MILLISECOND: 1,
    CalendarUnit.SECOND: 1_000,
    CalendarUnit.MINUTE: 60_000,
    CalendarUnit.HOUR: 3_600_000,
    CalendarUnit.DAY: DAY_MS,
    CalendarUnit.WEEK: 7 * DAY_MS,
}
_MONTHS = {CalendarUnit.MONTH: 1, CalendarUnit.QUARTER: 3, CalendarUnit.YEAR: 12}
_LONGEST_DAYS = {CalendarUnit.MONTH: 31, CalendarUnit.QUARTER: 92, CalendarUnit.YEAR: 366}


@dataclass(frozen=True, slots=True)
class Period:
    """A calendar unit, or ``step_ms`` aligned to the epoch plus ``offset_ms``."""

    edge: PeriodEdge
    unit: CalendarUnit | None = None
    step_ms: int | None = None
    offset_ms: int = 0
    zone: str | None = field(default=None, metadata=OMITTED)
    """FLOOR to units of this zone's clocks; None: UTC."""


def longest_ms(period: Period) -> int:
    """Return the length of the longest such period."""
    if period.edge is PeriodEdge.EXACT:
        return 1
    if period.unit is None:
        return period.step_ms or 1
    if period.zone is not None:
        return longest_ms(replace(period, zone=None)) + DAY_MS
    return _FIXED_MS.get(period.unit) or _LONGEST_DAYS[period.unit] * DAY_MS


def moves(period: Period) -> tuple[int, int]:
    """Return how far a rowtime can be before and after its rounded value, in ms."""
    most = longest_ms(period) - 1
    return (most, 0) if period.edge is PeriodEdge.CEIL else (0, most)


def refines(fine: Period, coarse: Period) -> bool:
    """Return whether each edge of ``coarse`` is an edge of ``fine``, which is rounded in the same direction."""
    if fine.zone is not None or coarse.zone is not None:
        return fine == coarse
    of_fine = _MONTHS.get(fine.unit) if fine.unit is not None else None
    of_coarse = _MONTHS.get(coarse.unit) if coarse.unit is not None else None
    if of_fine is not None:
        return of_coarse is not None and of_coarse % of_fine == 0
    length, offset = _grid(fine)
    # Months begin at midnights, which are multiples of a day.
    wider, other = (DAY_MS, 0) if of_coarse is not None else _grid(coarse)
    return wider % length == 0 and (other - offset) % length == 0


@dataclass(frozen=True, slots=True)
class Hop:
    """Half-open windows of ``size_ms`` that begin every ``slide_ms``, from the epoch plus ``offset_ms`` on.

    A size above the slide makes them overlap; below it, rows between two windows are in none.
    """

    slide_ms: int
    size_ms: int
    offset_ms: int = 0

    def starts(self, rowtime: int) -> range:
        """Return the starts of the windows that contain a rowtime, the earliest first."""
        latest = rowtime - (rowtime - self.offset_ms) % self.slide_ms
        count = max(0, -(-(self.size_ms - (rowtime - latest)) // self.slide_ms))
        return range(latest - (count - 1) * self.slide_ms, latest + 1, self.slide_ms)

    def end(self, start: int) -> int:
        """Return the end of the window that begins at ``start``."""
        return start + self.size_ms

    def next_end(self, rowtime: int) -> int:
        """Return the earliest end of a window that is after ``rowtime``."""
        return rowtime + self.slide_ms - (rowtime - self.offset_ms - self.size_ms) % self.slide_ms

    def at_a_time(self) -> int:
        """Return the most windows that contain a rowtime."""
        return -(-self.size_ms // self.slide_ms)


@dataclass(frozen=True, slots=True)
class HopByMonths:
    """Half-open windows of ``size`` months that begin every ``slide`` months, counted from January 1970."""

    slide: int
    size: int

    def starts(self, rowtime: int) -> list[int]:
        """Return the starts of the windows that contain a rowtime, the earliest first."""
        months = Hop(self.slide, self.size).starts(month_of(rowtime))
        return [month_start(month) for month in months]

    def end(self, start: int) -> int:
        """Return the end of the window that begins at ``start``."""
        return month_start(month_of(start) + self.size)

    def next_end(self, rowtime: int) -> int:
        """Return the earliest end of a window that is after ``rowtime``."""
        return month_start(Hop(self.slide, self.size).next_end(month_of(rowtime)))

    def at_a_time(self) -> int:
        """Return the most windows that contain a rowtime."""
        return -(-self.size // self.slide)


@dataclass(frozen=True, slots=True)
class Cumulate:
    """Half-open windows that begin every ``size_ms`` and grow by ``step_ms`` up to this size.

    The size is a multiple of the step. A window is named by its end, because several have one start.
    """

    step_ms: int
    size_ms: int
    offset_ms: int = 0

    def next_end(self, rowtime: int) -> int:
        """Return the earliest end of a window that is after ``rowtime``."""
        return rowtime + self.step_ms - (rowtime - self.offset_ms) % self.step_ms

    def at_a_time(self) -> int:
        """Return the most windows that contain a rowtime."""
        return self.size_ms // self.step_ms


@dataclass(frozen=True, slots=True)
class CumulateByMonths:
    """Half-open windows that begin with a month, quarter or year, and grow by a step up to its end.

    The step is ``step_ms``, of which a day is a multiple, or ``step_months``, of which the unit is a multiple.
    """

    unit: CalendarUnit
    step_ms: int | None = None
    step_months: int = 0

    @property
    def step(self) -> int:
        """The step, in ms or months."""
        return self.step_months if self.step_ms is None else self.step_ms

    @property
    def months(self) -> int:
        """The months of the unit."""
        return _MONTHS[self.unit]

    def next_end(self, rowtime: int) -> int:
        """Return the earliest end of a window that is after ``rowtime``."""
        if self.step_ms is not None:
            return rowtime + self.step_ms - rowtime % self.step_ms
        return HopByMonths(self.step_months, self.step_months).next_end(rowtime)

    def at_a_time(self) -> int:
        """Return the most windows that contain a rowtime."""
        if self.step_ms is not None:
            return _LONGEST_DAYS[self.unit] * DAY_MS // self.step_ms
        return self.months // self.step_months


GridWindow = Period | Hop | HopByMonths | Cumulate | CumulateByMonths
"""Windows that begin and end at points of a grid of rowtime, whatever rows there are."""


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that grow with their rows and end ``gap_ms`` after the last one."""

    gap_ms: int


def months_of(rowtime: Rowtimes) -> Rowtimes:
    """Return the month that each rowtime (ms) is in, counted from January 1970."""
    return rowtime.astype("datetime64[ms]").astype("datetime64[M]").astype(np.int64)


def month_starts(month: Rowtimes) -> Rowtimes:
    """Return the first millisecond of months counted from January 1970."""
    return month.astype("datetime64[M]").astype("datetime64[ms]").astype(np.int64)


def month_of(rowtime: int) -> int:
    """Return the month that one rowtime (ms) is in, counted from January 1970."""
    return int(months_of(np.array([rowtime], dtype=np.int64))[0])


def month_start(month: int) -> int:
    """Return the first millisecond of one month, counted from January 1970."""
    return int(month_starts(np.array([month], dtype=np.int64))[0])


def floor_to(rowtime: Rowtimes, period: Period) -> Rowtimes:
    """Return the latest edge of the period's grid that is not after each rowtime."""
    if period.zone is not None:
        return _floor_to_clocks(rowtime, replace(period, zone=None), period.zone)
    months = _MONTHS.get(period.unit) if period.unit is not None else None
    if months is not None:
        month = months_of(rowtime)
        return month_starts(month - np.mod(month, months))
    length, offset = _grid(period)
    return rowtime - np.mod(rowtime - offset, length)


def ceil_to(rowtime: Rowtimes, period: Period) -> Rowtimes:
    """Return the earliest edge of the period's grid that is not before each rowtime."""
    start = floor_to(rowtime, period)
    return np.where(start == rowtime, start, _next_edge(start, period))


def period_value(period: Period, rowtime: Rowtimes) -> Rowtimes:
    """Return the name of the period that each rowtime (ms) is in."""
    match period.edge:
        case PeriodEdge.FLOOR:
            return floor_to(rowtime, period)
        case PeriodEdge.CEIL:
            return ceil_to(rowtime, period)
        case PeriodEdge.EXACT:
            return rowtime


def period_end(period: Period, value: Rowtimes) -> Rowtimes:
    """Return the end of each named period: the rowtime that its group has."""
    if period.edge is PeriodEdge.FLOOR:
        return _next_edge(value, period)
    return value


def value_of(period: Period, rowtime: int) -> int:
    """Return the name of the period that one rowtime (ms) is in."""
    if period.edge is PeriodEdge.EXACT:
        return rowtime
    return int(period_value(period, np.array([rowtime], dtype=np.int64))[0])


def end_after(period: Period, rowtime: int) -> int:
    """Return the end of the period that a rowtime (ms) is in."""
    at = np.array([rowtime], dtype=np.int64)
    return int(period_end(period, period_value(period, at))[0])


def closed_by(period: Period, value: int) -> int:
    """Return the least bound (ms) at which the period named ``value`` is over."""
    end = int(period_end(period, np.array([value], dtype=np.int64))[0])
    # A period that includes its end is over when the bound has passed it.
    return end if period.edge is PeriodEdge.FLOOR else end + 1


def first_end(window: GridWindow, rowtime: int) -> int:
    """Return the earliest end of a window that contains a rowtime (ms)."""
    return end_after(window, rowtime) if isinstance(window, Period) else window.next_end(rowtime)


def first_closing(window: GridWindow, rowtime: int) -> tuple[int, int]:
    """Return the least bound (ms) at which a window that contains a rowtime is over, and the end of that window."""
    end = first_end(window, rowtime)
    includes_end = isinstance(window, Period) and window.edge is not PeriodEdge.FLOOR
    return end + includes_end, end


def _grid(period: Period) -> tuple[int, int]:
    """Return length and offset (ms) of a grid of fixed length."""
    if period.unit is not None:
        return _FIXED_MS[period.unit], WEEK_OFFSET_MS if period.unit is CalendarUnit.WEEK else 0
    if period.step_ms is None or period.step_ms <= 0:
        raise ValueError("a period has a unit or a positive step")
    return period.step_ms, period.offset_ms


def _next_edge(edge: Rowtimes, period: Period) -> Rowtimes:
    """Return the edge that follows each edge of the grid."""
    if period.zone is not None:
        return _next_on_clocks(edge, replace(period, zone=None), period.zone)
    months = _MONTHS.get(period.unit) if period.unit is not None else None
    if months is not None:
        return month_starts(months_of(edge) + months)
    return edge + _grid(period)[0]


@lru_cache(maxsize=256)
def comes_twice(period: Period, zone: str) -> bool:
    """Return whether clocks of a zone ever show a period again after the one that follows it, from 1970 to 2040."""
    for change in clock_changes(zone, 0, month_start(70 * 12)):
        shown = np.array([change.at - 1 + change.before, change.at + change.after], dtype=np.int64)
        before, after = floor_to(shown, period).tolist()
        if after < before:
            return True
    return False


def _floor_to_clocks(rowtime: Rowtimes, period: Period, zone: str) -> Rowtimes:
    """Return when the clocks of a zone first showed the edge before each rowtime: of UTC, outside the calendar."""
    found = floor_to(rowtime, period)
    inside = (rowtime >= MIN_TIMESTAMP_MS + 2 * DAY_MS) & (rowtime <= MAX_TIMESTAMP_MS - 2 * DAY_MS)
    at = rowtime[inside]
    local = floor_to(local_times(zone, at), period)
    while len(at):
        # Where clocks go back over an edge, the period that has begun continues.
        later = _next_edge(local, period)
        begun = _first_showings(zone, later) <= at
        if not begun.any():
            break
        local = np.where(begun, later, local)
    found[inside] = _first_showings(zone, local)
    return found


def _next_on_clocks(edge: Rowtimes, period: Period, zone: str) -> Rowtimes:
    """Return when the clocks of a zone first show the edges after those that they first showed at ``edge``."""
    return _first_showings(zone, _next_edge(floor_to(local_times(zone, edge), period), period))


def _first_showings(zone: str, local: Rowtimes) -> Rowtimes:
    edges, places = np.unique(local, return_inverse=True)
    return np.array([first_showing(zone, each) for each in edges.tolist()], dtype=np.int64)[places]
