"""Which windows a rowtime is in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowtide.rowtime.period import Hop

HOPS = st.builds(Hop, st.integers(1, 4), st.integers(1, 9), st.integers(0, 3))


@given(HOPS, st.integers(-50, 50))
def test_the_windows_of_a_rowtime_are_those_that_hold_it(hop: Hop, rowtime: int) -> None:
    near = range(rowtime - 20, rowtime + 20)
    edges = [start for start in near if (start - hop.offset_ms) % hop.slide_ms == 0]
    assert list(hop.starts(rowtime)) == [each for each in edges if each <= rowtime < each + hop.size_ms]
    assert hop.next_end(rowtime) == min(each + hop.size_ms for each in edges if each + hop.size_ms > rowtime)
