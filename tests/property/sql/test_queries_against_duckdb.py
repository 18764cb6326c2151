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
from rowtide.sql.pipeline import SqlSession
from support.duck import fill

STREAM = "CREATE STREAM s (k VARCHAR(4), n INTEGER, p DECIMAL(6, 2));"
DAY_MS = 86_400_000
HOUR = "FLOOR(ROWTIME TO HOUR)"
TRUNCATED = "rowtime - rowtime % 3600000"
HOPS = "ROWTIME, INTERVAL '1' HOUR, INTERVAL '3' HOUR, INTERVAL '1' MINUTE"
SPREAD = "VAR_POP(n) * 1e3 + 1.23e-4"
"""The last digits of a variance differ; this is never near the middle of two whole numbers."""
NO_SIGN = "+ 0e0"
"""A zero of DuckDB's products has a sign."""
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
    "approximate aggregates": (
        f"SELECT STREAM {HOUR} AS h, APPROX_COUNT_DISTINCT(n) AS a, APPROX_COUNT_DISTINCT(k) AS b,"
        f" APPROX_PERCENTILE(n, 0.25) AS c FROM s GROUP BY {HOUR}",
        f"SELECT {TRUNCATED}, COUNT(DISTINCT n), COUNT(DISTINCT k), CAST(quantile_disc(n, 0.25) AS DOUBLE)"
        " FROM s GROUP BY 1",
    ),
    "approximate aggregates over windows": (
        "SELECT STREAM k, APPROX_COUNT_DISTINCT(n) OVER w AS a, APPROX_PERCENTILE(n, 0.5) OVER w AS b"
        " FROM s WINDOW w AS (PARTITION BY k ROWS 3 PRECEDING)",
        "SELECT t.k, COUNT(DISTINCT u.n), CAST(quantile_disc(u.n, 0.5) AS DOUBLE) FROM"
        " (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ord) AS r FROM s) t JOIN"
        " (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ord) AS r FROM s) u"
        " ON u.k IS NOT DISTINCT FROM t.k AND u.r BETWEEN t.r - 3 AND t.r GROUP BY t.ord, t.k",
    ),
    "histograms": (
        f"SELECT STREAM {HOUR} AS h, HISTOGRAM(k) AS a, HISTOGRAM(p) FILTER (WHERE n > 0) AS b FROM s GROUP BY {HOUR}",
        f"SELECT {TRUNCATED}, to_json(histogram(k)),"
        " to_json(histogram(CAST(p AS VARCHAR)) FILTER (WHERE n > 0)) FROM s GROUP BY 1",
    ),
    "histograms over windows": (
        "SELECT STREAM k, HISTOGRAM(n) OVER (PARTITION BY k ROWS 2 PRECEDING) AS a,"
        " HISTOGRAM(k) OVER (ROWS UNBOUNDED PRECEDING) AS b FROM s",
        "SELECT k, to_json(histogram(CAST(n AS VARCHAR)) OVER (PARTITION BY k ORDER BY ord ROWS 2 PRECEDING)),"
        " to_json(histogram(k) OVER (ORDER BY ord ROWS UNBOUNDED PRECEDING)) FROM s",
    ),
    "products": (
        f"SELECT STREAM {HOUR} AS h, PRODUCT(n % 4) AS a, PRODUCT(DISTINCT n - 2) AS b,"
        f" PRODUCT(n % 4) FILTER (WHERE k <> 'a') AS c FROM s GROUP BY {HOUR}",
        f"SELECT {TRUNCATED}, product(n % 4) {NO_SIGN}, product(DISTINCT n - 2) {NO_SIGN},"
        f" product(n % 4) FILTER (WHERE k <> 'a') {NO_SIGN} FROM s GROUP BY 1",
    ),
    "products over windows": (
        "SELECT STREAM k, PRODUCT(n) OVER (PARTITION BY k ROWS 2 PRECEDING) AS a,"
        " PRODUCT(n % 4) OVER (ROWS UNBOUNDED PRECEDING) AS b FROM s",
        f"SELECT k, product(n) OVER (PARTITION BY k ORDER BY ord ROWS 2 PRECEDING) {NO_SIGN},"
        f" product(n % 4) OVER (ORDER BY ord ROWS UNBOUNDED PRECEDING) {NO_SIGN} FROM s",
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
    "set operations of all": (
        f"SELECT STREAM {HOUR} AS h, k FROM s EXCEPT ALL (SELECT STREAM {HOUR}, k FROM s WHERE n > 1"
        f" INTERSECT ALL SELECT STREAM {HOUR}, k FROM s WHERE p > 0)",
        f"SELECT {TRUNCATED}, k FROM s EXCEPT ALL (SELECT {TRUNCATED}, k FROM s WHERE n > 1"
        f" INTERSECT ALL SELECT {TRUNCATED}, k FROM s WHERE p > 0)",
    ),
    "hops": (
        f"SELECT STREAM HOP_START({HOPS}) AS b, k, COUNT(n) AS c, SUM(p) AS t FROM s GROUP BY HOP({HOPS}), k",
        "SELECT b, k, COUNT(n), SUM(p) FROM s, generate_series(-3, 72) AS g(hour),"
        " LATERAL (SELECT hour * 3600000 + 60000 AS b) WHERE rowtime >= b AND rowtime < b + 10800000"
        " GROUP BY b, k",
    ),
    "joins": (
        "SELECT STREAM a.n, b.n AS m FROM s AS a JOIN s OVER (RANGE INTERVAL '9' HOUR PRECEDING) AS b"
        " ON a.k = b.k AND a.n < b.n",
        "SELECT a.n, b.n FROM s a JOIN s b ON a.k = b.k AND a.n < b.n"
        " AND b.rowtime BETWEEN a.rowtime - 32400000 AND a.rowtime",
    ),
    "outer joins": (
        "SELECT STREAM a.k, a.n, b.n AS m FROM s AS a LEFT JOIN"
        " s OVER (RANGE BETWEEN INTERVAL '1' HOUR FOLLOWING AND INTERVAL '12' HOUR FOLLOWING) AS b"
        " ON a.k = b.k",
        "SELECT a.k, a.n, b.n FROM s a LEFT JOIN s b ON a.k = b.k"
        " AND b.rowtime BETWEEN a.rowtime + 3600000 AND a.rowtime + 43200000",
    ),
    "full joins with two windows": (
        "SELECT STREAM a.k, b.k AS j, a.n, b.p FROM s OVER (RANGE INTERVAL '5' HOUR PRECEDING) AS a FULL JOIN"
        " s OVER (RANGE INTERVAL '10' HOUR PRECEDING) AS b ON a.n = b.n AND b.p > 0",
        "SELECT a.k, b.k, a.n, b.p FROM s a FULL JOIN s b ON a.n = b.n AND b.p > 0"
        " AND b.rowtime BETWEEN a.rowtime - 36000000 AND a.rowtime + 18000000",
    ),
    "joins by columns": (
        "SELECT STREAM k, a.n, b.n AS m, b.p FROM s AS a FULL JOIN"
        " s OVER (RANGE INTERVAL '12' HOUR PRECEDING) AS b USING (k, n)",
        "SELECT COALESCE(a.k, b.k), a.n, b.n, b.p FROM s a FULL JOIN s b ON a.k = b.k AND a.n = b.n"
        " AND b.rowtime BETWEEN a.rowtime - 43200000 AND a.rowtime",
    ),
    "joins by rounded time": (
        "SELECT STREAM a.n, b.n AS m FROM s OVER (ORDER BY FLOOR(s.ROWTIME TO DAY) RANGE INTERVAL"
        " '0' DAY PRECEDING)"
        " AS a RIGHT JOIN s OVER (RANGE INTERVAL '6' HOUR PRECEDING) AS b ON a.k = b.k",
        "SELECT a.n, b.n FROM s a RIGHT JOIN s b ON a.k = b.k"
        " AND b.rowtime - (a.rowtime - a.rowtime % 86400000) BETWEEN -21600000 AND 0",
    ),
    "windows in time": (
        "SELECT STREAM k, COUNT(*) OVER w AS a, SUM(n) OVER w AS b, MIN(p) OVER w AS c,"
        " COUNT(DISTINCT n) OVER w AS d"
        " FROM s WINDOW w AS (PARTITION BY k RANGE INTERVAL '8' HOUR PRECEDING)",
        "SELECT t.k, COUNT(*), SUM(u.n), MIN(u.p), COUNT(DISTINCT u.n) FROM s t JOIN s u ON u.ord <= t.ord"
        " AND u.rowtime >= t.rowtime - 28800000 AND u.k IS NOT DISTINCT FROM t.k GROUP BY t.ord, t.k",
    ),
    "windows of rows": (
        "SELECT STREAM k, SUM(n) OVER (PARTITION BY k ROWS 2 PRECEDING) AS a, LAG(n, 2, 0) OVER"
        " (PARTITION BY k) AS b,"
        " LEAD(n) OVER (PARTITION BY k) AS c, ROW_NUMBER() OVER (PARTITION BY k) AS d,"
        " MAX(p) OVER (ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS e FROM s",
        "SELECT k, SUM(n) OVER (PARTITION BY k ORDER BY ord ROWS 2 PRECEDING),"
        " LAG(n, 2, 0) OVER (PARTITION BY k ORDER BY ord), LEAD(n) OVER (PARTITION BY k ORDER BY ord),"
        " ROW_NUMBER() OVER (PARTITION BY k ORDER BY ord),"
        " MAX(p) OVER (ORDER BY ord ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) FROM s",
    ),
    "lists over windows": (
        "SELECT STREAM k, LISTAGG(k, '-') OVER (ROWS 2 PRECEDING) AS a, LISTAGG(n, ',') FILTER (WHERE p > 0) OVER"
        " (PARTITION BY k ROWS 3 PRECEDING) AS b FROM s",
        "SELECT k, STRING_AGG(k, '-') OVER (ORDER BY ord ROWS 2 PRECEDING), STRING_AGG(n::VARCHAR, ',') FILTER"
        " (WHERE p > 0) OVER (PARTITION BY k ORDER BY ord ROWS 3 PRECEDING) FROM s",
    ),
    "windows over groups": (
        "SELECT STREAM k, SUM(n) AS t, SUM(SUM(n)) OVER (PARTITION BY k RANGE INTERVAL '20' HOUR"
        " PRECEDING) AS b"
        f" FROM s GROUP BY {HOUR}, k HAVING COUNT(n) > 0",
        f"WITH g AS (SELECT {TRUNCATED} AS h, k, SUM(n) AS t FROM s GROUP BY ALL HAVING COUNT(n) > 0)"
        " SELECT k, t, SUM(t) OVER (PARTITION BY k ORDER BY h RANGE BETWEEN 72000000 PRECEDING AND"
        " CURRENT ROW) FROM g",
    ),
    "the first rows of a period": (
        "SELECT STREAM k, n FROM s ORDER BY FLOOR(ROWTIME TO DAY), n DESC, k NULLS FIRST LIMIT 2 OFFSET 1",
        "SELECT k, n FROM s QUALIFY ROW_NUMBER() OVER (PARTITION BY rowtime - rowtime % 86400000"
        " ORDER BY n DESC NULLS FIRST, k NULLS FIRST, ord) BETWEEN 2 AND 3",
    ),
    "ranks by value": (
        "SELECT STREAM k, n, ROW_NUMBER() OVER w AS a, RANK() OVER v AS b, DENSE_RANK() OVER v AS c"
        " FROM (SELECT STREAM *, ROWTIME AS t FROM s) AS q WINDOW w AS (PARTITION BY FLOOR(ROWTIME TO DAY), k"
        " ORDER BY n DESC, p), v AS (w)",
        "SELECT k, n, ROW_NUMBER() OVER (PARTITION BY rowtime - rowtime % 86400000, k"
        " ORDER BY n DESC NULLS FIRST, p NULLS LAST, ord), RANK() OVER w, DENSE_RANK() OVER w FROM s"
        " WINDOW w AS (PARTITION BY rowtime - rowtime % 86400000, k"
        " ORDER BY n DESC NULLS FIRST, p NULLS LAST)",
    ),
    "queries with names": (
        f"WITH a (x, y) AS (SELECT STREAM k, n FROM s WHERE n > 0), b AS (SELECT STREAM x, MAX(y) AS m FROM a"
        f" GROUP BY {HOUR}, x) SELECT STREAM x, m FROM b WHERE m < 6 UNION ALL SELECT STREAM x, y FROM a",
        f"WITH a (x, y, h) AS (SELECT k, n, {TRUNCATED} FROM s WHERE n > 0), b AS (SELECT x, MAX(y)"
        " AS m FROM a"
        " GROUP BY h, x) SELECT x, m FROM b WHERE m < 6 UNION ALL SELECT x, y FROM a",
    ),
    "functions": (
        "SELECT STREAM LEFT(k, 1) AS a, RIGHT(k, 1) AS b, LPAD(k, 3, '*') AS c, RPAD(k, 1, '*') AS"
        " d, REVERSE(k) AS e,"
        " REPEAT(k, 2) AS f, CONCAT(k, '-', k) AS g, n BETWEEN SYMMETRIC 4 AND 1 AS h, k SIMILAR TO"
        " '(a|c)+' AS i,"
        " SPLIT_PART(k || ',b', ',', 2) AS j, IFNULL(n, 9) AS l, LENGTH(k) AS o FROM s",
        "SELECT left(k, 1), right(k, 1), lpad(k, 3, '*'), rpad(k, 1, '*'), reverse(k), repeat(k, 2),"
        " k || '-' || k,"
        " n BETWEEN 1 AND 4, regexp_full_match(k, '(a|c)+'), split_part(k || ',b', ',', 2),"
        " ifnull(n, 9), length(k)"
        " FROM s",
    ),
    "variances, percentiles and truths": (
        f"SELECT STREAM {HOUR} AS h, MEDIAN(n) AS m, PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY k) AS d,"
        f" EVERY(n > 0) AS e, BOOL_OR(n > 3) AS o,"
        f" CAST({SPREAD} AS BIGINT) AS v, MAD(n) AS a, MAD(DISTINCT n) AS b FROM s GROUP BY {HOUR}",
        f"SELECT {TRUNCATED}, CAST(MEDIAN(n) AS DECIMAL(38, 6)), quantile_disc(k, 0.3), bool_and(n > 0),"
        f" bool_or(n > 3), CAST({SPREAD} AS BIGINT), mad(n), mad(DISTINCT n) FROM s GROUP BY 1",
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
    session = SqlSession()
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
    columns = "rowtime BIGINT, k VARCHAR, n INTEGER, p DECIMAL(6, 2), ord INTEGER"
    fill(database, "s", columns, ((*row, number) for number, row in enumerate(ordered)))
    wanted = database.execute(theirs).fetchall()
    assert sorted(map(as_values, got)) == sorted(map(as_values, wanted))
