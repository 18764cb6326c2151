"""Rows of a pipeline as requests: each reaches the receiver, in order, wherever processes die and whatever fails."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from rowtide.plan.plan import Plan
from rowtide.runtime.crashpoints import CrashPoints, NoCrash, SimulatedCrash
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.runtime.state.topic_sinks import SinkOfStream
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide_connectors.api import Guarantee
from support.http import Answer, Received, Receiver, receiving, rows_of
from support.outbox import alerts_plan
from support.runtime import World, fill

BATCH_ROWS = 7


class Ledger:
    """What an idempotent receiver does: it ignores rows up to the number that it has processed."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.rows: list[object] = []

    def take(self, request: Received) -> None:
        sender = request.headers["rowtide-sender"]
        for number, row in rows_of(request):
            processed = self.numbers.get(sender, 0)
            assert number <= processed + 1, "no row is left out"
            if number == processed + 1:
                self.numbers[sender] = number
                self.rows.append(row)


class DiesSometimes:
    def __init__(self, rng: random.Random, share: float) -> None:
        self._rng = rng
        self._share = share

    def reach(self, point: str) -> None:
        if point.startswith("outbox.") and self._rng.random() < self._share:
            raise SimulatedCrash(point)


def unkeyed() -> Plan:
    """Return the plan of the kit, whose log is written without keys."""
    plan = alerts_plan()
    (stream,) = plan.written_streams
    options = tuple((name, value) for name, value in stream.options if name not in ("key", "topic"))
    return replace(plan, written_streams=(replace(stream, options=options),))


def run(world: World, plan: Plan, receiver: Receiver, crash_points: CrashPoints) -> None:
    (stream,) = plan.written_streams
    opener = SinkOfStream(stream, Guarantee.AT_LEAST_ONCE, receiver.open)
    Service(
        world.context(sinks={stream.name: opener}, pace=Pace(100, 60, 100, None), crash_points=crash_points)
    ).run(until_end=True)


@pytest.mark.parametrize(("batch_rows", "fails"), [(1, 0.03), (BATCH_ROWS, 0.15)])
def test_an_idempotent_receiver_has_each_row_once(batch_rows: int, fails: float) -> None:
    rng = random.Random(batch_rows)
    topic = InMemoryTopic("readings", 3, random.Random(2))
    fill(topic, random.Random(1))
    plan = unkeyed()
    world = World(topic, plan=plan)
    ledger = Ledger()

    def answer(request: Received) -> Answer:
        if request.method == "HEAD":
            return Answer()
        fate = rng.random()
        if fate < fails:
            return Answer(rng.choice((429, 500, 503)))
        ledger.take(request)
        # Processed, but the sender does not learn it.
        return Answer(drops=fate > 1 - fails)

    died = 0
    with receiving() as receiver:
        receiver.options = {"batch_rows": str(batch_rows)}
        receiver.answer = answer
        for attempt in range(80):
            try:
                run(world, plan, receiver, DiesSometimes(rng, 0.1) if attempt < 60 else NoCrash())
            except SimulatedCrash:
                died += 1
                continue
            break
        repeated = sum(int(each.headers["rowtide-rows"]) for each in receiver.taken) - len(ledger.rows)
    log = world.database.contents.appended["LOG"]
    assert ledger.rows == [
        json.loads(json.dumps({"sensor": sensor, "amount": amount})) for sensor, amount in log
    ]
    assert len(ledger.rows) > 200
    assert died
    assert repeated > 0
    (outbox,) = world.database.contents.outboxes.values()
    assert not outbox.messages
