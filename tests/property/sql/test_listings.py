"""A query that lists a table gives its rows in the order in which another database gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.flow.flow import Flow
from rowtide.rows.rowop import Opcode, Row, TimedRow
from rowtide.rows.tray import Tray
from rowtide.runtime.query.listing import Contents
from rowtide.sql.pipeline import SqlSession
from support.duck import fill

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, d DECIMAL(6, 2), k VARCHAR(3))"
SELECTED = {
    "id, n, d, k": ("id", "n", "d", "k", "-n", "n * id", "CHAR_LENGTH(k)", "1", "3"),
    "n + 1 AS m, id": ("m", "id", "d", "2"),
    "*": ("k", "d", "t.n"),
    "DISTINCT n, k": ("n", "k", "2"),
    "n, COUNT(*) AS c": ("c", "n", "MAX(d)", "2"),
}
numbers = st.none() | st.integers(-3, 3)
rows = st.lists(
    st.tuples(numbers, st.none() | st.decimals(-20, 20, places=2), st.none() | st.sampled_from("abc")),
    max_size=8,
)


@st.composite
def queries(draw: st.DrawFn) -> str:
    selected = draw(st.sampled_from(list(SELECTED)))
    terms = draw(st.lists(st.sampled_from(SELECTED[selected]), min_size=1, max_size=2))
    # The other columns make it one order, as there is nothing else that says what comes first.
    terms += [each for each in SELECTED[selected][:4] if each.isalpha() and selected != "n + 1 AS m, id"]
    terms += ["id"] if selected in ("*", "n + 1 AS m, id") else []
    ways = [draw(st.sampled_from(("", " DESC", " ASC", " DESC NULLS LAST", " NULLS FIRST"))) for _ in terms]
    order = ", ".join(term + way for term, way in zip(terms, ways, strict=True))
    grouped = " GROUP BY n" if "COUNT" in selected else ""
    limit = draw(st.sampled_from(("", " LIMIT 3", " LIMIT 2 OFFSET 1")))
    return f"SELECT {selected} FROM t{grouped} ORDER BY {order}{limit}"


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with closing(duckdb.connect()) as connection:
        connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
        yield connection


OF_ALL_ROWS = (
    "SELECT COUNT(*) AS c, MAX(d) AS m, COUNT(DISTINCT k) AS x, MIN(k) FILTER (WHERE n > 1) AS y FROM t"
    " WHERE n > 2",
    "SELECT SUM(c) AS s, COUNT(*) AS n FROM (SELECT k, COUNT(*) AS c FROM t WHERE n > 2 GROUP BY k) AS q",
    "SELECT COUNT(*) AS c FROM t WHERE FALSE HAVING COUNT(*) = 0",
    "SELECT t.id, q.c FROM t LEFT JOIN (SELECT COUNT(*) AS c FROM t WHERE n > 2) AS q ON t.n = q.c",
    "SELECT COUNT(*) AS c FROM t WHERE n > 2 UNION ALL SELECT MAX(n) FROM t WHERE FALSE",
    "SELECT COUNT(*) AS c FROM (SELECT DISTINCT n FROM t LIMIT 100)",
    "SELECT COUNT(*) AS c FROM (SELECT DISTINCT n FROM t LIMIT 2)",
)


@pytest.mark.parametrize("query", OF_ALL_ROWS)
@settings(max_examples=10)
@given(given_rows=rows)
def test_a_group_of_all_rows_is_there_without_any(
    database: duckdb.DuckDBPyConnection, query: str, given_rows: list[Row]
) -> None:
    wanted, found = both_list(database, query, given_rows)
    assert Counter(found) == Counter(wanted)


@settings(max_examples=20)
@given(query=queries(), given_rows=rows)
def test_order_by_lists_a_table_as_duckdb_does(
    database: duckdb.DuckDBPyConnection, query: str, given_rows: list[Row]
) -> None:
    wanted, found = both_list(database, query, given_rows)
    assert found == wanted


def both_list(
    database: duckdb.DuckDBPyConnection, query: str, given_rows: list[Row]
) -> tuple[list[Row], list[Row]]:
    """Return what DuckDB lists, and what is listed here."""
    session = SqlSession()
    session.feed(TABLE)
    listing = session.listing(query)
    flow = Flow({"Q": listing.node}, {})
    held = [(at, *row) for at, row in enumerate(given_rows)]
    origin = flow.origin("T", 0)
    changes = [TimedRow(0, origin, at, Opcode.INSERT, row) for at, row in enumerate(held)]
    flow.insert("T", 0, Tray.from_rows(flow.row_type("T"), changes))
    contents = Contents(listing.order)
    emitted = flow.drain()
    assert not emitted.faults
    for tray in emitted.outputs["Q"]:
        contents.take(tray.rows())
    fill(database, "t", "id INTEGER, n INTEGER, d DECIMAL(6, 2), k VARCHAR(3)", held)
    wanted = database.execute(query.replace("CHAR_LENGTH", "length")).fetchall()
    return [_plain(row) for row in wanted], [_plain(row) for row in contents.rows()]


def _plain(row: Row) -> Row:
    return tuple(Decimal(value) if isinstance(value, int) else value for value in row)
