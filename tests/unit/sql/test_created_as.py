"""CREATE .. AS is the relation and the pump that a person would write."""

from __future__ import annotations

import pytest

from rowtide.sql.pipeline import SqlSession, plan_pipeline

PRELUDE = """
CREATE SERVER b FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'b:1');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE FOREIGN STREAM s (k VARCHAR(4) NOT NULL, n INTEGER, p DECIMAL(10, 2)) SERVER b OPTIONS (topic 's');
CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(8), PRICE DECIMAL(6, 2));
"""
WRITTEN = (
    (
        "CREATE STREAM x AS SELECT STREAM k, p * n AS worth, KAFKA_OFFSET AS place FROM s",
        "CREATE STREAM x (k VARCHAR(4) NOT NULL, worth DECIMAL(20, 2), place BIGINT NOT NULL)",
        "SELECT STREAM k, p * n AS worth, KAFKA_OFFSET AS place FROM s",
    ),
    (
        "CREATE TABLE x (who, PRIMARY KEY (many), many) AS SELECT STREAM k, n FROM s",
        "CREATE TABLE x (who VARCHAR(4) NOT NULL, many INTEGER NOT NULL, PRIMARY KEY (many))",
        "SELECT STREAM k, n FROM s",
    ),
    (
        "CREATE TABLE x AS SELECT name, COUNT(*) AS c FROM t GROUP BY name",
        "CREATE TABLE x (name VARCHAR(8) PRIMARY KEY, c BIGINT NOT NULL)",
        "SELECT name, COUNT(*) AS c FROM t GROUP BY name",
    ),
    (
        "CREATE FOREIGN TABLE x SERVER d OPTIONS (table_name 'y') AS SELECT name, id FROM t WHERE id > 1",
        "CREATE FOREIGN TABLE x (name VARCHAR(8), id INTEGER PRIMARY KEY) SERVER d OPTIONS (table_name 'y')",
        "SELECT name, id FROM t WHERE id > 1",
    ),
    (
        "CREATE FOREIGN STREAM x SERVER b OPTIONS (topic 'x', format 'JSON') AS SELECT STREAM n FROM s WHERE n > 1",
        "CREATE FOREIGN STREAM x (n INTEGER) SERVER b OPTIONS (topic 'x', format 'JSON')",
        "SELECT STREAM n FROM s WHERE n > 1",
    ),
)


@pytest.mark.parametrize(("short", "relation", "query"), WRITTEN)
def test_it_is_a_relation_and_a_pump(short: str, relation: str, query: str) -> None:
    written = plan_pipeline(f"{PRELUDE}{relation}; CREATE PUMP x_pump AS INSERT INTO x {query};")
    assert plan_pipeline(f"{PRELUDE}{short};") == written


def test_options_after_the_query_are_those_of_the_pump() -> None:
    session = SqlSession()
    session.feed(PRELUDE)
    joined = "AS SELECT STREAM s.n FROM s JOIN s AS other ON s.k = other.k"
    for create in ("STREAM x", "FOREIGN STREAM y SERVER b OPTIONS (topic 'y', format 'JSON')"):
        session.feed(f"CREATE {create} {joined} OPTIONS (RETENTION '1 HOUR');")
    session.feed(f"CREATE TABLE z OPTIONS (RETENTION '1 HOUR') {joined};")
    assert session.pumps == (("X_PUMP", "X"), ("Y_PUMP", "Y"), ("Z_PUMP", "Z"))


def test_a_replaced_one_has_the_columns_of_the_new_query() -> None:
    session = SqlSession()
    session.feed(PRELUDE)
    session.feed("CREATE SCHEMA other; CREATE STREAM other.x AS SELECT STREAM k FROM s;")
    plan = session.feed("CREATE OR REPLACE STREAM other.x AS SELECT STREAM n, p FROM s;")
    assert dict(plan.relations)["OTHER.X"].row_type.names == ("N", "P")
    assert session.pumps == (("OTHER.X_PUMP", "OTHER.X"),)
