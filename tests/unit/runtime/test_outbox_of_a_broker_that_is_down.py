"""While a broker is down, messages wait in the database up to a limit, and everyone can see it."""

from __future__ import annotations

import random
import threading
import time

import pytest

from rowtide.clock import SystemClock
from rowtide.errors import TransientError
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide_connectors.errors import DeniedError, RefusedMessageError, UnavailableError
from rowtide_connectors.memory.broker import MemoryBroker
from support.outbox import alerts_plan, sent, sink_of
from support.runtime import World, fill
from support.waiting import wait_until

MAX_PENDING = 60
PATIENCE_S = 60.0


def world_of(**options: str) -> World:
    topic = InMemoryTopic("readings", 3, None)
    fill(topic, random.Random(1))
    return World(topic, plan=alerts_plan(**options))


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("the broker is down"),
        RefusedMessageError("it is too large", number=1, hint="Raise it."),
    ],
)
def test_the_pipeline_stops_reading_at_the_limit_and_goes_on_when_the_broker_does(error: Exception) -> None:
    world, broker = world_of(max_pending=str(MAX_PENDING)), MemoryBroker()
    straight, other = world_of(), MemoryBroker()
    Service(straight.context(sinks=sink_of(straight.plan, other))).run(until_end=True)
    is_down = threading.Event()
    is_down.set()

    def fate(step: str) -> None:
        if is_down.is_set() and step == "before send":
            raise error

    stop = threading.Event()
    context = world.context(
        sinks=sink_of(world.plan, broker, fate),
        clock=SystemClock(),
        pace=Pace(20, 20, None, None),
        poll_messages=20,
        queue_messages=20,
        threads=True,
        stopping=stop.is_set,
    )
    service = Service(context)
    ran = threading.Thread(target=lambda: service.run(until_end=True), daemon=True)
    ran.start()
    try:
        wait_until(lambda: dict(service.board.status().pending).get("ALERTS", 0) >= MAX_PENDING)
        wait_until(lambda: service.board.status().phase == "waiting")
        record = world.checkpoint.record
        assert record is not None
        held = record.partition_positions
        time.sleep(0.5)
        record = world.checkpoint.record
        assert record is not None
        assert record.partition_positions == held
        (outbox,) = world.database.contents.outboxes.values()
        assert MAX_PENDING <= len(outbox.messages) < len(sent(other))
        assert sent(broker) == []
        status = service.board.status()
        assert (status.phase, status.waits_for) == ("waiting", 'broker of "ALERTS"')
        assert status.pending == (("ALERTS", len(outbox.messages)),)
        is_down.clear()
        ran.join(PATIENCE_S)
        assert not ran.is_alive()
    finally:
        stop.set()
        ran.join(PATIENCE_S)
    assert sent(broker) == sent(other)
    assert service.board.status().pending == (("ALERTS", 0),)


def test_a_stop_while_the_broker_is_down_commits_and_leaves_the_messages_to_the_next_start() -> None:
    world, broker = world_of(), MemoryBroker()
    stop = threading.Event()

    def fate(step: str) -> None:
        if step == "before send":
            raise UnavailableError("the broker is down")

    changes = {"clock": SystemClock(), "pace": Pace(20, 20, None, None), "threads": True}
    context = world.context(sinks=sink_of(world.plan, broker, fate), stopping=stop.is_set, **changes)
    service = Service(context)
    ran = threading.Thread(target=service.run, daemon=True)
    ran.start()
    try:
        wait_until(lambda: service.board.status().waits_for == 'broker of "ALERTS"')
        wait_until(lambda: dict(service.board.status().pending).get("ALERTS", 0) > 0)
    finally:
        stop.set()
        ran.join(PATIENCE_S)
    assert not ran.is_alive()
    assert sent(broker) == []
    Service(world.context(sinks=sink_of(world.plan, broker), **changes)).run(until_end=True)
    log = world.database.contents.appended["LOG"]
    assert len(sent(broker)) == len(log)


def test_a_sink_that_is_denied_at_a_start_ends_it_with_what_to_change() -> None:
    world, broker = world_of(), MemoryBroker()

    def fate(step: str) -> None:
        if step == "check":
            raise DeniedError("topic is not authorized", hint="Let the ACLs allow WRITE.")

    with pytest.raises(TransientError, match="not authorized") as caught:
        Service(world.context(sinks=sink_of(world.plan, broker, fate))).run(until_end=True)
    assert caught.value.hint == "Let the ACLs allow WRITE."
    assert world.checkpoint.record is None


def test_a_sender_that_is_denied_before_it_has_sent_anything_ends_the_start() -> None:
    world, broker = world_of(), MemoryBroker()

    def fate(step: str) -> None:
        if step == "before begin":
            raise DeniedError("the transactional id is not authorized", hint="Let the ACLs allow it.")

    with pytest.raises(TransientError, match="transactional id"):
        Service(world.context(sinks=sink_of(world.plan, broker, fate))).run(until_end=True)
