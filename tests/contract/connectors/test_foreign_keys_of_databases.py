"""Tables with a foreign key between them, in real databases (docs/decisions/0029)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.errors import StatementError
from rowtide.runtime.inspect.replay import Range, compare
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import Pipeline, open_pipeline
from rowtide.runtime.recovery.undeclared_keys import refuse_undeclared_keys
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.memory import memory_broker

PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{url}');
CREATE FOREIGN STREAM b (id BIGINT, o BIGINT) SERVER k OPTIONS (topic 'b', format 'JSON');
CREATE FOREIGN STREAM a (id BIGINT, n BIGINT) SERVER k OPTIONS (topic 'a', format 'JSON');
CREATE FOREIGN TABLE orders (id BIGINT, n BIGINT, PRIMARY KEY (id)) SERVER d;
CREATE FOREIGN TABLE parts (id BIGINT, o BIGINT, PRIMARY KEY (id){key}) SERVER d;
CREATE PUMP pb STARTED AS INSERT INTO parts SELECT STREAM * FROM b;
CREATE PUMP pa STARTED AS INSERT INTO orders SELECT STREAM {orders} FROM a {end};
"""
KEY = ", FOREIGN KEY (O) REFERENCES ORDERS (ID)"
SUMS = {"orders": "id, SUM(n)", "end": "GROUP BY id EMIT CHANGES OPTIONS (RETENTION 'UNBOUNDED')"}
"""Orders that change: each change is a DELETE and an INSERT of a row to which others refer."""
SETUP = (
    "create table orders (id bigint primary key, n bigint)",
    "create table parts (id bigint primary key, o bigint, foreign key (o) references orders (id))",
)
DATABASES = [
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
]
numbers = itertools.count()
Row = tuple[int, int, int]
"""A rowtime, and the two columns."""


def execute(url: str, statements: Sequence[str]) -> list[Any]:
    engine = sa.create_engine(
        url.replace("postgresql://", "postgresql+psycopg://").replace("mariadb://", "mariadb+pymysql://")
    )
    rows: list[Any] = []
    with engine.begin() as connection:
        for statement in statements:
            found = connection.exec_driver_sql(statement)
            rows = sorted(tuple(row) for row in found) if found.returns_rows else []
    engine.dispose()
    return rows


@contextmanager
def opened(url: str, topics: Mapping[str, Sequence[Row]], **parts: str) -> Iterator[Pipeline]:
    broker = f"foreign keys {next(numbers)}"
    for topic, rows in topics.items():
        memory_broker(broker).ensure_topic(topic, 1)
        for rowtime, first, second in rows:
            message = json.dumps({"id": first, "n": second, "o": second}).encode()
            memory_broker(broker).produce(topic, [message], timestamps=[rowtime])
    given = {"key": KEY, "orders": "*", "end": ""} | parts
    with open_pipeline(plan_pipeline(PIPELINE.format(broker=broker, url=url, **given)), "p") as pipeline:
        yield pipeline


def run(pipeline: Pipeline, rows: int) -> list[Any]:
    """Run a pipeline to its end, with a commit every so many rows; return its error rows."""
    context = PipelineContext(
        name="p",
        plan=pipeline.plan,
        sources=pipeline.sources,
        database=pipeline.database,
        ledger=pipeline.ledger,
        clock=VirtualClock(),
        pace=Pace(10**9, rows, None, None),
        stopping=lambda: False,
        wait=False,
        threads=False,
        poll_messages=rows,
    )
    pipeline.ledger.drop()
    Service(context).run(until_end=True)
    assert compare(context, Range()).differences == ()
    errors = pipeline.ledger.errors(ErrorFilter(), None)
    return [(each.row.relation, each.row.offset, each.row.reason[:10]) for each in errors]


@pytest.mark.parametrize("database", DATABASES)
def test_which_rows_are_stored_depends_on_the_log_alone(
    database: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{database}_url")
    execute(url, SETUP)
    # The last order waits for later parts.
    orders = [(1_000, 1, 5), (2_000, 2, 5), (4_000, 3, 5), (9_000, 4, 5)]
    # Of the parts, 11 has no order, and that of 13 comes later.
    parts = [(1_000, 10, 1), (1_500, 11, 9), (2_000, 12, 2), (3_999, 13, 3), (4_000, 14, 3)]
    for rows in (1, 2, 100):
        with opened(url, {"a": orders, "b": parts}) as pipeline:
            assert run(pipeline, rows) == [("PARTS", 1, "CONSTRAINT"), ("PARTS", 3, "CONSTRAINT")]
        assert execute(url, ["select id, o from parts"]) == [(10, 1), (12, 2), (14, 3)]
        execute(url, ["delete from parts", "delete from orders"])


@pytest.mark.parametrize("database", DATABASES)
def test_a_row_that_others_refer_to_is_changed_in_place(
    database: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{database}_url")
    execute(url, SETUP)
    orders = [(1_000, 1, 5), (2_000, 1, 5), (3_000, 1, 5)]
    # The last part waits for later orders.
    parts = [(1_000, 10, 1), (2_500, 11, 1), (3_000, 12, 1)]
    for rows in (1, 100):
        with opened(url, {"a": orders, "b": parts}, **SUMS) as pipeline:
            assert run(pipeline, rows) == []
        assert execute(url, ["select id, n from orders"]) == [(1, 15)]
        assert execute(url, ["select id, o from parts"]) == [(10, 1), (11, 1)]
        execute(url, ["delete from parts", "delete from orders"])


@pytest.mark.parametrize("database", DATABASES)
def test_a_key_that_is_not_declared_is_refused_with_what_to_type(
    database: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{database}_url")
    with opened(url, {"a": [], "b": []}, key="") as pipeline:
        # Tables that are missing have no keys.
        refuse_undeclared_keys(pipeline.database, pipeline.plan)
    execute(url, SETUP)
    with opened(url, {"a": [], "b": []}, key="") as pipeline:
        with pytest.raises(StatementError, match='table "PARTS" has a foreign key to "ORDERS"') as met:
            run(pipeline, 1)
        with pytest.raises(StatementError, match='table "PARTS" has a foreign key to "ORDERS"'):
            refuse_undeclared_keys(pipeline.database, pipeline.plan)
    assert KEY.removeprefix(", ") in str(met.value.hint)
