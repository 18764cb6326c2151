"""Intervals that name their units in the text: DuckDB reads the same ones."""

from __future__ import annotations

from datetime import timedelta

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.sql.grammar.literals import interval_in_words

DAYS = (
    "ms",
    "milliseconds",
    "second",
    "secs",
    "minutes",
    "min",
    "hours",
    "hour",
    "day",
    "days",
    "week",
    "weeks",
)
MONTHS = ("month", "months", "mon", "year", "years", "quarters")
counts = st.integers(-50, 50)


def parts(units: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Return texts such as ``2 hours -3 minutes``."""
    part = st.tuples(counts, st.sampled_from(["", " "]), st.sampled_from(units)).map(
        lambda each: f"{each[0]}{each[1]}{each[2]}"
    )
    return st.lists(part, min_size=1, max_size=4).map(" ".join)


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@given(parts(DAYS))
def test_days_to_milliseconds(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    ((theirs,),) = connection.execute("SELECT CAST($1 AS INTERVAL)", [text]).fetchall()
    length, family, _ = interval_in_words(text)
    assert family == "DAY"
    assert timedelta(milliseconds=length) == theirs


@given(parts(MONTHS))
def test_months(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    ((years, months),) = connection.execute(
        "SELECT datepart('year', i), datepart('month', i) FROM (SELECT CAST($1 AS INTERVAL) AS i)", [text]
    ).fetchall()
    length, family, _ = interval_in_words(text)
    assert family == "MONTH"
    assert length == 12 * years + months


@given(counts, st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_a_time_after_days(days: int, minutes: int, seconds: int, parts: int) -> None:
    length, family, unit = interval_in_words(f"{days} days 7:{minutes:02}:{seconds:02}.{parts:03}")
    wanted = timedelta(days=days, hours=7, minutes=minutes, seconds=seconds, milliseconds=parts)
    assert (timedelta(milliseconds=length), family, unit) == (wanted, "DAY", None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "5",
        "5 foo",
        "minutes",
        "1 month 3 days",
        "1.0001 seconds",
        "0.5 months",
        "1:70:00",
        "5 minutes x",
    ],
)
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        interval_in_words(text)


def test_ago_turns_all_parts() -> None:
    assert interval_in_words("1 hour -5 minutes ago") == (-55 * 60_000, "DAY", None)
