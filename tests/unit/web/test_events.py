"""The events of a pipeline: the newest of each topic, once for all watchers, and never a queue."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from rowtide.checkpoint.ledger import PendingErrors
from rowtide.metrics import Metrics
from rowtide.runtime.progress.board import ProgressBoard
from rowtide.runtime.progress.held_back import HoldingPartition
from rowtide.web import Handlers, build_app
from rowtide.web.api import events
from rowtide.web.api.events import ERRORS_S, MOST_WATCHERS, TOPICS, EventFeed
from rowtide.web.problems import Problem
from rowtide_connectors.memory import memory_broker
from support.progress import ran
from support.served import served
from support.web import Pipeline, StoppedClock, asked, progress_of_orders

PATH = "/api/v1/pipelines/orders_per_minute/events"
ALL = frozenset(TOPICS)
Read = tuple[str, str, Mapping[str, Any]]
"""The id, topic and data of an event."""


CAUSE = HoldingPartition(
    "IDLE",
    "READINGS",
    "readings",
    1,
    61_000,
    None,
    "why",
    "released",
    "change",
    19,
    ("SAME",),
    (1, 4),
    ("SAME",),
)


@pytest.fixture(scope="module")
def board() -> ProgressBoard:
    _, found = ran()
    found.held_back = (CAUSE,)
    return found


def feed_of(board: ProgressBoard, status: Pipeline | None = None) -> EventFeed:
    found = EventFeed(board, status or Pipeline(), StoppedClock(), lambda: PendingErrors({"ORDERS": 12}, 17))
    found.watchers = 1
    return found


def read(sent: bytes) -> Read:
    lines = dict(line.split(": ", 1) for line in sent.decode().strip().split("\n"))
    return lines["id"], lines["event"], json.loads(lines["data"])


async def after_the_head(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    assert await anext(stream) == b"retry: 2000\n\n"
    return stream


def run(told: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(told(), 30))


def test_a_watcher_first_gets_the_newest_event_of_each_topic(board: ProgressBoard) -> None:
    async def told() -> None:
        stream = await after_the_head(feed_of(board).stream(0, ALL))
        found = {topic: data for _, topic, data in [read(await anext(stream)) for _ in TOPICS]}
        (*_, newest) = board.newest
        assert found["graph"] == {"digest": newest.graph.digest}
        assert (found["phase"]["phase"], found["phase"]["epoch"]) == ("running", 3)
        assert found["commit"]["number"] == newest.status.commits
        assert found["progress"]["steps"] == newest.steps
        assert found["progress"]["at"]["commit"] == newest.status.commits
        assert len(found["progress"]["columns"]) == len(newest.steps[0])
        assert found["progress"]["partitions"][0][:3] == ["READINGS", "readings", 0]
        (cause,) = found["problem"]["causes"]
        assert (cause["cause"], cause["has"], cause["needs"]) == ("IDLE", "1970-01-01T00:01:01.000Z", None)
        assert (cause["path"], cause["rows"], cause["holds"]) == ([1, 4], 19, ["SAME"])
        assert found["errors"] == {"pending": {"ORDERS": 12}, "newest": 17}

    run(told)


def test_new_error_rows_are_counted_soon_also_if_a_commit_without_any_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, board = ran()
    clock, counted = StoppedClock(), [0]
    monkeypatch.setattr(events, "LOOK_S", 0.0)

    def pending() -> PendingErrors:
        counted[0] += 1
        return PendingErrors({"ORDERS": counted[0]}, None)

    async def told() -> None:
        feed = EventFeed(board, Pipeline(), clock, pending)
        feed.watchers = 1
        stream = await after_the_head(feed.stream(0, frozenset({"errors"})))
        assert read(await anext(stream))[2]["pending"] == {"ORDERS": 1}
        (*_, newest) = board.newest
        board.newest = (newest, replace(newest, numbers=newest.numbers + 1))
        board.commits = (replace(board.commits[-1], late=0, rejected=0),)
        clock.sleep(ERRORS_S)
        assert read(await anext(stream))[2]["pending"] == {"ORDERS": 2}
        # Some were resubmitted: no time passes.
        feed.count_errors_soon()
        assert read(await anext(stream))[2]["pending"] == {"ORDERS": 3}
        feed.end()

    run(told)


def test_events_are_encoded_once_for_all_watchers(board: ProgressBoard) -> None:
    async def told() -> None:
        feed = feed_of(board)
        streams = [await after_the_head(feed.stream(0, ALL)) for _ in range(3)]
        for _ in TOPICS:
            first, *others = [await anext(stream) for stream in streams]
            assert all(each is first for each in others)

    run(told)


def test_a_slow_watcher_gets_the_newest_state_next_and_no_queue() -> None:
    async def told() -> None:
        status = Pipeline()
        feed = feed_of(progress_of_orders(), status)
        stream = await after_the_head(feed.stream(0, frozenset({"phase", "graph"})))
        assert read(await anext(stream))[1] == "graph"
        for number in range(50):
            status.now = replace(status.now, waits_for=f"broker {number}")
            feed.look()
        assert read(await anext(stream))[2]["waits_for"] == "broker 49"
        feed.end()
        assert [each async for each in stream] == []

    run(told)


def test_what_is_new_wakes_a_watcher_that_waits() -> None:
    async def told() -> None:
        status = Pipeline()
        stream = await after_the_head(feed_of(progress_of_orders(), status).stream(0, frozenset({"phase"})))
        await anext(stream)
        waits = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        status.now = replace(status.now, phase="waiting", waits_for="database")
        assert read(await waits)[2]["phase"] == "waiting"

    run(told)


def test_a_resumed_stream_continues_after_its_last_event() -> None:
    status = Pipeline()
    feed = feed_of(progress_of_orders(), status)
    feed.look()
    ids = [read(each.sent)[0] for each in feed._events.values()]
    assert ids == ["3.1", "3.2"]
    assert [feed.after(each) for each in ids] == [1, 2]
    assert feed.next(feed.after("3.2"), ALL) is None
    status.now = replace(status.now, waits_for="database")
    feed.look()
    found = feed.next(feed.after("3.2"), ALL)
    assert found is not None
    assert read(found.sent)[:2] == ("3.3", "phase")
    for other in ("", "2.2", "4.2", "3.4", "3.x", "3", f"3.{'9' * 40}", "None.1"):
        assert feed.after(other) == 0


def test_a_silent_stream_has_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "COMMENT_S", 0.01)

    async def told() -> None:
        stream = await after_the_head(feed_of(progress_of_orders()).stream(0, frozenset({"graph"})))
        await anext(stream)
        assert await anext(stream) == b": \n\n"

    run(told)


def get(feed: EventFeed, query: str = "", **headers: str) -> httpx.Response:
    handlers = Handlers(events=feed)
    app = build_app(Pipeline(), Metrics(), StoppedClock(), version="1", handlers=handlers)
    return asked(app, "GET", PATH + query, **headers)


def test_streams_end_when_the_service_stops() -> None:
    feed = feed_of(progress_of_orders())
    feed.end()
    answer = get(feed, "?topics=phase,graph", last_event_id="3.1")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("retry: 2000\n\nid: 3.1\nevent: graph\n")
    assert feed.watchers == 1


def test_an_unknown_topic_and_one_watcher_too_many_are_refused() -> None:
    feed = feed_of(progress_of_orders())
    answer = get(feed, "?topics=phase,graphs")
    assert (answer.status_code, answer.json()["type"]) == (400, Problem.INVALID_PARAMETER.urn)
    feed.watchers = MOST_WATCHERS
    answer = get(feed)
    assert (answer.status_code, answer.json()["type"]) == (503, Problem.UNAVAILABLE.urn)
    assert answer.headers["retry-after"] == "2"


PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount INTEGER) SERVER k OPTIONS (topic 'readings', format 'JSON');
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount INTEGER, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO latest SELECT STREAM sensor, amount FROM readings;
"""


def test_a_running_service_sends_its_progress_and_ends_its_streams_when_it_stops(tmp_path: Path) -> None:
    database, file = tmp_path / "rows.db", tmp_path / "seen.sql"
    file.write_text(PIPELINE.format(file=database))
    broker = memory_broker(str(database))
    sent = [b'{"sensor":"a","amount":%d}' % number for number in range(20)] + [b"{broken"]
    broker.create_topic("readings")
    broker.produce("readings", sent, timestamps=[1_000_000 + 1_000 * at for at in range(21)])
    with ExitStack() as service:
        base = f"{service.enter_context(served(file))}/api/v1/pipelines/seen"
        graph = httpx.get(f"{base}/graph", trust_env=False).json()
        (source,) = [node["first"][0] for node in graph["nodes"] if node["id"] == "READINGS"]
        newest: dict[str, Any] = {"progress": {"steps": []}}
        with httpx.stream("GET", f"{base}/events", trust_env=False, timeout=60) as answer:
            topic, lines = "", answer.iter_lines()
            for line in lines:
                field, _, value = line.partition(": ")
                if field == "event":
                    topic = value
                elif field == "data":
                    newest[topic] = json.loads(value)
                counts = {step: numbers[:5] for step, *numbers in newest["progress"]["steps"]}
                if counts.get(source) == [21, 20, 0, 0, 1] and {"errors", "problem"} <= newest.keys():
                    break
            assert newest["progress"]["digest"] == newest["graph"]["digest"] == graph["digest"]
            assert newest["errors"]["pending"] in ({}, {"READINGS": 1})
            stopping = threading.Thread(target=service.close)
            stopping.start()
            # The stream ends by itself. One that the server has to cut is a protocol error here.
            list(lines)
        stopping.join()
