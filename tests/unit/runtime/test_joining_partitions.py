"""Partitions that a topic gets later: they join behind the stream's bound, once and for all."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rowtide.checkpoint.ledger import Decision
from rowtide.runtime.crashpoints import CrashPoints, NoCrash, SimulatedCrash
from rowtide.runtime.live import Pace
from rowtide.runtime.pipeline import Pipeline, open_pipeline
from rowtide.runtime.replay import Range, compare
from rowtide.runtime.service import Equipment, Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from runtime_kit import Topic, VirtualClock, World

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (number BIGINT, at TIMESTAMP, sensor VARCHAR(8))
  SERVER k OPTIONS (topic 'readings', partitions '2', format 'JSON');
CREATE FOREIGN STREAM others (number BIGINT) SERVER k OPTIONS (topic 'others', format 'JSON');
CREATE VIEW timed AS SELECT STREAM at AS ROWTIME, number, sensor FROM readings
  ORDER BY at WITHIN INTERVAL '5' SECOND;
CREATE FOREIGN TABLE minutes (period TIMESTAMP, sensor VARCHAR(8), n BIGINT, first BIGINT, last BIGINT)
  SERVER d;
CREATE FOREIGN TABLE direct (at TIMESTAMP, number BIGINT) SERVER d;
CREATE FOREIGN TABLE both_kinds (at TIMESTAMP, number BIGINT) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO minutes
  SELECT STREAM FLOOR(ROWTIME TO MINUTE), sensor, COUNT(*), FIRST_VALUE(number), LAST_VALUE(number)
  FROM timed GROUP BY FLOOR(ROWTIME TO MINUTE), sensor;
CREATE PUMP p2 STARTED AS INSERT INTO direct SELECT STREAM ROWTIME AS at, number FROM readings;
CREATE PUMP p3 STARTED AS INSERT INTO both_kinds
  SELECT STREAM ROWTIME AS at, number FROM readings UNION ALL
  SELECT STREAM ROWTIME AS at, number FROM others UNION ALL
  SELECT STREAM ROWTIME AS at, number FROM readings;
"""


class DiesAnywhere:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def reach(self, point: str) -> None:
        if self._rng.random() < 0.01:
            raise SimulatedCrash(point)


class Growing:
    """Two streams that meet, in a real ledger; the topic of one gets partitions now and then."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.file = folder / "sink.db"
        self.plan = plan_pipeline(SQL.format(file=self.file))
        self.broker = memory_broker(str(self.file))
        for topic, partitions in (("readings", 2), ("others", 1)):
            self.broker.ensure_topic(topic, partitions)
        self.rng = rng
        self.clock = 1_000_000
        self.partitions = 2
        self.messages = 0

    def produce(self) -> None:
        """Add messages of a few seconds to all partitions."""
        for number in range(self.rng.randrange(10, 30)):
            self.clock += self.rng.choice((0, 0, 200, 1_500))
            at = self.clock - self.rng.choice((0, 0, 1_000, 4_000))
            value = b'{"number":%d,"at":%d,"sensor":"s%d"}' % (self.messages, at, number % 3)
            self.messages += 1
            topic, partition = "readings", self.rng.randrange(self.partitions)
            if self.rng.random() < 0.3:
                topic, partition = "others", 0
            self.broker.produce(topic, [value], timestamps=[self.clock], partition=partition)

    def grow(self) -> None:
        self.partitions += self.rng.randrange(1, 3)
        self.broker.add_partitions("readings", self.partitions)

    def run(self, crash_points: CrashPoints, stopping: Callable[[], bool], clock: VirtualClock) -> None:
        with open_pipeline(self.plan, "p") as pipeline:
            Service(self.equipment(pipeline, crash_points, stopping, clock)).run()

    def differences(self) -> int:
        """Count the rows that a replay of the log, from its start and in one go, gives otherwise."""
        with open_pipeline(self.plan, "p") as pipeline:
            return compare(self.equipment(pipeline, NoCrash(), lambda: False, VirtualClock()), Range()).count

    def decisions(self) -> list[Decision]:
        with open_pipeline(self.plan, "p") as pipeline:
            return list(pipeline.ledger.decisions())

    def equipment(
        self,
        pipeline: Pipeline,
        crash_points: CrashPoints,
        stopping: Callable[[], bool],
        clock: VirtualClock,
    ) -> Equipment:
        return Equipment(
            name="p",
            plan=pipeline.plan,
            sources=pipeline.sources,
            database=pipeline.database,
            ledger=pipeline.ledger,
            clock=clock,
            pace=Pace(0, 15, self.rng.choice((None, 1, 40)), None),
            stopping=stopping,
            threads=False,
            crash_points=crash_points,
            poll_messages=self.rng.choice((3, 10, 100)),
        )


def add_partition(world: World) -> None:
    world.topic.logs.append([])
    world.topic.earliest.append(0)


def logged(world: World) -> list[object]:
    return [row[1] for row in world.database.contents.appended.get("LOG", [])]


def late(world: World) -> list[tuple[object, ...]]:
    return [(row.partition, row.offset, row.rowtime, row.bound) for row in world.database.contents.errors]


def add(world: World, partition: int, *timestamps: int) -> None:
    for timestamp in timestamps:
        world.topic.add(partition, timestamp, b'{"sensor":"s","amount":%d}' % timestamp)


def run(world: World, **changes: object) -> None:
    Service(world.equipment(**changes)).run(until_end=True)


@pytest.fixture
def world() -> World:
    world = World(Topic("readings", 2))
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
    (joined, judged) = world.database.contents.decisions
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
    happened = []

    def stopping() -> bool:
        if world.clock.seconds > 8 and not happened:
            happened.append(world.clock.seconds)
            add_partition(world)
            add(world, 2, 90_000, 103_000)
        return world.clock.seconds > 20

    with capture_logs() as logs:
        Service(world.equipment(stopping=stopping)).run()
    assert late(world) == [(2, 0, 90_000, 102_000)]
    joins = [log for log in logs if log["event"] == "partition_joins"]
    assert [(log["partition"], log["offset"], log["bound_ms"]) for log in joins] == [(2, 0, 102_000)]
    record = world.database.contents.record
    assert record is not None
    assert [each.next_offset for each in record.standings] == [2, 1, 2]


def test_where_the_stream_has_no_bound_yet_a_partition_joins_without_one() -> None:
    world = World(Topic("readings", 2))
    add(world, 0, 100_000)
    run(world)
    add_partition(world)
    add(world, 2, 1_000, 50_000)
    run(world)
    assert {each.bound for each in world.database.contents.decisions} == {None}
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


class Until:
    """Tells to stop after some seconds; lets the topic grow on the way."""

    def __init__(self, world: Growing, seconds: float, grows_at: float | None = None) -> None:
        self.clock = VirtualClock()
        self._world = world
        self._seconds = seconds
        self._grows_at = grows_at

    def __call__(self) -> bool:
        if self._grows_at is not None and self.clock.seconds > self._grows_at:
            self._grows_at = None
            self._world.grow()
            self._world.produce()
        return self.clock.seconds > self._seconds


@pytest.mark.parametrize("seed", range(4))
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
    assert world.differences() == 0
