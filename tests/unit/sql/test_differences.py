"""docs/sql/differences-from-postgresql.md: what PostgreSQL takes is refused here, or rejected."""

from __future__ import annotations

import pytest

from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.sql.pipeline import SqlSession

STATEMENTS = (
    "CREATE STREAM s (k VARCHAR(8), n INTEGER, x DOUBLE, at TIMESTAMP);"
    "CREATE TABLE t (id INTEGER PRIMARY KEY, n BIGINT, x DOUBLE);"
)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT NOW() AS x FROM t",
        "SELECT STREAM ROWTIME + INTERVAL '1 month 3 days' AS later FROM s",
        "SELECT STREAM n FROM s TABLESAMPLE BERNOULLI (10)",
        "SELECT STREAM n FROM s AS a TABLESAMPLE SYSTEM (10) REPEATABLE (42)",
        "SELECT STREAM n FROM (SELECT STREAM n FROM s) TABLESAMPLE (10 PERCENT) AS a",
        "SELECT STREAM n FROM s ORDER BY n",
        "SELECT n FROM t ORDER BY n",
        "SELECT STREAM SUM(n) AS t FROM s",
        "SELECT TIMESTAMP '2024-01-01 00:00:00.123456' AS m",
    ],
)
def test_what_postgresql_takes_is_refused_with_its_place(query: str) -> None:
    session = SqlSession()
    session.feed(STATEMENTS)
    with pytest.raises(StatementError) as refused:
        session.query(query)
    assert refused.value.place is not None


@pytest.mark.parametrize(
    ("expression", "value", "reason"),
    [
        ("CAST(x AS VARCHAR(2))", "abcd", "CAST"),
        ("CAST(x AS DOUBLE)", "NaN", "CAST"),
        ("CAST(x AS DOUBLE)", "Infinity", "CAST"),
        ("1 / CAST(x AS INTEGER)", "0", "DIVISION_BY_ZERO"),
    ],
)
def test_a_row_that_fails_is_rejected_and_others_go_on(expression: str, value: str, reason: str) -> None:
    session = SqlSession()
    with pytest.raises(StatementError, match="each row would be rejected"):
        session.query(f"SELECT {expression.replace('x', repr(value))} AS y FROM (VALUES (1)) AS v (n)")
    flow = Flow({"Q": session.query(f"SELECT {expression} AS y FROM (VALUES ('{value}')) AS v (x)")}, {})
    emitted = flow.drain()
    assert [fault.reason.name for fault in emitted.faults] == [reason]
    assert not emitted.outputs["Q"]


@pytest.mark.parametrize(
    ("expression", "type_name"),
    [("1.5", "DECIMAL(2, 1)"), ("1.5e0", "DOUBLE"), ("AVG(id)", "DECIMAL(38, 6)"), ("SUM(n)", "BIGINT")],
)
def test_types_are_those_of_the_page(expression: str, type_name: str) -> None:
    session = SqlSession()
    session.feed(STATEMENTS)
    (field,) = session.query(f"SELECT {expression} AS x FROM t").row_type
    assert (field.name, str(field.type)) == ("X", type_name)


def test_text_is_read_to_the_millisecond() -> None:
    session = SqlSession()
    query = "SELECT CAST('2024-01-01 00:00:00.123456' AS TIMESTAMP) AS m FROM (VALUES (1)) AS v (n)"
    (tray,) = Flow({"Q": session.query(query)}, {}).drain().outputs["Q"]
    ((value,),) = (timed.row for timed in tray.rows())
    assert isinstance(value, int)
    assert value % 1_000 == 123


@pytest.mark.parametrize("source", ["s tablesample", "s AS tablesample", "s tablesample (a, b, c, d)"])
def test_tablesample_is_no_reserved_word(source: str) -> None:
    session = SqlSession()
    session.feed(STATEMENTS)
    session.query(f"SELECT STREAM tablesample.* FROM {source} WHERE TRUE")
