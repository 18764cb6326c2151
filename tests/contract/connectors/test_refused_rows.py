"""What a database refuses does not depend on what is committed together, and is missed by no comparison."""

import random
from typing import Any

import pytest
import sqlalchemy as sa

from support.database import DATABASES, execute, opened, run_again, url_of

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{url}');
CREATE FOREIGN STREAM readings (number BIGINT, sensor VARCHAR(8), label VARCHAR(8), share REAL, document VARCHAR)
  SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE judged (sensor VARCHAR(8), label VARCHAR(8), number BIGINT, PRIMARY KEY (sensor))
  SERVER d;
CREATE FOREIGN TABLE plain (sensor VARCHAR(8), label VARCHAR(8), number BIGINT, PRIMARY KEY (sensor))
  SERVER d;
CREATE FOREIGN TABLE appended (label VARCHAR(8), number BIGINT) SERVER d;
CREATE FOREIGN TABLE other_types (sensor VARCHAR(8), number BIGINT, share REAL, document VARCHAR, PRIMARY KEY (sensor))
  SERVER d;
CREATE PUMP p4 STARTED AS INSERT INTO other_types
  SELECT STREAM sensor, number * 1000 AS number, share, document FROM readings;
CREATE PUMP p1 STARTED AS INSERT INTO judged SELECT STREAM sensor, label, number FROM readings;
CREATE PUMP p2 STARTED AS INSERT INTO plain SELECT STREAM sensor, label, number FROM readings;
CREATE PUMP p3 STARTED AS INSERT INTO appended SELECT STREAM label, number FROM readings;
"""
DDL = (
    "create table judged (sensor varchar(8) primary key, label varchar(8) unique, number bigint,"
    " check (number - number / 7 * 7 <> 3))",
    "create table appended (label varchar(8), number bigint, check (number - number / 11 * 11 <> 3))",
)
TABLES = ("judged", "plain", "appended", "other_types")
OTHER_TYPES = "create table other_types (sensor varchar(8) primary key, number {}, share {}, document {})"
DDL_OF = {
    "sqlite": OTHER_TYPES.format(
        "integer check (number < 32768)", "real", "text check (json_valid(document))"
    ),
    "postgresql": OTHER_TYPES.format("smallint", "real", "jsonb"),
    "mariadb": OTHER_TYPES.format("smallint", "float", "json"),
}
"""Columns that do not take every value; of SQLite only by a CHECK."""
DOCUMENTS = ('{"b":1.0,  "a":[1.50]}', "[]", "none", '"x"')


@pytest.fixture(params=DATABASES)
def server(request: pytest.FixtureRequest) -> str:
    return url_of(request, request.param)


def readings() -> list[tuple[int, dict[str, object]]]:
    rng = random.Random(5)
    rows: list[tuple[int, dict[str, object]]] = []
    for number in range(60):
        # PostgreSQL has no text with NUL, SQLite has: there nothing is refused for it.
        label = rng.choice(("a", "b", "c", "d", "\0"))
        row = {"number": number, "sensor": f"s{rng.randrange(5)}", "label": label, "share": number / 10}
        rows.append((1_000 * number, {**row, "document": DOCUMENTS[number % 7 % 4]}))
    return rows


def run(url: str, rows: int) -> tuple[list[list[Any]], list[Any]]:
    """Run everything again, committing every so many rows; return tables and refused rows."""
    execute(url, [f"drop table if exists {table}" for table in TABLES])
    execute(url, (*DDL, DDL_OF[sa.make_url(url).get_backend_name()]))
    with opened(SQL, url, {"readings": readings()}) as pipeline:
        refused = run_again(pipeline, rows)
    tables = [execute(url, [f"select * from {table}"]) for table in TABLES]
    return tables, sorted((each.row.relation, each.row.offset, each.row.reason[:10]) for each in refused)


def test_the_same_rows_are_refused_whatever_is_committed_together(server: str) -> None:
    one_by_one = run(server, 1)
    assert len(one_by_one[1]) > 15
    of_types, undecoded = (
        {offset for relation, offset, _ in one_by_one[1] if relation == name}
        for name in ("OTHER_TYPES", "READINGS")
    )
    # Numbers from 33,000 on, and some texts that are not JSON.
    assert set(range(33, 60)) - undecoded < of_types
    for rows in (4, 1_000):
        assert run(server, rows) == one_by_one
