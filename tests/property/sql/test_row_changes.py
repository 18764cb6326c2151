"""UPDATE, DELETE, TRUNCATE and MERGE leave the rows that DuckDB leaves."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.errors import StatementError
from rowtide.plan.nodes import TableSource, nodes_below
from rowtide.sql.pipeline import SqlSession

TABLE = "CREATE TABLE t (id INTEGER{key}, k VARCHAR(1), n INTEGER)"
ids = st.integers(0, 4)
numbers = st.none() | st.integers(-3, 3)
texts = st.none() | st.sampled_from("ab")


def literal(value: object) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


conditions = st.one_of(
    st.just("TRUE"),
    ids.map(lambda at: f"id = {at}"),
    numbers.map(lambda at: f"n < {literal(at or 0)} OR k = 'a'"),
    st.just("n IS NULL"),
    st.just("NOT (k = 'b' AND n > 0)"),
)
values = st.one_of(
    numbers.map(lambda at: "CAST(NULL AS INTEGER)" if at is None else str(at)),
    st.just("n + 1"),
    st.just("id * n"),
    st.just("COALESCE(n, id)"),
)
rows = st.lists(st.tuples(ids, texts, numbers), min_size=1, max_size=4)


def listed(drawn: list[tuple[int, str | None, int | None]]) -> str:
    return ", ".join(
        f"({i}, CAST({literal(k)} AS VARCHAR(1)), CAST({literal(n)} AS INTEGER))" for i, k, n in drawn
    )


def merged(drawn: list[tuple[int, str | None, int | None]], on: str, deletes: str, value: str) -> str:
    return (
        f"MERGE INTO t USING (VALUES {listed(drawn)}) AS s (i, c, m) ON {on}"
        f" WHEN MATCHED AND {deletes} THEN DELETE WHEN MATCHED THEN UPDATE SET n = {value}, k = s.c"
        " WHEN NOT MATCHED AND s.m IS NULL THEN DO NOTHING"
        " WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.i, s.m)"
    )


statements = st.one_of(
    rows.map(lambda drawn: f"INSERT INTO t VALUES {listed(drawn)}"),
    st.builds(lambda value, where: f"UPDATE t SET n = {value}, k = NULL WHERE {where}", values, conditions),
    st.builds(lambda to, where: f"UPDATE t AS x SET id = id + {to} WHERE {where}", ids, conditions),
    conditions.map(lambda where: f"DELETE FROM t WHERE {where}"),
    st.just("TRUNCATE t"),
    st.builds(
        merged,
        st.lists(st.tuples(ids, texts, numbers), min_size=1, max_size=4, unique_by=lambda row: row[0]),
        st.sampled_from(["t.id = s.i", "t.id = s.i AND t.n IS NOT NULL"]),
        st.sampled_from(["t.n > s.m", "s.m = 0", "FALSE"]),
        st.sampled_from(["s.m", "t.n + s.m", "t.id"]),
    ),
)


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@given(keyed=st.booleans(), drawn=st.lists(statements, min_size=1, max_size=8))
def test_the_rows_are_those_of_duckdb(
    duck: duckdb.DuckDBPyConnection, *, keyed: bool, drawn: list[str]
) -> None:
    duck.execute("DROP TABLE IF EXISTS t")
    duck.execute(TABLE.format(key=""))
    session = SqlSession()
    session.feed(TABLE.format(key=" PRIMARY KEY" if keyed else ""))
    for statement in drawn:
        if keyed and statement.startswith("INSERT"):
            # Here a row replaces the row of its key.
            inserted = statement.removeprefix("INSERT INTO t ")
            last = "SELECT id, LAST(k), LAST(n) FROM (SELECT *, ROW_NUMBER() OVER () AS r FROM"
            duck.execute(
                f"CREATE OR REPLACE TEMP TABLE given AS {last} ({inserted}) AS v (id, k, n)) GROUP BY id"
            )
            duck.execute("DELETE FROM t WHERE id IN (SELECT id FROM given)")
            duck.execute("INSERT INTO t SELECT * FROM given")
            session.feed(statement)
            continue
        before = duck.execute("SELECT * FROM t").fetchall()
        duck.execute(statement)
        after = duck.execute("SELECT * FROM t").fetchall()
        keys = Counter(row[0] for row in after)
        if keyed and keys and keys.most_common(1)[0][1] > 1:
            with pytest.raises(StatementError, match="PRIMARY KEY"):
                session.feed(statement)
            duck.execute("DELETE FROM t")
            duck.executemany("INSERT INTO t VALUES (?, ?, ?)", before) if before else None
            continue
        session.feed(statement)
    (source,) = (
        each
        for _, node in session.plan.relations
        for each in nodes_below(node)
        if isinstance(each, TableSource)
    )
    held = source.rows
    if keyed:
        held = tuple({row[0]: row for row in held}.values())
    assert Counter(held) == Counter(duck.execute("SELECT * FROM t").fetchall())
