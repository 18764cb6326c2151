"""Windows of groups, and rowtimes near their edges, for the cases of operators."""

from __future__ import annotations

from hypothesis import strategies as st

from rowtide.rowtime.period import (
    DAY_MS,
    CalendarUnit,
    CumulateByMonths,
    Hop,
    HopByMonths,
    Period,
    PeriodEdge,
)

MINUTE = 60_000
UNITS = [Period(edge, unit) for edge in (PeriodEdge.FLOOR, PeriodEdge.CEIL) for unit in CalendarUnit]
STEPS = [
    Period(edge, None, step, offset)
    for edge in (PeriodEdge.FLOOR, PeriodEdge.CEIL)
    for step, offset in ((3, 0), (3, 1), (MINUTE, 0), (7 * MINUTE, MINUTE))
]
PERIODS = (*STEPS, *UNITS, Period(PeriodEdge.EXACT))
HOPS = st.builds(Hop, st.integers(1, 4), st.integers(1, 9), st.integers(0, 3))
MONTHS = Period(PeriodEdge.FLOOR, CalendarUnit.MONTH)
HOPS_BY_MONTHS = st.builds(HopByMonths, st.integers(1, 4), st.integers(1, 6))
CUMULATES_BY_MONTHS = st.sampled_from(
    [
        CumulateByMonths(CalendarUnit.MONTH, step_ms=DAY_MS),
        CumulateByMonths(CalendarUnit.YEAR, step_months=4),
        CumulateByMonths(CalendarUnit.QUARTER, step_months=1),
        CumulateByMonths(CalendarUnit.MONTH, step_months=1),
    ]
)


def times_in(period: Period) -> st.SearchStrategy[int]:
    """Return rowtimes in a few neighbouring periods, their edges among them."""
    if period.unit is None:
        length = period.step_ms or 1
        edges = [period.offset_ms + turn * length for turn in range(-2, 3)]
    else:
        # 1969-12-01, 1970-01-01, 2000-02-28 to 2000-03-01 (a leap year), a Monday, a quarter's end.
        edges = [-31 * 86_400_000, 0, 951_696_000_000, 951_782_400_000, 951_868_800_000, 1_711_929_600_000]
    return st.builds(lambda edge, by: edge + by, st.sampled_from(edges), st.sampled_from((-1, 0, 1, 2)))
