"""Periods of a zone's clocks: those of the local times that Python shows, and what clocks do to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.rowtime.period import (
    CalendarUnit,
    Period,
    PeriodEdge,
    closed_by,
    comes_twice,
    end_after,
    floor_to,
    longest_ms,
    period_end,
    period_value,
    value_of,
)
from rowtide.rowtime.zones import clock_changes, first_showing, local_times, zone_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = (
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Tokyo",
)
"""Their clocks move by an hour, by half an hour, over midnight, by a day, four times a year, and never."""
UNITS = (CalendarUnit.HOUR, CalendarUnit.DAY, CalendarUnit.WEEK, CalendarUnit.MONTH, CalendarUnit.YEAR)


def ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    return int((datetime(year, month, day, hour, minute, tzinfo=UTC) - EPOCH) / timedelta(milliseconds=1))


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, int]:
    """A zone and a time, often near a change of its clocks."""
    zone = draw(st.sampled_from(ZONES))
    at = draw(st.integers(ms(1971, 1, 1), ms(2039, 1, 1)))
    changes = clock_changes(zone, at, at + 400 * 86_400_000)
    is_near = draw(st.booleans())
    if changes and is_near:
        change = changes[draw(st.integers(0, len(changes) - 1))]
        near = draw(st.sampled_from((0, 1, 1_800_000, 3_600_000, 7_200_000, 86_400_000)))
        at = change.at + draw(st.sampled_from((-1, 1))) * near + draw(st.sampled_from((-1, 0)))
    return zone, at


def shown(zone: str, at: int) -> int:
    """Return what clocks show, by Python itself."""
    found = zone_of(zone)
    assert found is not None
    return at + int(_offset(found, at) / timedelta(milliseconds=1))


def _offset(zone: ZoneInfo, at: int) -> timedelta:
    return (EPOCH + timedelta(milliseconds=at)).astimezone(zone).utcoffset() or timedelta()


@given(st.lists(moments(), min_size=1, max_size=5))
def test_local_times_are_those_of_python(given: list[tuple[str, int]]) -> None:
    for zone, _ in given:
        times = [at for _, at in given]
        assert local_times(zone, np.array(times, dtype=np.int64)).tolist() == [
            shown(zone, at) for at in times
        ]


@given(moments())
def test_a_local_time_is_first_shown_when_no_earlier_time_shows_it(moment: tuple[str, int]) -> None:
    zone, at = moment
    local = shown(zone, at)
    first = first_showing(zone, local)
    assert first <= at
    assert shown(zone, first) >= local
    assert all(shown(zone, first - before) < local for before in (1, 900_000, 3_600_000, 90_000_000))


@given(moments(), st.sampled_from(UNITS))
def test_a_period_holds_the_times_whose_clocks_show_it(moment: tuple[str, int], unit: CalendarUnit) -> None:
    zone, at = moment
    period = Period(PeriodEdge.FLOOR, unit, zone=zone)
    name, end = value_of(period, at), end_after(period, at)
    assert name <= at < end <= name + longest_ms(period)
    assert closed_by(period, name) == end
    assert value_of(period, end) == end
    utc = Period(PeriodEdge.FLOOR, unit)
    inside = [name, at, end - 1]
    assert not comes_twice(utc, zone)
    assert len({value_of(utc, shown(zone, each)) for each in inside}) == 1
    assert (
        value_of(utc, shown(zone, name - 1))
        < value_of(utc, shown(zone, name))
        < value_of(utc, shown(zone, end))
    )


@given(st.sampled_from(("America/Goose_Bay", "Antarctica/Troll", *ZONES)), st.data())
def test_names_never_fall_whatever_the_clocks_do(zone: str, data: st.DataObject) -> None:
    period = Period(PeriodEdge.FLOOR, data.draw(st.sampled_from(UNITS)), zone=zone)
    start = data.draw(st.integers(ms(1987, 1, 1), ms(2011, 12, 31)))
    changes = clock_changes(zone, start, start + 400 * 86_400_000)
    around = changes[0].at if changes else start
    times = np.arange(around - 7_200_000, around + 7_200_000, 60_000, dtype=np.int64)
    names = period_value(period, times)
    assert (np.diff(names) >= 0).all()
    assert (names <= times).all()
    assert (times < period_end(period, names)).all()


@pytest.mark.parametrize(
    ("zone", "unit", "twice"),
    [
        ("America/Goose_Bay", CalendarUnit.DAY, True),  # 00:01 became 23:01
        ("Antarctica/Troll", CalendarUnit.HOUR, True),  # 03:00 becomes 01:00
        ("Antarctica/Troll", CalendarUnit.DAY, False),
        ("Europe/Berlin", CalendarUnit.MINUTE, True),
        ("Asia/Kolkata", CalendarUnit.MINUTE, False),
    ],
)
def test_some_clocks_show_a_period_again(zone: str, unit: CalendarUnit, twice: bool) -> None:
    assert comes_twice(Period(PeriodEdge.FLOOR, unit), zone) is twice


def test_a_period_that_clocks_skip_is_empty_and_no_other_is() -> None:
    day = Period(PeriodEdge.FLOOR, CalendarUnit.DAY, zone="Pacific/Apia")
    last = ms(2011, 12, 30, 9, 59)
    assert value_of(day, last) == ms(2011, 12, 29, 10)
    assert end_after(day, last) == value_of(day, last + 60_000) == ms(2011, 12, 30, 10)


def test_outside_the_calendar_of_a_zone_periods_are_those_of_utc() -> None:
    utc, berlin = (
        Period(PeriodEdge.FLOOR, CalendarUnit.DAY),
        Period(PeriodEdge.FLOOR, CalendarUnit.DAY, zone="Europe/Berlin"),
    )
    for at in (-(2**62), ms(1, 1, 1), ms(9999, 12, 31), 2**62):
        assert floor_to(np.array([at]), berlin).tolist() == floor_to(np.array([at]), utc).tolist()
