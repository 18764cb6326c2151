"""Which windows a rowtime is in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rowtide.rowtime.period import DAY_MS, CalendarUnit, CumulateByMonths, Hop, HopByMonths

HOPS = st.builds(Hop, st.integers(1, 4), st.integers(1, 9), st.integers(0, 3))


@given(HOPS, st.integers(-50, 50))
def test_the_windows_of_a_rowtime_are_those_that_hold_it(hop: Hop, rowtime: int) -> None:
    near = range(rowtime - 20, rowtime + 20)
    edges = [start for start in near if (start - hop.offset_ms) % hop.slide_ms == 0]
    assert list(hop.starts(rowtime)) == [each for each in edges if each <= rowtime < each + hop.size_ms]
    assert hop.next_end(rowtime) == min(each + hop.size_ms for each in edges if each + hop.size_ms > rowtime)


EDGES = [datetime(year, month, 1, tzinfo=UTC) for year in range(1968, 1973) for month in range(1, 13)]
TIMES = st.datetimes(datetime(1969, 1, 1), datetime(1971, 1, 1), timezones=st.just(UTC)) | st.sampled_from(
    EDGES[12:36]
)


@given(st.integers(1, 5), st.integers(1, 7), TIMES)
def test_the_windows_by_months_of_a_rowtime_are_those_that_hold_it(
    slide: int, size: int, when: datetime
) -> None:
    hop = HopByMonths(slide, size)
    rowtime = _ms(when)
    windows = [
        (_ms(start), _ms(end))
        for number, (start, end) in enumerate(zip(EDGES, EDGES[size:], strict=False), start=-24)
        if number % slide == 0
    ]
    assert hop.starts(rowtime) == [start for start, end in windows if start <= rowtime < end]
    assert all(hop.end(start) == end for start, end in windows)
    assert hop.next_end(rowtime) == min(end for _, end in windows if end > rowtime)
    assert len(hop.starts(rowtime)) <= hop.at_a_time()


@given(TIMES)
def test_a_window_that_grows_by_days_ends_with_its_month(when: datetime) -> None:
    days = CumulateByMonths(CalendarUnit.MONTH, step_ms=DAY_MS)
    assert days.next_end(_ms(when)) == (_ms(when) // DAY_MS + 1) * DAY_MS
    assert CumulateByMonths(CalendarUnit.YEAR, step_months=6).next_end(_ms(when)) == min(
        _ms(edge) for edge in EDGES if edge.month in (1, 7) and edge > when
    )


def _ms(when: datetime) -> int:
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
