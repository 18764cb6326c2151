"""What the changes of a query over tables leave is what another database gives for the tables as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import cast

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.sql.pipeline import SqlSession
from support.duck import fill

TABLES = """
CREATE TABLE a (id INTEGER, k VARCHAR(4), n INTEGER, PRIMARY KEY (id));
CREATE TABLE b (id INTEGER, k VARCHAR(4), n INTEGER, PRIMARY KEY (id));
"""
COUNTS = "REPLACE(REPLACE(REPLACE(CAST({} AS VARCHAR), '\"', ''), '=', ':'), ', ', ',')"
"""The text of a histogram: a map in DuckDB, JSON here."""
QUERIES = {
    "filters and projections": "SELECT k, n * 2 AS m FROM a WHERE n > 1 OR k IS NULL",
    "groups": "SELECT k, COUNT(*) AS a, SUM(n) AS b, MIN(n) AS c, MAX(n) AS d, COUNT(DISTINCT n) AS e FROM a"
    " GROUP BY k HAVING COUNT(*) < 4",
    "groups of groups": "SELECT c, COUNT(*) AS g, SUM(m) AS s FROM"
    " (SELECT k, COUNT(*) AS c, MAX(n) AS m FROM a GROUP BY k) AS q GROUP BY c",
    "filtered aggregates": "SELECT n % 2 AS p, COUNT(*) FILTER (WHERE k = 'x') AS c, MEDIAN(n) AS m FROM a"
    " WHERE n IS NOT NULL GROUP BY n % 2",
    "distinct": "SELECT DISTINCT k, n FROM a",
    "inner joins": "SELECT a.n, b.n AS m FROM a JOIN b ON a.k = b.k AND a.n < b.n",
    "left joins": "SELECT a.id, b.n FROM a LEFT JOIN b ON a.k = b.k AND b.n > 1 AND a.n > 0",
    "right joins": "SELECT a.id, b.id AS i FROM a RIGHT JOIN b ON a.k = b.k AND a.n = b.n",
    "full joins": "SELECT a.id, b.id AS i FROM a FULL JOIN b ON a.k = b.k AND a.n <> b.n",
    "cross joins": "SELECT a.id, b.id AS i FROM a CROSS JOIN b",
    "joins of groups": "SELECT x.k, x.c, y.s FROM (SELECT k, COUNT(*) AS c FROM a GROUP BY k) AS x"
    " LEFT JOIN (SELECT k, SUM(n) AS s FROM b GROUP BY k) AS y ON x.k = y.k",
    "self-joins": "SELECT x.id, y.id AS i FROM a AS x JOIN a AS y ON x.n = y.n",
    "joins of what was joined": "SELECT x.id, y.m FROM a AS x JOIN (SELECT p.id, q.n AS m FROM b AS p"
    " JOIN a AS q ON p.k = q.k) AS y ON x.n = y.m",
    "queries in queries": "SELECT id FROM a AS x WHERE n IN (SELECT p.n FROM b AS p JOIN a AS q ON p.k = q.k)"
    " AND EXISTS (SELECT * FROM b WHERE b.n NOT IN (SELECT a.n FROM a WHERE a.id = b.id))",
    "rows that are there while others are": "SELECT id FROM a WHERE EXISTS (SELECT * FROM b)",
    "unions": "SELECT k, n FROM a UNION SELECT k, n FROM b",
    "unions of all": "SELECT k, n FROM a UNION ALL SELECT k, n FROM b",
    "exceptions": "SELECT k, n FROM a EXCEPT SELECT k, n FROM b",
    "intersections": "SELECT k FROM a INTERSECT SELECT k FROM b",
    "exceptions of all": "SELECT k FROM a EXCEPT ALL SELECT k FROM b",
    "intersections of all": "SELECT k, n FROM a INTERSECT ALL SELECT k, n FROM b",
    "copies of what is unlike": "SELECT n FROM (SELECT n FROM a UNION ALL SELECT n FROM b)"
    " EXCEPT ALL (SELECT n FROM a INTERSECT ALL SELECT n FROM b)",
    "values of sub-queries": "SELECT id, (SELECT MAX(n) FROM b WHERE b.k = a.k) AS m, (SELECT COUNT(*) FROM b) AS c"
    " FROM a WHERE n >= (SELECT MIN(n) FROM a)",
    "rows without others": "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.n = a.n)",
    "rows beside their totals": "SELECT a.id, a.n, t.s FROM a JOIN (SELECT k, SUM(n) AS s FROM a GROUP BY k) AS t"
    " ON t.k = a.k",
    "first rows": "SELECT id, n FROM a ORDER BY n DESC NULLS LAST, id LIMIT 2",
    "all columns but some": "SELECT * EXCLUDE (n) FROM a UNION ALL SELECT x.* EXCLUDE n FROM b AS x WHERE id > 2",
    "groups by items without an aggregate": "SELECT k, COUNT(*) AS c, n % 2 AS p, SUM(id) + 1 AS s FROM a GROUP BY ALL",
    "the first row of each key": "SELECT DISTINCT ON (k) k, n, id FROM a ORDER BY k NULLS LAST, n DESC NULLS LAST, id",
    "histograms": f"SELECT k, {COUNTS.format('HISTOGRAM(n)')} AS a,"
    f" {COUNTS.format('HISTOGRAM(k) FILTER (WHERE n > 1)')} AS b FROM a GROUP BY k",
    "products": "SELECT k, PRODUCT(n) AS p, PRODUCT(id + 0.5e0) AS q, PRODUCT(DISTINCT n) AS r,"
    " PRODUCT(id) FILTER (WHERE n > 1) AS s FROM a GROUP BY k",
    "lists in any order": "SELECT k, STRING_AGG(k, ',' ORDER BY id) AS a,"
    " STRING_AGG(CAST(n AS VARCHAR), '-' ORDER BY n DESC NULLS FIRST, id DESC) AS b,"
    " ARRAY_TO_STRING(ARRAY_AGG(id ORDER BY n NULLS FIRST, id), ',') AS c FROM a GROUP BY k",
    "windows over tables": "SELECT id, n, SUM(n) OVER (PARTITION BY k) AS s, COUNT(*) OVER () AS c,"
    " AVG(id + 0.5e0) OVER (PARTITION BY n) AS m, MAX(k) OVER (PARTITION BY n) AS x FROM a",
    "shares of a total": "SELECT id, n * 1e0 / SUM(n) OVER (PARTITION BY k) AS s FROM a WHERE n > 0",
    "windows in an order": "SELECT id, SUM(n) OVER w AS s, RANK() OVER w AS r, DENSE_RANK() OVER w AS d,"
    " COUNT(*) FILTER (WHERE id > 2) OVER w AS c, MIN(id) OVER w AS m FROM a"
    " WINDOW w AS (PARTITION BY k ORDER BY n DESC NULLS LAST)",
    "rows before and after": "SELECT id, LAG(n) OVER w AS a, LEAD(n, 2, -1) OVER w AS b, ROW_NUMBER() OVER w AS c,"
    " FIRST_VALUE(n) OVER w AS d, LAST_VALUE(id) OVER w AS e,"
    " SUM(n) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS f,"
    " COUNT(*) OVER (ORDER BY id DESC ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS g FROM a"
    " WINDOW w AS (PARTITION BY k ORDER BY n NULLS FIRST, id)",
    "windows over groups": "SELECT k, SUM(n) AS s, SUM(SUM(n)) OVER (ORDER BY k NULLS FIRST) AS t,"
    " RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM a GROUP BY k",
    "windows over windows": "SELECT id, s - LAG(s) OVER (ORDER BY id) AS d FROM"
    " (SELECT a.id, SUM(a.n) OVER (PARTITION BY b.k) AS s FROM a LEFT JOIN b ON a.id = b.id) AS q",
    "rows of a rank": "SELECT id, r FROM (SELECT id, RANK() OVER (PARTITION BY k ORDER BY n NULLS LAST) AS r FROM a)"
    " AS q WHERE r <= 2",
    "rows by their rank": "SELECT id, n FROM a QUALIFY RANK() OVER (PARTITION BY k ORDER BY n DESC NULLS LAST) <= 2",
    "rows of a total": "SELECT id, k FROM a QUALIFY SUM(n) OVER (PARTITION BY k) > 3",
    "rows by one of several windows": "SELECT id, RANK() OVER w AS r FROM a WINDOW w AS (PARTITION BY k ORDER BY n)"
    " QUALIFY r <= 2 AND COUNT(*) OVER (PARTITION BY n) > 1 OR n < LAG(n) OVER (PARTITION BY k ORDER BY id)",
    "rows by two numbers": "SELECT id FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY id) <= 2"
    " AND ROW_NUMBER() OVER (ORDER BY n NULLS FIRST, id) BETWEEN 2 AND 4 AND id < 5",
    "rows after some": "SELECT id, m FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n NULLS FIRST, id)"
    " AS m FROM a) AS q WHERE m > 1",
    "numbers of rows after some": "SELECT k, ROW_NUMBER() OVER (ORDER BY n NULLS FIRST, id) AS m FROM a QUALIFY m > 2",
    "numbers of many rows": "SELECT k, ROW_NUMBER() OVER (ORDER BY n NULLS FIRST, id) AS m FROM a QUALIFY m <= 20",
    "first groups by what is not selected": "SELECT k FROM a GROUP BY k"
    " QUALIFY ROW_NUMBER() OVER (ORDER BY SUM(n) DESC NULLS LAST, k NULLS LAST) <= 1",
    "first groups under a condition that is not selected": "SELECT k FROM a GROUP BY k"
    " QUALIFY ROW_NUMBER() OVER (ORDER BY k NULLS LAST) <= 2 AND MIN(n) < 3",
    "first rows of a rank": "SELECT id, n FROM a QUALIFY DENSE_RANK() OVER (ORDER BY n DESC NULLS LAST) <= 2"
    " ORDER BY n NULLS FIRST, id LIMIT 2",
    "groups by their rank": "SELECT k, SUM(n) AS s FROM a GROUP BY k HAVING COUNT(*) < 4"
    " QUALIFY RANK() OVER (ORDER BY COUNT(*) DESC) = 1",
    "keys of groups by their rank": "SELECT k FROM a GROUP BY k"
    " QUALIFY RANK() OVER (ORDER BY SUM(n) DESC NULLS LAST) = 1",
    "rows after the first": "SELECT id FROM a ORDER BY n NULLS FIRST, id DESC LIMIT 2 OFFSET 1",
}
values = st.tuples(st.integers(0, 5), st.sampled_from(("x", "y", None)), st.sampled_from((0, 1, 2, 3, None)))
changes = st.lists(
    st.tuples(st.sampled_from("AB"), st.sampled_from((Opcode.INSERT, Opcode.INSERT, Opcode.DELETE)), values),
    max_size=20,
)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect()) as connection:
        yield connection


def as_text(row: Row) -> tuple[str, ...]:
    """Return a row so that numbers are equal whatever their type."""
    return tuple(
        "-" if value is None else f"{float(cast('float', value)):.9f}" if _is_number(value) else str(value)
        for value in row
    )


def _is_number(value: object) -> bool:
    return not isinstance(value, str | bool)


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=12)
@given(given_changes=changes, cut=st.integers(1, 20), at_once=st.integers(1, 4))
def test_changes_leave_what_duckdb_gives(
    name: str,
    database: duckdb.DuckDBPyConnection,
    given_changes: list[tuple[str, Opcode, Row]],
    cut: int,
    at_once: int,
) -> None:
    session = SqlSession(inserted="AB")
    session.feed(TABLES)
    flow = Flow({"Q": session.query(QUERIES[name])}, {})
    held: Counter[tuple[str, ...]] = Counter()
    contents: dict[str, dict[object, Row]] = {"A": {}, "B": {}}

    def take() -> None:
        emitted = flow.drain()
        assert emitted.faults == []
        for tray in emitted.outputs["Q"]:
            for timed in tray.rows():
                held[as_text(timed.row)] += timed.opcode
                assert held[as_text(timed.row)] >= 0, "what is deleted was there"

    for at, (table, opcode, row) in enumerate(given_changes):
        if flow.reads(table):
            timed = TimedRow(at // at_once, flow.origin(table, 0), at, opcode, row)
            flow.insert(table, 0, Tray.from_rows(flow.row_type(table), [timed]))
        if opcode is Opcode.INSERT:
            contents[table][row[0]] = row
        else:
            contents[table].pop(row[0], None)
        if at % cut == 0:
            take()
    for table in "AB":
        if flow.reads(table):
            flow.bound(table, 0, Bound(LATEST))
    take()
    assert +held == answer(database, name, contents)


def answer(
    database: duckdb.DuckDBPyConnection, name: str, contents: Mapping[str, Mapping[object, Row]]
) -> Counter[tuple[str, ...]]:
    """Return what DuckDB gives for a query."""
    for table, found in contents.items():
        fill(database, table, "id INTEGER PRIMARY KEY, k VARCHAR, n INTEGER", found.values())
    return Counter(map(as_text, database.execute(QUERIES[name]).fetchall()))


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=8)
@given(given_changes=changes, cut=st.integers(1, 20))
def test_the_changes_of_each_row_are_what_differs_before_and_after_it(
    name: str, database: duckdb.DuckDBPyConnection, given_changes: list[tuple[str, Opcode, Row]], cut: int
) -> None:
    session = SqlSession(inserted="AB")
    session.feed(TABLES)
    flow = Flow({"Q": session.query(QUERIES[name])}, {})
    contents: dict[str, dict[object, Row]] = {"A": {}, "B": {}}
    given_: dict[int, list[TimedRow]] = {}
    wanted: dict[int, Counter[tuple[Opcode, tuple[str, ...]]]] = {}

    def take() -> None:
        for tray in flow.drain().outputs["Q"]:
            for timed in tray.rows():
                given_.setdefault(timed.rowtime, []).append(timed)

    before = answer(database, name, contents)
    for at, (table, opcode, row) in enumerate(given_changes):
        if flow.reads(table):
            timed = TimedRow(at, flow.origin(table, 0), at, opcode, row)
            flow.insert(table, 0, Tray.from_rows(flow.row_type(table), [timed]))
        if opcode is Opcode.INSERT:
            contents[table][row[0]] = row
        else:
            contents[table].pop(row[0], None)
        after = answer(database, name, contents)
        wanted[at] = Counter({(Opcode.DELETE, each): count for each, count in (before - after).items()})
        wanted[at] += Counter({(Opcode.INSERT, each): count for each, count in (after - before).items()})
        before = after
        if at % cut == 0:
            take()
    for table in "AB":
        if flow.reads(table):
            flow.bound(table, 0, Bound(LATEST))
    take()
    for at, each in wanted.items():
        rows = given_.pop(at, [])
        assert Counter((Opcode(row.opcode), as_text(row.row)) for row in rows) == each
    # What a query without groups gives before any row comes.
    assert all(at < 0 for at in given_)


@given(given_changes=changes, cut=st.integers(1, 20))
def test_an_expression_fails_for_what_was_only(
    given_changes: list[tuple[str, Opcode, Row]], cut: int
) -> None:
    session = SqlSession(inserted="AB")
    session.feed(TABLES)
    query = "SELECT k, 60 / (SUM(n) - 1) AS q FROM a GROUP BY k HAVING 60 / (COUNT(n) - 2) < 60"
    flow = Flow({"Q": session.query(query)}, {})
    rows: dict[object, Row] = {}
    faults: Counter[int] = Counter()
    wanted: Counter[int] = Counter()

    def groups() -> dict[object, tuple[int, int | None]]:
        found: dict[object, list[int]] = {}
        for _, key, n in rows.values():
            found.setdefault(key, []).extend([] if n is None else [cast("int", n)])
        return {key: (len(held), sum(held) if held else None) for key, held in found.items()}

    for at, (_, opcode, row) in enumerate(given_changes):
        before = groups()
        flow.insert(
            "A", 0, Tray.from_rows(flow.row_type("A"), [TimedRow(at, flow.origin("A", 0), at, opcode, row)])
        )
        if opcode is Opcode.INSERT:
            rows[row[0]] = row
        else:
            rows.pop(row[0], None)
        come = [found for key, found in groups().items() if before.get(key) != found]
        wanted[at] += sum(1 for count, total in come if count == 2 or total == 1)
        if at % cut == 0:
            faults.update(fault.counter for fault in flow.drain().faults)
    flow.bound("A", 0, Bound(LATEST))
    faults.update(fault.counter for fault in flow.drain().faults)
    assert faults.keys() <= (+wanted).keys()
