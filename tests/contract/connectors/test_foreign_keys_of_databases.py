"""Tables with a foreign key between them, in real databases (docs/decisions/0029)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rowtide.errors import StatementError
from rowtide.runtime.pipeline import Pipeline
from rowtide.runtime.recovery.undeclared_keys import refuse_undeclared_keys
from support.database import SERVERS, Topics, execute, opened, run_again, url_of

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
PLAIN = {"key": KEY, "orders": "*", "end": ""}
SUMS = {"key": KEY, "orders": "id, SUM(n)", "end": "GROUP BY id EMIT CHANGES OPTIONS (RETENTION 'UNBOUNDED')"}
"""Orders that change: each change is a DELETE and an INSERT of a row to which others refer."""
SETUP = (
    "create table orders (id bigint primary key, n bigint)",
    "create table parts (id bigint primary key, o bigint, foreign key (o) references orders (id))",
)
Row = tuple[int, int, int]
"""A rowtime, and the two columns."""


def of(orders: Sequence[Row], parts: Sequence[Row]) -> Topics:
    return {
        topic: [(rowtime, {"id": first, "n": second, "o": second}) for rowtime, first, second in rows]
        for topic, rows in (("a", orders), ("b", parts))
    }


def run(pipeline: Pipeline, rows: int) -> list[Any]:
    """Run a pipeline to its end, with a commit every so many rows; return its error rows."""
    errors = run_again(pipeline, rows)
    return [(each.row.relation, each.row.offset, each.row.reason[:10]) for each in errors]


@pytest.mark.parametrize("database", SERVERS)
def test_which_rows_are_stored_depends_on_the_log_alone(
    database: str, request: pytest.FixtureRequest
) -> None:
    url = url_of(request, database)
    execute(url, SETUP)
    # The last order waits for later parts.
    orders = [(1_000, 1, 5), (2_000, 2, 5), (4_000, 3, 5), (9_000, 4, 5)]
    # Of the parts, 11 has no order, and that of 13 comes later.
    parts = [(1_000, 10, 1), (1_500, 11, 9), (2_000, 12, 2), (3_999, 13, 3), (4_000, 14, 3)]
    for rows in (1, 2, 100):
        with opened(PIPELINE, url, of(orders, parts), **PLAIN) as pipeline:
            assert run(pipeline, rows) == [("PARTS", 1, "CONSTRAINT"), ("PARTS", 3, "CONSTRAINT")]
        assert execute(url, ["select id, o from parts"]) == [(10, 1), (12, 2), (14, 3)]
        execute(url, ["delete from parts", "delete from orders"])


@pytest.mark.parametrize("database", SERVERS)
def test_a_row_that_others_refer_to_is_changed_in_place(
    database: str, request: pytest.FixtureRequest
) -> None:
    url = url_of(request, database)
    execute(url, SETUP)
    orders = [(1_000, 1, 5), (2_000, 1, 5), (3_000, 1, 5)]
    # The last part waits for later orders.
    parts = [(1_000, 10, 1), (2_500, 11, 1), (3_000, 12, 1)]
    for rows in (1, 100):
        with opened(PIPELINE, url, of(orders, parts), **SUMS) as pipeline:
            assert run(pipeline, rows) == []
        assert execute(url, ["select id, n from orders"]) == [(1, 15)]
        assert execute(url, ["select id, o from parts"]) == [(10, 1), (11, 1)]
        execute(url, ["delete from parts", "delete from orders"])


@pytest.mark.parametrize("database", SERVERS)
def test_a_key_that_is_not_declared_is_refused_with_what_to_type(
    database: str, request: pytest.FixtureRequest
) -> None:
    url = url_of(request, database)
    with opened(PIPELINE, url, of([], []), **PLAIN | {"key": ""}) as pipeline:
        # Tables that are missing have no keys.
        refuse_undeclared_keys(pipeline.database, pipeline.plan)
    execute(url, SETUP)
    with opened(PIPELINE, url, of([], []), **PLAIN | {"key": ""}) as pipeline:
        with pytest.raises(StatementError, match='table "PARTS" has a foreign key to "ORDERS"') as met:
            run(pipeline, 1)
        with pytest.raises(StatementError, match='table "PARTS" has a foreign key to "ORDERS"'):
            refuse_undeclared_keys(pipeline.database, pipeline.plan)
    assert KEY.removeprefix(", ") in str(met.value.hint)
