"""Conditions on the ROWTIMEs of two streams are the window that OVER writes: the same plan, in any spelling."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.errors import StatementError
from rowtide.plan.nodes import Node, WindowJoin, nodes_below
from rowtide.sql.pipeline import SqlSession

LOW = (
    "b.ROWTIME >= a.ROWTIME + {low}",
    "a.ROWTIME + {low} <= b.at",
    "b.ROWTIME - a.at >= {low}",
    "b.ROWTIME - {low} >= a.ROWTIME",
    "a.at - b.ROWTIME < {below} * -1",
    "TSDIFF(a.ROWTIME, b.ROWTIME) > {low_ms} - 1",
)
HIGH = (
    "b.ROWTIME <= a.ROWTIME + {high}",
    "a.at >= b.at - {high}",
    "a.ROWTIME - b.ROWTIME >= {high} * -1",
    "{high_ms} >= TSDIFF(a.ROWTIME, b.ROWTIME)",
    "b.ROWTIME < a.ROWTIME + {high} + INTERVAL '0.001' SECOND",
)
MS = st.integers(-5000, 5000)
KINDS = st.sampled_from(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))


@cache
def session() -> SqlSession:
    """Return a session with two streams whose columns are promoted."""
    made = SqlSession()
    made.feed(
        "CREATE STREAM x (k INTEGER, at TIMESTAMP); CREATE STREAM y (k INTEGER, at TIMESTAMP);"
        "CREATE VIEW a AS SELECT STREAM at AS ROWTIME, * FROM x;"
        "CREATE VIEW b AS SELECT STREAM at AS ROWTIME, * FROM y;"
    )
    return made


def planned(source: str) -> Node:
    """Return the plan of a query with this FROM."""
    return session().query(f"SELECT STREAM a.k, b.k AS other FROM {source}")


def interval(ms: int) -> str:
    """Return an interval of milliseconds."""
    return f"INTERVAL '{'-' if ms < 0 else ''}{abs(ms) // 1000}.{abs(ms) % 1000:03}' SECOND"


def edge(ms: int) -> str:
    """Return an edge of a window."""
    return f"{interval(abs(ms))} {'PRECEDING' if ms < 0 else 'FOLLOWING'}"


def over(low: int, high: int) -> str:
    """Return a window."""
    return f"OVER (RANGE BETWEEN {edge(low)} AND {edge(high)})"


@given(MS, MS, st.sampled_from(LOW), st.sampled_from(HIGH), KINDS)
def test_conditions_are_windows(one: int, other: int, low: str, high: str, kind: str) -> None:
    least, most = sorted((one, other))
    values = {
        "low": interval(least),
        "below": interval(least - 1),
        "high": interval(most),
        "low_ms": least,
        "high_ms": most,
    }
    given_text = f"a {kind} b ON {low} AND a.k = b.k AND {high}".format(**values)
    windows = f"a {over(-most, -least)} {kind} b {over(least, most)} ON a.k = b.k"
    assert planned(given_text) == planned(windows)


@given(st.integers(0, 9), st.integers(0, 9), KINDS)
def test_within_of_ksqldb_is_windows(before: int, after: int, kind: str) -> None:
    windows = (
        f"a {over(-after * 1000, before * 1000)} {kind} b {over(-before * 1000, after * 1000)} ON a.k = b.k"
    )
    assert planned(f"a {kind} b WITHIN ({before} SECONDS, {after} SECOND) ON a.k = b.k") == planned(windows)
    if before == after:
        assert planned(f"a {kind} b WITHIN {before} SECONDS ON a.k = b.k") == planned(windows)


@given(
    MS,
    MS,
    st.sampled_from(LOW),
    st.sampled_from(HIGH),
    st.sampled_from(("a, b WHERE ", "a JOIN b ON a.k > 1 WHERE ")),
)
def test_conditions_of_where_are_windows(one: int, other: int, low: str, high: str, source: str) -> None:
    least, most = sorted((one, other))
    values = {"low": interval(least), "below": interval(least - 1), "high": interval(most)}
    text = f"{source}a.k = b.k AND {low} AND {high}".format(**values, low_ms=least, high_ms=most)
    (join,) = (each for each in nodes_below(planned(text)) if isinstance(each, WindowJoin))
    assert (join.low_ms, join.high_ms, len(join.left_key)) == (least, most, 1)


@pytest.mark.parametrize("condition", [
    "b.ROWTIME >= a.ROWTIME",
    "b.ROWTIME <= a.ROWTIME + INTERVAL '1' MONTH AND b.ROWTIME >= a.ROWTIME",
    "b.ROWTIME BETWEEN a.ROWTIME AND TIMESTAMP '2024-01-01 00:00:00'",
    "b.ROWTIME + (a.ROWTIME - b.ROWTIME) = a.ROWTIME",
    "FLOOR(a.ROWTIME TO MINUTE) <= b.ROWTIME",
    "a.k BETWEEN b.k AND b.k + 1",
])  # fmt: skip
def test_other_conditions_limit_nothing(condition: str) -> None:
    with pytest.raises(StatementError, match="joined without a window"):
        planned(f"a JOIN b ON a.k = b.k AND {condition}")


def test_limits_that_no_rows_meet_are_refused() -> None:
    with pytest.raises(StatementError, match="no row would ever match"):
        planned("a JOIN b ON b.ROWTIME > a.ROWTIME AND b.ROWTIME < a.ROWTIME")
