"""Sinks that fail on request, for tests of the outbox."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from rowtide.plan.plan import ForeignStream, Plan, Pump
from rowtide.runtime.state.topic_sinks import SinkOfStream
from rowtide_connectors.api import Guarantee, MessageSink, OutgoingMessage
from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.memory.broker import MemoryBroker
from rowtide_connectors.memory.sink import MemorySink
from support.runtime import READINGS, readings_plan

TOPIC = "alerts"
Fate = Callable[[str], None]
"""Called with a step of a sink; may raise."""


class FailingSink:
    """A sink of a broker in memory that fails before and after its steps when told to."""

    def __init__(self, sink: MessageSink, fate: Fate, guarantee: Guarantee) -> None:
        self._sink = sink
        self._fate = fate
        self._is_exact = guarantee is Guarantee.BY_COMMIT_NUMBER

    def check(self) -> None:
        self._fate("check")
        self._sink.check()

    def begin(self) -> int | None:
        self._fate("before begin")
        found = self._sink.begin()
        self._fate("after begin")
        return found if self._is_exact else None

    def send(self, messages: Sequence[OutgoingMessage], number: int) -> None:
        self._fate("before send")
        self._sink.send(messages, number)
        self._fate("after send")

    def close(self) -> None:
        self._sink.close()


def fails_sometimes(rng: random.Random, share: float) -> Fate:
    """Fail a share of all steps, before or after they are done."""

    def fate(step: str) -> None:
        if rng.random() < share:
            raise UnavailableError(f"the broker is down {step}")

    return fate


def alerts_plan(**options: str) -> Plan:
    """The plan of the kit, whose log is also written to a topic."""
    plan = readings_plan()
    given = {"topic": TOPIC, "format": "JSON", "key": "sensor"} | options
    alerts = ForeignStream("ALERTS", READINGS, "K", tuple(given.items()))
    pump = next(each for each in plan.pumps if each.target == "LOG")
    return replace(
        plan, written_streams=(alerts,), pumps=(*plan.pumps, Pump("P_ALERTS", "ALERTS", pump.node))
    )


def latest_plan(**options: str) -> Plan:
    """The plan of the kit, whose table of latest readings is also written to a topic of upserts."""
    plan = readings_plan()
    given = {"topic": TOPIC, "format": "JSON", "key": "sensor", "changes": "upsert"} | options
    latest = ForeignStream("UPSERTS", READINGS, "K", tuple(given.items()))
    pump = next(each for each in plan.pumps if each.target == "LATEST")
    return replace(
        plan, written_streams=(latest,), pumps=(*plan.pumps, Pump("P_UPSERTS", "UPSERTS", pump.node))
    )


def sink_of(
    plan: Plan,
    broker: MemoryBroker,
    fate: Fate = lambda _: None,
    guarantee: Guarantee = Guarantee.BY_COMMIT_NUMBER,
) -> dict[str, SinkOfStream]:
    """Return the sink of the plan's written stream on a broker in memory."""
    (stream,) = plan.written_streams
    broker.ensure_topic(TOPIC, 1)
    opener = SinkOfStream(
        stream, guarantee, lambda sender: FailingSink(MemorySink(broker, TOPIC, sender), fate, guarantee)
    )
    return {stream.name: opener}


def sent(broker: MemoryBroker) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return timestamp, key and value of every message of the topic."""
    log = broker.topic(TOPIC)[0]
    return list(zip(log.timestamps, log.keys, log.values, strict=True))
