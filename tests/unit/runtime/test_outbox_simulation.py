"""Messages of a pipeline are in its topic once and in order, wherever processes die and whatever fails."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from rowtide.errors import StatementError
from rowtide.plan.plan import Plan
from rowtide.runtime.crashpoints import (
    OUTBOX_POINTS,
    POINTS,
    CrashAt,
    CrashPoints,
    NoCrash,
    SimulatedCrash,
    raise_crash,
)
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide_connectors.api import Guarantee
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.memory.broker import MemoryBroker
from support.outbox import alerts_plan, fails_sometimes, sent, sink_of
from support.runtime import World, fill
from support.seeds import seeds

PACE = Pace(100, 60, 100, None)


@dataclass
class Alerting:
    """A world whose pipeline writes to a topic of a broker."""

    seed: int
    cut: int | None = None
    plan: Plan = field(default_factory=alerts_plan)
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    guarantee: Guarantee = Guarantee.BY_COMMIT_NUMBER

    def __post_init__(self) -> None:
        topic = InMemoryTopic("readings", 3, None if self.cut is None else random.Random(self.cut))
        fill(topic, random.Random(self.seed))
        self.world = World(topic, plan=self.plan)

    def run(self, pace: Pace = PACE, fate: Callable[[str], None] = lambda _: None, **changes: Any) -> None:
        sinks = sink_of(self.plan, self.broker, fate, self.guarantee)
        Service(self.world.context(pace=pace, sinks=sinks, **changes)).run(until_end=True)

    def run_until_done(self, crash: Callable[[int], CrashPoints], **changes: Any) -> int:
        for attempt in range(80):
            try:
                self.run(crash_points=crash(attempt), **changes)
            except SimulatedCrash:
                continue
            return attempt
        raise AssertionError("no process got to the end")

    def is_settled(self) -> bool:
        (outbox,) = self.world.database.contents.outboxes.values()
        return not outbox.messages and outbox.state.sent == outbox.state.last


def expected(seed: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """What one process sends that commits once and never fails."""
    alerting = Alerting(seed)
    alerting.run(Pace(10**9, 10**9, None, None))
    found = sent(alerting.broker)
    assert len(found) > 200
    assert alerting.is_settled()
    return found


def test_messages_have_the_rows_keys_and_rowtimes_of_the_log() -> None:
    alerting = Alerting(1)
    alerting.run()
    log = alerting.world.database.contents.appended["LOG"]
    found = [(key, json.loads(value or b"")) for _, key, value in sent(alerting.broker)]
    assert found == [
        (None if sensor is None else str(sensor).encode(), {"sensor": sensor, "amount": amount})
        for sensor, amount in log
    ]
    assert all(time >= 57_000 for time, _, _ in sent(alerting.broker))


@pytest.mark.parametrize("point", [*OUTBOX_POINTS, *(each for each in POINTS if each.startswith("commit."))])
def test_dying_at_a_point_again_and_again_sends_each_message_once(point: str) -> None:
    wanted = expected(1)
    for count in (1, 2, 3):
        deaths: list[str] = []

        def die(at: str, deaths: list[str] = deaths) -> None:
            deaths.append(at)
            raise SimulatedCrash(at)

        def crash(attempt: int, count: int = count) -> CrashPoints:
            return CrashAt(point, count, die) if attempt < 5 else NoCrash()

        alerting = Alerting(1, cut=count)
        alerting.run_until_done(crash)
        assert sent(alerting.broker) == wanted
        assert alerting.is_settled()
        assert deaths or count > 1


class DiesAnywhere:
    """Dies at any point with a small probability."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def reach(self, point: str) -> None:
        if self._rng.random() < 0.05:
            raise SimulatedCrash(point)


@pytest.mark.parametrize("seed", seeds(8, few=3))
def test_dying_anywhere_with_a_broker_that_fails_sends_each_message_once(seed: int) -> None:
    rng = random.Random(seed)
    alerting = Alerting(seed, cut=seed)
    died = alerting.run_until_done(
        lambda n: DiesAnywhere(rng) if n < 30 else NoCrash(), fate=fails_sometimes(rng, 0.2)
    )
    assert died
    assert sent(alerting.broker) == expected(seed)


@pytest.mark.parametrize("step", ["begin", "commit", "committed", "read"])
def test_a_database_that_fails_sends_each_message_once(step: str) -> None:
    rng = random.Random(3)
    alerting = Alerting(3, cut=3)

    def fail_sometimes(name: str) -> None:
        if name == step and rng.random() < 0.3:
            raise UnavailableError("the connection is lost")

    alerting.world.database.before = fail_sometimes
    alerting.run()
    assert sent(alerting.broker) == expected(3)


def test_at_least_once_repeats_messages_and_loses_none() -> None:
    rng = random.Random(5)
    alerting = Alerting(5, cut=5, guarantee=Guarantee.AT_LEAST_ONCE)
    alerting.run_until_done(
        lambda n: DiesAnywhere(rng) if n < 30 else NoCrash(), fate=fails_sometimes(rng, 0.2)
    )
    found = sent(alerting.broker)
    assert len(found) > len(set(found))
    assert list(dict.fromkeys(found)) == list(dict.fromkeys(expected(5)))


def test_rows_that_cannot_be_written_are_error_rows_and_the_others_are_sent() -> None:
    alerting = Alerting(1, plan=alerts_plan(max_message_bytes="28"))
    alerting.run()
    short = [each for each in expected(1) if len(each[1] or b"") + len(each[2] or b"") <= 28]
    assert 0 < len(short) < len(expected(1))
    assert sent(alerting.broker) == short
    errors = [row for row in alerting.world.checkpoint.errors if row.relation == "ALERTS"]
    assert len(errors) == len(expected(1)) - len(short)
    assert errors[0].reason == "CONSTRAINT: its message has 29 bytes, and max_message_bytes is 28"
    assert errors[0].row is not None


def test_a_number_that_the_receiver_has_lost_ends_a_start_if_messages_are_in_doubt() -> None:
    alerting = Alerting(1)
    with pytest.raises(SimulatedCrash):
        alerting.run(crash_points=CrashAt("outbox.after_send", 1, raise_crash))
    in_doubt = len(sent(alerting.broker))
    alerting.broker.sent.clear()
    with pytest.raises(StatementError, match="no longer has the number of the last message sent") as caught:
        alerting.run()
    assert "lost_number 'resend'" in (caught.value.hint or "")
    assert len(sent(alerting.broker)) == in_doubt
    alerting.plan = alerting.world.plan = alerts_plan(lost_number="resend")
    alerting.run()
    assert list(dict.fromkeys(sent(alerting.broker))) == list(dict.fromkeys(expected(1)))
    assert len(sent(alerting.broker)) > len(expected(1))


def test_a_lost_number_does_not_matter_if_nothing_is_in_doubt() -> None:
    alerting = Alerting(1)
    alerting.run()
    alerting.broker.sent.clear()
    fill(alerting.world.topic, random.Random(9), 50)
    alerting.run()
    assert sent(alerting.broker)[: len(expected(1))] == expected(1)
    assert alerting.is_settled()


def test_a_database_that_is_older_than_the_messages_ends_a_start() -> None:
    alerting = Alerting(1)
    alerting.run()
    (sender,) = alerting.broker.sent
    alerting.broker.sent[sender] += 1
    with pytest.raises(StatementError, match="but the database has made only"):
        alerting.run()
