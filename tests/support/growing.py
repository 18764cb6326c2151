"""A pipeline on a real ledger and a broker in memory, whose topic grows, and processes that die anywhere."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from rowtide.checkpoint.ledger import Decision, StoredError
from rowtide.runtime.crashpoints import CrashPoints, NoCrash, SimulatedCrash
from rowtide.runtime.inspect.replay import Range, ReplayComparison, compare
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import Pipeline, open_pipeline
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.memory import memory_broker
from support.pipeline import process_of

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

    def __init__(
        self,
        folder: Path,
        rng: random.Random,
        jitter: Sequence[int] = (0, 0, 1_000, 4_000),
        sql: str = SQL,
    ) -> None:
        self.jitter = jitter
        self.file = folder / "sink.db"
        self.plan = plan_pipeline(sql.format(file=self.file))
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
            at = self.clock - self.rng.choice(self.jitter)
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
            Service(self.context(pipeline, crash_points, stopping, clock)).run()

    def compare(self) -> ReplayComparison:
        """Replay the log from its start, in one go, and compare."""
        with open_pipeline(self.plan, "p") as pipeline:
            return compare(self.context(pipeline, NoCrash(), lambda: False, VirtualClock()), Range())

    def decisions(self) -> list[Decision]:
        with open_pipeline(self.plan, "p") as pipeline:
            return list(pipeline.ledger.decisions())

    def errors(self) -> list[StoredError]:
        with open_pipeline(self.plan, "p") as pipeline:
            return list(pipeline.ledger.errors(limit=None))

    def resubmit(self, rows: Sequence[StoredError]) -> None:
        with open_pipeline(self.plan, "p") as pipeline:
            pipeline.ledger.resubmit(rows)

    def context(
        self,
        pipeline: Pipeline,
        crash_points: CrashPoints,
        stopping: Callable[[], bool],
        clock: VirtualClock,
    ) -> PipelineContext:
        return process_of(
            pipeline,
            Pace(0, 15, self.rng.choice((None, 1, 40)), None, snapshot_part_bytes=1),
            clock=clock,
            stopping=stopping,
            crash_points=crash_points,
            poll_messages=self.rng.choice((3, 10, 100)),
        )


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
