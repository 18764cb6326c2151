"""DATEDIFF, DATE_BIN, EPOCH and seconds as times: DuckDB gives the same."""

from __future__ import annotations

from datetime import datetime

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.sql.pipeline import SqlSession

moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(
    lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000)
)
OURS = """
    DATEDIFF(SECOND, a, b), DATEDIFF(MINUTE, a, b), DATEDIFF(HOUR, a, b), DATEDIFF(DAY, a, b), DATE_DIFF('week', a, b),
    DATEDIFF(MONTH, a, b), DATEDIFF(QUARTER, a, b), DATEDIFF(YEAR, a, b), DATEDIFF(b, a),
    EXTRACT(EPOCH FROM DATE_BIN('17 minutes', a, TIMESTAMP '2001-01-01 00:05:00')),
    EXTRACT(EPOCH FROM DATE_BIN('3 days', b)), UNIX_TIMESTAMP(a),
    TO_TIMESTAMP(EXTRACT(EPOCH FROM a)) = FLOOR(a TO SECOND), FROM_UNIXTIME(UNIX_TIMESTAMP(a)),
    EXTRACT(EPOCH FROM FLOOR(a TO SECOND) - FLOOR(b TO SECOND))
"""
THEIRS = """
    date_diff('second', a, b), date_diff('minute', a, b), date_diff('hour', a, b), date_diff('day', a, b),
    date_diff('day', date_trunc('week', a), date_trunc('week', b)) // 7,
    date_diff('month', a, b), date_diff('quarter', a, b), date_diff('year', a, b),
    date_diff('day', a, b),
    floor(epoch(time_bucket(INTERVAL 17 minutes, a, TIMESTAMP '2001-01-01 00:05:00')))::BIGINT,
    floor(epoch(time_bucket(INTERVAL 3 days, b, TIMESTAMP '1970-01-01')))::BIGINT, floor(epoch(a))::BIGINT,
    true, strftime(date_trunc('second', a), '%Y-%m-%d %H:%M:%S'),
    (floor(epoch(a)) - floor(epoch(b)))::BIGINT
"""


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def literal(moment: datetime) -> str:
    return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}'"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(moments, moments), min_size=1, max_size=8))
def test_duckdb_gives_the_same(
    connection: duckdb.DuckDBPyConnection, pairs: list[tuple[datetime, datetime]]
) -> None:
    rows = ", ".join(f"({literal(a)}, {literal(b)})" for a, b in pairs)
    flow = Flow({"Q": SqlSession().query(f"SELECT {OURS} FROM (VALUES {rows}) AS v (a, b)")}, {})
    emitted = flow.drain()
    assert not emitted.faults
    ours = [timed.row for tray in emitted.outputs["Q"] for timed in tray.rows()]
    theirs = connection.execute(f"SELECT {THEIRS} FROM (VALUES {rows}) AS v (a, b)").fetchall()
    assert ours == theirs


@given(st.integers(-(2**40), 2**40))
def test_seconds_are_those_of_python(milliseconds: int) -> None:
    seconds = f"{'-' if milliseconds < 0 else ''}{abs(milliseconds) // 1000}.{abs(milliseconds) % 1000:03}"
    query = f"SELECT TO_TIMESTAMP({seconds}) FROM (VALUES (1)) AS v (n)"
    (tray,) = Flow({"Q": SqlSession().query(query)}, {}).drain().outputs["Q"]
    ((value,),) = (timed.row for timed in tray.rows())
    assert value == milliseconds
