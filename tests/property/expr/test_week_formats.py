"""Formats of years of weeks and of seconds of the day, read and written, against Python's calendar."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rowtide.expr.functions.times.time_formats import DayTime, read, template, written

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.datetimes(datetime(1000, 1, 1), datetime(9998, 12, 31)).map(lambda at: at.replace(microsecond=0)))
def test_weeks_are_those_of_the_calendar(at: datetime) -> None:
    at = at.replace(tzinfo=UTC)
    since = at - EPOCH
    moment = DayTime(since.days, since.seconds * 1_000)
    year, week, weekday = at.isocalendar()
    first = datetime.fromisocalendar(year, 1, 1).replace(tzinfo=UTC)
    number = (at.replace(hour=0, minute=0, second=0) - first) // timedelta(days=1) + 1
    by_week, by_day = template("IYYY-IW-ID SSSS"), template("IYYY IDDD HH24:MI:SS")
    assert written(by_week, moment) == f"{year:04d}-{week:02d}-{weekday} {since.seconds}"
    assert written(by_day, moment) == f"{year:04d} {number:03d} {at:%H:%M:%S}"
    for parts in (by_week, by_day, template("IYYYIWIDHH24MISS")):
        assert read(parts, written(parts, moment)) == moment
