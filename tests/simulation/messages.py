"""The messages of a workload: ties, rows out of order, late ones, and some that cannot be decoded."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

from rowtide.plan.plan import Plan
from rowtide_connectors.memory.broker import MemoryBroker

PARTITIONS = 2
_SENSORS = 4
_HOLE, _BROKEN, _NULL = 0.05, 0.03, 0.02
"""How often an offset has no message, a message is not JSON, and a message has no value."""


def filled(plan: Plan, messages: int, ends: Mapping[tuple[str, int], int] | None = None) -> MemoryBroker:
    """Return a broker with the first messages of all topics of a plan.

    ``ends``: the logs end there. The messages before are the same.
    """
    rng = random.Random(len(plan.foreign_streams))
    broker = MemoryBroker()
    streams = [stream.name for stream in plan.foreign_streams]
    clocks = {(stream, partition): 60_000 for stream in streams for partition in range(PARTITIONS)}
    written = dict.fromkeys(clocks, 0)
    for stream in streams:
        broker.create_topic(stream, PARTITIONS)
    for number in range(messages):
        place = stream, partition = rng.choice(list(clocks))
        clocks[place] += rng.choice((0, 0, 500, 1_500, 8_000))
        draw = rng.random()
        value = (
            _change(rng, number, partition) if stream == "SENSORS" else _reading(rng, number, clocks[place])
        )
        written[place] += 1
        if ends is not None and written[place] > ends[place]:
            continue
        if draw < _HOLE:
            broker.hole(stream, partition=partition)
            continue
        if draw < _HOLE + _BROKEN:
            value = b"{broken"
        elif draw < _HOLE + _BROKEN + _NULL:
            value = None
        broker.produce(stream, [value], timestamps=[clocks[place]], partition=partition)
    return broker


def _reading(rng: random.Random, number: int, now: int) -> bytes | None:
    row = {
        "number": number,
        "at": now - rng.choice((0, 0, 0, 1_000, 2_500, 9_000)),
        "sensor": f"s{rng.randrange(_SENSORS)}",
        "amount": rng.randrange(100),
        "parts": json.dumps([f"p{part}" for part in range(rng.randrange(3))]),
    }
    return json.dumps(row).encode()


def _change(rng: random.Random, number: int, partition: int) -> bytes | None:
    """Return a change of a sensor; all changes of one sensor are in one partition."""
    sensor = f"s{partition + PARTITIONS * rng.randrange(_SENSORS // PARTITIONS)}"
    row = {"sensor": sensor, "amount": rng.randrange(100), "number": number}
    if rng.random() < 0.2:
        return json.dumps({"op": "d", "before": row, "after": None}).encode()
    if rng.random() < 0.2:
        row["amount"] = "__debezium_unavailable_value"
    return json.dumps({"op": "u", "before": None, "after": row}).encode()
