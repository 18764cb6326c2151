"""Topics whose broker stamps: a quiet partition follows the broker's clock, and every replay obeys."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rowtide.errors import StatementError
from rowtide.expr.tree import FieldRef
from rowtide.plan.nodes import BoundPolicy, Merge, Promote, Sort
from rowtide.plan.plan import Plan, Pump
from rowtide.rows.types import TIMESTAMP
from rowtide.runtime.configured import takes_append_times
from rowtide.runtime.ingest.append_times import AppendTimes, by_message_time
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.runtime import World, readings_plan


def plan_of(within_ms: int = 0) -> Plan:
    return readings_plan(within_ms)


def world_of(partitions: int = 2, *, append_times: bool = True) -> World:
    topic = InMemoryTopic("readings", partitions)
    topic.append_times = append_times
    return World(topic, plan=plan_of())


def append(world: World, partition: int, now: int) -> None:
    world.topic.add(partition, now, b'{"sensor":"s","amount":%d}' % now)


def run_for(world: World, seconds: float, happens: dict[float, tuple[int, int]], **changes: object) -> None:
    """Run for some seconds; at some of them a message is appended: partition and append time."""
    start = world.clock.seconds
    left = dict(sorted(happens.items()))

    def stopping() -> bool:
        for second in [second for second in left if world.clock.seconds - start >= second]:
            append(world, *left.pop(second))
        return world.clock.seconds - start >= seconds

    Service(world.context(stopping=stopping, pace=Pace(100, 1000, None, None), **changes)).run()


def logged(world: World) -> list[object]:
    return [row[1] for row in world.database.contents.appended.get("LOG", [])]


def test_a_quiet_partition_is_not_waited_for_longer_than_the_brokers_clock_needs() -> None:
    world = world_of()
    run_for(world, 10, {0: (0, 100_000), 1: (0, 101_000), 2: (0, 102_000)})
    # Behind the last message nothing has shown that time went on.
    assert logged(world) == [100_000, 101_000, 102_000]
    kinds = {(each.kind, each.partition, each.next_offset) for each in world.checkpoint.decisions}
    assert kinds == {("APPEND_TIME", 1, 0)}
    assert world.checkpoint.errors == []


def test_where_producers_stamp_the_quiet_partition_is_waited_for() -> None:
    world = world_of(append_times=False)
    run_for(world, 10, {0: (0, 100_000), 1: (0, 101_000), 2: (0, 102_000)})
    assert logged(world) == []
    assert world.checkpoint.decisions == []


def test_a_stream_may_refuse_the_brokers_clock() -> None:
    world = world_of()
    (stream,) = world.plan.foreign_streams
    off = replace(stream, options=(*stream.options, ("append_time", "off")))
    world.plan = replace(world.plan, foreign_streams=(off,))
    run_for(world, 10, {0: (0, 100_000), 1: (0, 101_000), 2: (0, 102_000)})
    assert logged(world) == []
    assert world.checkpoint.decisions == []
    with pytest.raises(StatementError, match='"maybe" is neither ON nor OFF'):
        takes_append_times(replace(stream, options=(("append_time", "maybe"),)))


def test_a_message_that_came_while_ends_were_looked_up_is_never_behind_what_they_prove() -> None:
    times = AppendTimes({"R": True})
    at = np.array([100], dtype=np.int64)
    times.note_arrival("R", at)
    times.look_up("R", {("R", 0): 1, ("R", 1): 0})
    # 100 may have been appended, and seen, after the end of partition 1 was looked up.
    assert times.decide({("R", 0): 1, ("R", 1): 0}, {}) == []
    times.look_up("R", {("R", 0): 1, ("R", 1): 0})
    (first, second) = times.decide({("R", 0): 1, ("R", 1): 0}, {})
    assert (first.bound, second.partition, second.bound) == (100, 1, 100)
    # One that lags behind its end, or says as much already, is left alone.
    assert times.decide({("R", 0): 0, ("R", 1): 0}, {("R", 1): 100}) == []


def test_who_stamps_is_asked_again_while_the_pipeline_runs() -> None:
    world = world_of()
    start = world.clock.seconds

    def append_at(second: float, partition: int, now: int, *, stamped_by_broker: bool) -> None:
        def turn() -> None:
            world.topic.append_times = stamped_by_broker
            append(world, partition, now)

        events[start + second] = turn

    events: dict[float, Callable[[], None]] = {}
    append_at(0, 0, 100_000, stamped_by_broker=True)
    append_at(3, 0, 103_000, stamped_by_broker=True)
    # Producers stamp now. One of them is behind the other, which promises nothing about it.
    append_at(6, 0, 106_000, stamped_by_broker=False)
    append_at(9, 0, 109_000, stamped_by_broker=False)
    append_at(12, 1, 107_000, stamped_by_broker=False)
    # The broker stamps again: the quiet partition follows.
    append_at(20, 0, 120_000, stamped_by_broker=True)
    append_at(30, 0, 130_000, stamped_by_broker=True)

    def stopping() -> bool:
        for second in [second for second in events if world.clock.seconds >= second]:
            events.pop(second)()
        return world.clock.seconds - start >= 45

    Service(world.context(stopping=stopping, pace=Pace(100, 1000, None, None))).run()
    assert world.checkpoint.errors == []
    assert logged(world) == [100_000, 103_000, 106_000, 107_000, 109_000, 120_000, 130_000]


def test_random_appends_and_restarts_lose_and_repeat_nothing_and_make_no_row_late() -> None:
    for seed in range(5):
        rng = random.Random(seed)
        world, now, appended = world_of(3), 100_000, []
        for _ in range(6):
            happens: dict[Any, Any] = {}
            for _ in range(rng.randrange(1, 8)):
                now += rng.choice((0, 1, 700))
                happens[rng.uniform(0, 4) if not happens else max(happens) + rng.uniform(0, 2)] = (
                    rng.randrange(3),
                    now,
                )
                appended.append(now)
            run_for(world, max(happens) + rng.choice((0.1, 5)), happens)
        assert world.checkpoint.errors == []
        given = logged(world)
        assert given == appended[: len(given)]
        assert len(given) >= len(appended) - 8


def test_a_stream_that_is_promoted_anywhere_has_another_clock() -> None:
    plan = plan_of()
    assert by_message_time(plan) == {"READINGS"}
    (sort,) = next(pump.node for pump in plan.pumps if isinstance(pump.node, Merge)).inputs
    assert isinstance(sort, Sort)
    promoted = Promote("V", sort.input, FieldRef(1, TIMESTAMP), BoundPolicy.PASS)
    more = Pump("P2", "LOG", Merge("V", (Sort("V", promoted, 0),)))
    assert by_message_time(replace(plan, pumps=(*plan.pumps, more))) == frozenset()
