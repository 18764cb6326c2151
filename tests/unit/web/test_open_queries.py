"""Queries of the API: each has one reader, and one that no one reads ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from rowtide.metrics import Metrics
from rowtide.runtime.state.following import StartedQuery
from rowtide.web import Handlers, build_app
from rowtide.web.api.queries import OpenQueries
from rowtide.web.problems import Problem, ProblemError
from support.waiting import wait_until
from support.web import Pipeline, StoppedClock, asked

HERE = "/api/v1/pipelines/orders_per_minute/queries"


class Fake:
    """A query whose lines are given; its own process and follower."""

    def __init__(self) -> None:
        self.closed = 0
        self.killed: list[str] = []

    def kill(self, message: str, _hint: str | None) -> None:
        self.killed.append(message)

    def close(self) -> None:
        self.closed += 1

    def lines(self, _process: Any) -> Iterator[bytes]:
        yield b'{"columns": ["N"], "types": ["BIGINT"], "changes": false}\n'
        yield b'{"op": "+", "rowtime": null, "row": [1]}\n{"ended": "done"}\n'


def query() -> tuple[StartedQuery, Fake]:
    fake = Fake()
    return StartedQuery(cast("Any", fake), cast("Any", fake), ("N",), ("BIGINT",), False), fake


def refused(held: OpenQueries, known: str) -> Problem:
    with pytest.raises(ProblemError) as error:
        held.read(known)
    return error.value.problem


def test_a_query_has_one_reader_and_is_forgotten_after_it() -> None:
    held = OpenQueries()
    started, fake = query()
    known = held.add(started)
    assert held.read(known) is started
    assert refused(held, known) is Problem.NOT_POSSIBLE
    held.forget(known)
    assert refused(held, known) is Problem.UNKNOWN_QUERY
    assert (fake.closed, fake.killed) == (0, [])


def test_a_query_that_no_one_reads_ends_and_one_that_is_read_does_not() -> None:
    held = OpenQueries(unread_s=0.2)
    (first, read), (second, unread) = query(), query()
    held.read(held.add(first))
    # Its time begins later.
    held.add(second)
    wait_until(lambda: unread.closed > 0)
    assert read.closed == 0


def test_a_query_is_ended_whether_it_is_read_or_not() -> None:
    held = OpenQueries()
    (first, unread), (second, read) = query(), query()
    held.end(held.add(first))
    known = held.add(second)
    held.read(known)
    held.end(known)
    assert (unread.closed > 0, unread.killed) == (True, [])
    assert (read.closed, read.killed) == (0, ["the query was ended by a request"])
    assert refused(held, known) is Problem.UNKNOWN_QUERY


def test_a_query_is_started_read_once_and_gone() -> None:
    started, fake = query()
    handlers = Handlers(query=lambda _sql, _once: started)
    app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=handlers)
    begun = asked(app, "POST", HERE, body={"sql": "SELECT 1 AS n", "once": True})
    known = begun.json()["id"]
    assert (begun.status_code, begun.headers["location"]) == (201, f"queries/{known}")
    assert begun.json() == {"id": known, "columns": [{"name": "N", "type": "BIGINT"}], "changes": False}
    rows = asked(app, "GET", f"{HERE}/{known}/rows")
    assert rows.headers["content-type"] == "application/x-ndjson"
    assert rows.text.splitlines()[1:] == ['{"op": "+", "rowtime": null, "row": [1]}', '{"ended": "done"}']
    assert fake.closed > 0
    for method, path in (("GET", f"{HERE}/{known}/rows"), ("DELETE", f"{HERE}/{known}")):
        assert asked(app, method, path).json()["type"] == "urn:rowtide:problem:unknown-query"


def test_a_query_is_ended_by_a_request() -> None:
    started, fake = query()
    handlers = Handlers(query=lambda _sql, _once: started)
    app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=handlers)
    known = asked(app, "POST", HERE, body={"sql": "SELECT 1 AS n"}).json()["id"]
    assert asked(app, "DELETE", f"{HERE}/{known}").status_code == 204
    assert fake.closed > 0
