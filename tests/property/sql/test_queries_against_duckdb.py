"""Queries that another database can also run give the same rows there, over any input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import Session

STREAM = "CREATE STREAM s (k VARCHAR(4), n INTEGER, p DECIMAL(6, 2));"
DAY_MS = 86_400_000
HOUR = "FLOOR(ROWTIME TO HOUR)"
TRUNCATED = "rowtime - rowtime % 3600000"
HOPS = "ROWTIME, INTERVAL '1' HOUR, INTERVAL '3' HOUR, INTERVAL '1' MINUTE"
SPREAD = "VAR_POP(n) * 1e3 + 1.23e-4"
"""The last digits of a variance differ; this is never near the middle of two whole numbers."""
QUERIES = {
    "row-wise": (
        "SELECT STREAM k, n * 2 - 1 AS a, COALESCE(n, 0) AS b, CASE WHEN n > 2 THEN k ELSE 'x' END AS c"
        " FROM s WHERE NOT (n BETWEEN 3 AND 4 OR k IS NULL)",
        "SELECT k, n * 2 - 1, COALESCE(n, 0), CASE WHEN n > 2 THEN k ELSE 'x' END FROM s"
        " WHERE NOT (n BETWEEN 3 AND 4 OR k IS NULL)",
    ),
    "groups": (
        f"SELECT STREAM {HOUR} AS h, k, COUNT(*) AS a, COUNT(n) AS b, SUM(n) AS c, MIN(p) AS d, MAX(k) AS e"
        f" FROM s GROUP BY {HOUR}, k",
        f"SELECT {TRUNCATED}, k, COUNT(*), COUNT(n), SUM(n), MIN(p), MAX(k) FROM s GROUP BY ALL",
    ),
    "computed keys, arguments and results": (
        f"SELECT STREAM n % 2 AS m, SUM(n * 2) + COUNT(*) AS a, SUM(p) FILTER (WHERE n > 1) AS b,"
        f" COUNT(DISTINCT k) AS c FROM s WHERE n IS NOT NULL GROUP BY n % 2, {HOUR} HAVING MAX(n) > 2",
        "SELECT n % 2, SUM(n * 2) + COUNT(*), SUM(p) FILTER (WHERE n > 1), COUNT(DISTINCT k) FROM s"
        f" WHERE n IS NOT NULL GROUP BY n % 2, {TRUNCATED} HAVING MAX(n) > 2",
    ),
    "groups of groups": (
        "SELECT STREAM FLOOR(ROWTIME TO DAY) AS d, MAX(total) AS m, COUNT(*) AS c FROM"
        f" (SELECT STREAM {HOUR} AS ROWTIME, k, SUM(n) AS total FROM s GROUP BY {HOUR}, k) AS q"
        " GROUP BY FLOOR(ROWTIME TO DAY)",
        "SELECT h - h % 86400000, MAX(total), COUNT(*) FROM"
        f" (SELECT {TRUNCATED} AS h, k, SUM(n) AS total FROM s GROUP BY ALL) GROUP BY 1",
    ),
    "unions": (
        "SELECT STREAM k, n FROM s WHERE n > 2 UNION ALL SELECT STREAM k, n + 1 FROM s WHERE n < 4",
        "SELECT k, n FROM s WHERE n > 2 UNION ALL SELECT k, n + 1 FROM s WHERE n < 4",
    ),
    "distinct": (
        f"SELECT STREAM DISTINCT n % 2 AS m, {HOUR} AS h, k FROM s",
        f"SELECT DISTINCT n % 2, {TRUNCATED}, k FROM s",
    ),
    "set operations": (
        f"SELECT STREAM {HOUR} AS h, k FROM s WHERE n > 1 EXCEPT SELECT STREAM {HOUR}, k FROM s WHERE p > 0"
        f" UNION SELECT STREAM {HOUR}, k FROM s INTERSECT SELECT STREAM {HOUR}, k FROM s WHERE n < 0",
        f"SELECT {TRUNCATED}, k FROM s WHERE n > 1 EXCEPT SELECT {TRUNCATED}, k FROM s WHERE p > 0"
        f" UNION SELECT {TRUNCATED}, k FROM s INTERSECT SELECT {TRUNCATED}, k FROM s WHERE n < 0",
    ),
    "set operations of groups": (
        f"SELECT STREAM {HOUR} AS h, k, COUNT(*) AS c FROM s GROUP BY {HOUR}, k"
        f" EXCEPT SELECT STREAM {HOUR}, k, COUNT(*) FROM s WHERE n > 0 GROUP BY {HOUR}, k",
        f"SELECT {TRUNCATED}, k, COUNT(*) FROM s GROUP BY ALL"
        f" EXCEPT SELECT {TRUNCATED}, k, COUNT(*) FROM s WHERE n > 0 GROUP BY ALL",
    ),
    "hops": (
        f"SELECT STREAM HOP_START({HOPS}) AS b, k, COUNT(n) AS c, SUM(p) AS t FROM s GROUP BY HOP({HOPS}), k",
        "SELECT b, k, COUNT(n), SUM(p) FROM s, generate_series(-3, 72) AS g(hour),"
        " LATERAL (SELECT hour * 3600000 + 60000 AS b) WHERE rowtime >= b AND rowtime < b + 10800000"
        " GROUP BY b, k",
    ),
    "variances, percentiles and truths": (
        f"SELECT STREAM {HOUR} AS h, MEDIAN(n) AS m, PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY k) AS d,"
        f" EVERY(n > 0) AS e, BOOL_OR(n > 3) AS o,"
        f" CAST({SPREAD} AS BIGINT) AS v FROM s GROUP BY {HOUR}",
        f"SELECT {TRUNCATED}, CAST(MEDIAN(n) AS DECIMAL(38, 6)), quantile_disc(k, 0.3), bool_and(n > 0),"
        f" bool_or(n > 3), CAST({SPREAD} AS BIGINT) FROM s GROUP BY 1",
    ),
}
rows = st.lists(
    st.tuples(
        st.integers(0, 3 * DAY_MS),
        st.none() | st.sampled_from(["a", "b", "cc"]),
        st.none() | st.integers(-3, 6),
        st.none() | st.decimals(-99, 99, places=2),
    ),
    max_size=30,
)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect(config={"threads": 1})) as connection:
        connection.execute("CREATE TABLE s (rowtime BIGINT, k VARCHAR, n INTEGER, p DECIMAL(6, 2))")
        yield connection


def as_values(row: tuple[object, ...]) -> tuple[str, ...]:
    return tuple("-" if value is None else str(value) for value in row)


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=25)
@given(given_rows=rows)
def test_a_query_gives_what_duckdb_gives(
    name: str, database: duckdb.DuckDBPyConnection, given_rows: list[tuple[int, object, object, object]]
) -> None:
    ours, theirs = QUERIES[name]
    session = Session()
    session.feed(STREAM)
    flow = Flow({"Q": session.query(ours)}, {"S": (0,)})
    ordered = sorted(given_rows, key=lambda row: row[0])
    row_type = flow.row_type("S")
    timed = [
        TimedRow(row[0], flow.origin("S", 0), counter, Opcode.INSERT, row[1:])
        for counter, row in enumerate(ordered)
    ]
    flow.insert("S", 0, Tray.from_rows(row_type, timed))
    flow.bound("S", 0, Bound(LATEST))
    emitted = flow.drain()
    assert emitted.faults == []
    got = [row.row for tray in emitted.outputs["Q"] for row in tray.rows()]
    database.execute("DELETE FROM s")
    for row in ordered:
        database.execute("INSERT INTO s VALUES (?, ?, ?, ?)", row)
    wanted = database.execute(theirs).fetchall()
    assert sorted(map(as_values, got)) == sorted(map(as_values, wanted))
