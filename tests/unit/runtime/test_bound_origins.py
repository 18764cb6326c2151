"""What has given the bound of each partition: the same before and after a restart, by replay and by snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rowtide.runtime.ingest.bound_origins import BoundOrigin
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.runtime import World, readings_plan

Origins = list[BoundOrigin | None]
BY_REPLAY, BY_SNAPSHOT = Pace(100, 60, None, None), Pace(100, 60, 1, None)


def add(world: World, partition: int, *timestamps: int) -> None:
    for timestamp in timestamps:
        world.topic.add(partition, timestamp, b'{"sensor":"s","amount":%d}' % timestamp)


def add_bound(world: World, partition: int, bound: int) -> None:
    world.topic.add(partition, 100_000, None, rowtide_bound=str(bound).encode())


def run(world: World, seconds: float, pace: Pace) -> Origins:
    """Run for some seconds, and return what has given the bound of each partition."""
    end = world.clock.seconds + seconds
    service = Service(world.context(stopping=lambda: world.clock.seconds >= end, pace=pace))
    service.run()
    found, record = service.board.status().positions, world.checkpoint.record
    assert record is not None
    assert [each.bound for each in found] == [each.bound for each in record.partition_positions]
    return [each.bound_from for each in found]


def of_rows_and_records(world: World, run_for: Callable[[float], Origins]) -> Origins:
    add(world, 0, 100_000)
    add_bound(world, 1, 103_000)
    return run_for(2)


def of_an_idle_partition(world: World, run_for: Callable[[float], Origins]) -> Origins:
    (stream,) = world.plan.foreign_streams
    idle = replace(stream, options=(*stream.options, ("idle_timeout", "30 SECOND")))
    world.plan = replace(world.plan, foreign_streams=(idle,))
    add(world, 0, 100_000)
    add_bound(world, 1, 101_000)
    add(world, 2, 109_000)
    add(world, 0, 110_000)
    assert run_for(10) == ["row", "bound", "row"]
    return run_for(45)


def of_the_clock_of_the_broker(world: World, run_for: Callable[[float], Origins]) -> Origins:
    world.topic.append_times = True
    world.plan = readings_plan(within_ms=0)
    add(world, 0, 100_000, 101_000)
    add_bound(world, 2, 102_000)
    return run_for(10)


def of_a_partition_that_joins(world: World, run_for: Callable[[float], Origins]) -> Origins:
    add(world, 0, 100_000)
    add(world, 1, 104_000)
    add(world, 2, 104_000)
    run_for(2)
    world.topic.broker.add_partitions("readings", 4)
    return run_for(10)


@pytest.mark.parametrize("pace", [BY_REPLAY, BY_SNAPSHOT], ids=["replay", "snapshot"])
@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        (of_rows_and_records, ["row", "bound", None]),
        (of_an_idle_partition, ["row", "idle", "idle"]),
        (of_the_clock_of_the_broker, ["row", "decision", "bound"]),
        (of_a_partition_that_joins, ["row", "row", "row", "decision"]),
    ],
    ids=lambda each: each.__name__ if callable(each) else None,
)
def test_the_origin_of_a_bound_is_known_now_and_after_every_restart(
    happens: Callable[[World, Callable[[float], Origins]], Origins], expected: Origins, pace: Pace
) -> None:
    world = World(InMemoryTopic("readings", 3))
    assert happens(world, lambda seconds: run(world, seconds, pace)) == expected
    assert run(world, 0.5, pace) == expected
    # What comes later from a partition itself gives its bound from then on. Half a second decides nothing.
    last = len(expected) - 1
    add(world, last, 150_000)
    assert run(world, 0.5, pace) == [*expected[:last], "row"]
    add_bound(world, last, 160_000)
    assert run(world, 0.5, pace) == [*expected[:last], "bound"]


def test_before_this_process_runs_the_pipeline_it_is_not_known() -> None:
    world = World(InMemoryTopic("readings", 1))
    add(world, 0, 100_000)
    run(world, 1, BY_REPLAY)
    service = Service(world.context())
    assert world.checkpoint.record is not None
    service.board.begins_at(world.checkpoint.record)
    assert [(each.bound, each.bound_from) for each in service.board.status().positions] == [(98_000, None)]
