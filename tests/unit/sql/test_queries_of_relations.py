"""Each relation has SQL text that reads its rows, which the page offers: the service can plan it as a query."""

from __future__ import annotations

import pytest

from house.machine import ROOT
from rowtide.sql.pipeline import SqlSession

DEFINED = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'localhost:9092');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE FOREIGN STREAM feed (a VARCHAR(8), d DECIMAL(9, 2)) SERVER k OPTIONS (topic 'feed');
CREATE FOREIGN STREAM sent (a VARCHAR(8)) SERVER k OPTIONS (topic 'sent', format 'JSON');
CREATE FOREIGN TABLE sink (a VARCHAR(8), PRIMARY KEY (a)) SERVER d;
CREATE TABLE "Mixed case" (id INTEGER NOT NULL, PRIMARY KEY (id));
CREATE TABLE "a""b.c" (id INTEGER NOT NULL, PRIMARY KEY (id));
CREATE VIEW "ORDER" AS SELECT STREAM a FROM feed;
CREATE VIEW counted OPTIONS (RETENTION 'UNBOUNDED') AS SELECT STREAM a, COUNT(*) AS n FROM feed GROUP BY a EMIT CHANGES;
CREATE STREAM own (a VARCHAR(8));
CREATE PUMP p STARTED AS INSERT INTO sink SELECT a FROM counted;
CREATE PUMP q STARTED AS INSERT INTO sent SELECT STREAM a FROM "ORDER";
CREATE PUMP r STARTED AS INSERT INTO own SELECT STREAM a FROM feed;
CREATE SCHEMA shop;
SET SCHEMA 'SHOP';
CREATE TABLE "table" (id INTEGER NOT NULL, PRIMARY KEY (id));
"""
QUERIES = {
    "FEED": "SELECT STREAM * FROM PUBLIC.FEED",
    "SENT": "SELECT STREAM * FROM PUBLIC.SENT",
    "SINK": "SELECT * FROM PUBLIC.SINK",
    "Mixed case": 'SELECT * FROM PUBLIC."Mixed case"',
    '"a""b.c"': 'SELECT * FROM PUBLIC."a""b.c"',
    "ORDER": 'SELECT STREAM * FROM PUBLIC."ORDER"',
    "COUNTED": "SELECT * FROM PUBLIC.COUNTED",
    "OWN": "SELECT STREAM * FROM PUBLIC.OWN",
    "P": None,
    "Q": None,
    "R": None,
    "SHOP.table": 'SELECT * FROM "table"',
}
EXAMPLES = ["examples/workshop/workshop.sql", "examples/traffic/traffic.sql", "docker/orders/pipeline.sql"]


def queries_of(text: str) -> dict[str, str | None]:
    session = SqlSession()
    session.feed(text)
    return {each.name: each.query for each in session.plan.definitions}


def asked_all(text: str) -> int:
    """Plan each query as a service does, and return how many there are."""
    queries = [query for query in queries_of(text).values() if query is not None]
    asked = SqlSession(committed=True)
    asked.feed(text)
    for query in queries:
        asked.listing(query)
    return len(queries)


def test_the_query_of_each_kind_names_it_as_sql_does() -> None:
    assert queries_of(DEFINED) == QUERIES
    assert asked_all(DEFINED) == sum(query is not None for query in QUERIES.values())


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_query_of_an_example_can_be_planned(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str((ROOT / example).parent))
    assert asked_all((ROOT / example).read_text()) > 2
