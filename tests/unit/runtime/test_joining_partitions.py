"""Partitions that a topic gets later: they join behind the stream's bound, once and for all."""

import random
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rowtide.runtime.crashpoints import NoCrash, SimulatedCrash
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.growing import DiesAnywhere, Growing, Until
from support.runtime import World
from support.seeds import seeds


def add_partition(world: World) -> None:
    world.topic.broker.add_partitions("readings", len(world.topic.partitions) + 1)


def logged(world: World) -> list[object]:
    return [row[1] for row in world.database.contents.appended.get("LOG", [])]


def late(world: World) -> list[tuple[object, ...]]:
    return [(row.partition, row.offset, row.rowtime, row.bound) for row in world.checkpoint.errors]


def add(world: World, partition: int, *timestamps: int) -> None:
    for timestamp in timestamps:
        world.topic.add(partition, timestamp, b'{"sensor":"s","amount":%d}' % timestamp)


def run(world: World, **changes: object) -> None:
    Service(world.context(**changes)).run(until_end=True)


@pytest.fixture
def world() -> World:
    world = World(InMemoryTopic("readings", 2))
    add(world, 0, 100_000, 110_000)
    add(world, 1, 104_000)
    return world


@pytest.mark.parametrize("snapshot_rows", [None, 1])
def test_a_partition_that_has_come_while_the_service_was_down_joins_behind_the_streams_bound(
    world: World, snapshot_rows: int | None
) -> None:
    pace = Pace(100, 60, snapshot_rows, None)
    run(world, pace=pace)
    # Within is two seconds: partition 1 holds the stream at 102,000.
    add_partition(world)
    add(world, 2, 101_999, 102_000, 108_000)
    run(world, pace=pace)
    assert late(world) == [(2, 0, 101_999, 102_000)]
    (joined, judged) = world.checkpoint.decisions
    assert (joined.kind, joined.relation, joined.partition, joined.bound) == ("JOIN", "READINGS", 2, None)
    assert (judged.kind, judged.partition, judged.next_offset, judged.bound) == ("JOIN", 2, 0, 102_000)
    assert logged(world) == [100_000], "at 102,000 the partitions before it come first"
    # Every later start, by snapshot or by replay of the whole log, stands where this one stood.
    before = world.state()
    for pace in (Pace(100, 60, None, None), Pace(100, 60, 1, None)):
        run(world, pace=pace)
        assert world.state()[:3] == before[:3]
    add(world, 1, 120_000)
    add(world, 2, 119_000)
    run(world)
    assert logged(world) == [100_000, 102_000, 104_000]


def test_a_partition_that_comes_while_the_service_runs_joins_within_seconds(world: World) -> None:
    happened: list[float] = []

    def stopping() -> bool:
        if world.clock.seconds > 8 and not happened:
            happened.append(world.clock.seconds)
            add_partition(world)
            add(world, 2, 90_000, 103_000)
        return world.clock.seconds > 20

    with capture_logs() as logs:
        Service(world.context(stopping=stopping)).run()
    assert late(world) == [(2, 0, 90_000, 102_000)]
    joins = [log for log in logs if log["event"] == "partition_joins"]
    assert [(log["partition"], log["offset"], log["bound_ms"]) for log in joins] == [(2, 0, 102_000)]
    record = world.checkpoint.record
    assert record is not None
    assert [each.next_offset for each in record.partition_positions] == [2, 1, 2]


def test_where_the_stream_has_no_bound_yet_a_partition_joins_without_one() -> None:
    world = World(InMemoryTopic("readings", 2))
    add(world, 0, 100_000)
    run(world)
    add_partition(world)
    add(world, 2, 1_000, 50_000)
    run(world)
    assert {each.bound for each in world.checkpoint.decisions} == {None}
    assert late(world) == []
    add(world, 1, 200_000)
    run(world)
    assert logged(world) == [1_000]


def test_a_partition_that_brings_nothing_holds_the_stream_back(world: World) -> None:
    run(world)
    add_partition(world)
    add(world, 1, 190_000)
    add(world, 0, 190_000)
    run(world)
    assert logged(world) == [100_000]
    add(world, 2, 190_000)
    run(world)
    assert logged(world) == [100_000, 104_000, 110_000]


@pytest.mark.parametrize("seed", seeds(4, few=1))
def test_joining_again_and_again_while_dying_anywhere_gives_what_a_replay_gives(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    world = Growing(tmp_path, rng)
    died = 0
    for step in range(20):
        world.produce()
        if rng.random() < 0.1:
            world.grow()
        until = Until(world, rng.choice((0.5, 12.0)), rng.choice((None, None, 2.0, 4.0)))
        try:
            world.run(NoCrash() if step == 0 else DiesAnywhere(rng), until, until.clock)
        except SimulatedCrash:
            died += 1
    until = Until(world, 2.0)
    world.run(NoCrash(), until, until.clock)
    assert died
    assert len({each.reader for each in world.decisions()}) > 5, "each clock of the stream has its own bound"
    assert world.compare().count == 0
