"""What a database refuses does not depend on what is committed together, and is missed by no comparison."""

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.runtime.inspect.replay import Range, compare
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.memory import memory_broker

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
DOCUMENTS = ('{\\"b\\":1.0,  \\"a\\":[1.50]}', "[]", "none", '\\"x\\"')
numbers = itertools.count()


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
    ]
)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param != "sqlite":
        url: str = request.getfixturevalue(f"{request.param}_url")
        return url
    return f"sqlite:///{tmp_path}/judged.db"


def run(url: str, rows: int) -> tuple[list[list[Any]], list[Any]]:
    """Run everything again, committing every so many rows; give tables and refused rows."""
    broker = f"refused {next(numbers)}"
    plan = plan_pipeline(SQL.format(broker=broker, url=url))
    topic = memory_broker(broker)
    topic.ensure_topic("readings", 1)
    rng = random.Random(5)
    for number in range(60):
        # PostgreSQL has no text with NUL, SQLite has: there nothing is refused for it.
        label = rng.choice(("a", "b", "c", "d", "\\u0000"))
        value = f'{{"number":{number},"sensor":"s{rng.randrange(5)}","label":"{label}","share":{number / 10},'
        value += f'"document":"{DOCUMENTS[number % 7 % 4]}"}}'
        topic.produce("readings", [value.encode()], timestamps=[1_000 * number])
    engine = sa.create_engine(
        url.replace("postgresql://", "postgresql+psycopg://").replace("mariadb://", "mariadb+pymysql://")
    )
    with engine.begin() as connection:
        for table in TABLES:
            connection.exec_driver_sql(f"drop table if exists {table}")
        for statement in (*DDL, DDL_OF[sa.make_url(url).get_backend_name()]):
            connection.exec_driver_sql(statement)
    with open_pipeline(plan, "p") as pipeline:
        pipeline.ledger.drop()
        context = PipelineContext(
            name="p",
            plan=pipeline.plan,
            sources=pipeline.sources,
            database=pipeline.database,
            ledger=pipeline.ledger,
            clock=VirtualClock(),
            pace=Pace(10**9, rows, None, None),
            stopping=lambda: False,
            threads=False,
            poll_messages=min(rows, 50),
        )
        Service(context).run(until_end=True)
        refused = pipeline.ledger.errors(ErrorFilter(), None)
        found = compare(context, Range())
        assert (found.count, found.differences) == (0, ())
    with engine.begin() as connection:
        tables = [
            sorted(connection.exec_driver_sql(f"select * from {table}").all(), key=repr) for table in TABLES
        ]
    engine.dispose()
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
