"""Periods rolled up by their own column are those that the rows themselves have."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.rowtime.period import CalendarUnit, Period, PeriodEdge, refines, value_of
from rowtide.sql.pipeline import SqlSession

HOUR = 3_600_000
UNITS = [each for each in CalendarUnit if each is not CalendarUnit.MILLISECOND]
STEPS = [60_000, 90_000, 600_000, HOUR, 7 * HOUR, 24 * HOUR]
OFFSETS = [0, 1, 30_000, 60_000, HOUR]
# From 1969 to 1971, with edges of hours among the times.
times = st.lists(
    st.tuples(
        st.integers(-400 * 24, 400 * 24), st.sampled_from([0, 0, 1, 59_999, 60_000, 1_800_000, 3_599_999])
    ).map(lambda each: each[0] * HOUR + each[1]),
    min_size=1,
    max_size=8,
).map(sorted)
periods = st.one_of(
    st.sampled_from(UNITS).map(lambda unit: Period(PeriodEdge.FLOOR, unit)),
    st.tuples(st.sampled_from(STEPS), st.sampled_from(OFFSETS)).map(
        lambda each: Period(PeriodEdge.FLOOR, step_ms=each[0], offset_ms=each[1] % each[0])
    ),
)


def written(period: Period, of: str) -> str:
    """Return SQL that rounds ``of`` down to a period."""
    if period.unit is not None:
        return f"FLOOR({of} TO {period.unit.value})"
    length = f"INTERVAL '{(period.step_ms or 0) // 1000}' SECOND"
    origin = f"TIMESTAMP '1970-01-01 {period.offset_ms // HOUR:02}:{period.offset_ms // 60_000 % 60:02}:"
    origin += f"{period.offset_ms // 1000 % 60:02}.{period.offset_ms % 1000:03}'"
    return f"DATE_BIN({length}, {of}, {origin})"


def grouped(query: str, rows: Sequence[int]) -> list[tuple[int, tuple[object, ...]]]:
    """Return ROWTIME and row of each group of a query over rows with these times."""
    session = SqlSession()
    session.feed("CREATE STREAM s (n INTEGER);")
    flow = Flow({"Q": session.query(query)}, {"S": (0,)})
    timed = [TimedRow(at, flow.origin("S", 0), n, Opcode.INSERT, (1,)) for n, at in enumerate(rows)]
    flow.insert("S", 0, Tray.from_rows(flow.row_type("S"), timed))
    flow.bound("S", 0, Bound(LATEST))
    emitted = flow.drain()
    assert emitted.faults == []
    return [(each.rowtime, tuple(each.row)) for tray in emitted.outputs["Q"] for each in tray.rows()]


@given(periods, periods, times)
def test_a_roll_up_is_the_group_of_the_rows(fine: Period, coarse: Period, rows: list[int]) -> None:
    assume(refines(fine, coarse))
    minute, hour, of_column = written(fine, "ROWTIME"), written(coarse, "ROWTIME"), written(coarse, "m")
    inner = f"SELECT STREAM {minute} AS m, COUNT(*) AS n FROM s GROUP BY {minute}"
    rolled = f"SELECT STREAM {of_column} AS p, SUM(n) AS n FROM ({inner}) GROUP BY {of_column}"
    direct = f"SELECT STREAM {hour} AS p, COUNT(*) AS n FROM s GROUP BY {hour}"
    assert grouped(rolled, rows) == grouped(direct, rows)


@given(periods, periods, times)
def test_a_period_refines_another_if_each_of_its_edges_is_one_of_the_other(
    fine: Period, coarse: Period, rows: list[int]
) -> None:
    if refines(fine, coarse):
        for at in rows:
            edge = value_of(coarse, at)
            assert value_of(fine, edge) == edge


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ("FLOOR(ROWTIME TO MINUTE)", "STEP(m BY INTERVAL '90' SECOND)"),
        ("FLOOR(ROWTIME TO WEEK)", "FLOOR(m TO MONTH)"),
        ("FLOOR(ROWTIME TO HOUR)", "FLOOR(m TO MINUTE)"),
        ("FLOOR(ROWTIME TO HOUR)", "CEIL(m TO DAY)"),
        ("FLOOR(ROWTIME TO HOUR)", "FLOOR(m + INTERVAL '1' MINUTE TO DAY)"),
    ],
)
def test_a_period_that_is_not_divided_is_refused(inner: str, outer: str) -> None:
    query = f"SELECT STREAM m, COUNT(*) AS n FROM s GROUP BY {inner}".replace(
        "STREAM m", f"STREAM {inner} AS m"
    )
    with pytest.raises(StatementError, match="needs a period") as caught:
        grouped(f"SELECT STREAM COUNT(*) AS n FROM ({query}) GROUP BY {outer}", [0])
    assert caught.value.hint is not None
    assert "promote" in caught.value.hint
