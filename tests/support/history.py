"""A pipeline with history: topics of the broker in memory, tables in SQLite, and a stand-in for Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest

from rowtide.checkpoint.ledger import Pulse
from rowtide.checkpoint.parts.store import PartStore
from rowtide.cli.run.run import statements_of
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.runners.spark import frames, together
from rowtide.runners.spark.shuffle.exchange import Exchange, TaskFunction
from rowtide.runners.spark.shuffle.held import StageBlocks, StageGiven
from rowtide.runtime.backfill.archived import splice
from rowtide.runtime.backfill.backfill import BackfillReport, Tell, backfill
from rowtide.runtime.backfill.begin import BackfillOrder, committed
from rowtide.runtime.backfill.messages import FrameReader
from rowtide.runtime.backfill.slice_work import OnSpark
from rowtide.runtime.batches.loop import BatchPace
from rowtide.runtime.batches.running import RunBatches
from rowtide.runtime.crashpoints import CrashPoints, NoCrash
from rowtide.runtime.ingest.intake import BOUND_HEADER
from rowtide.runtime.leadership.watch import USUAL, LeaderWatch
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import Pipeline, open_pipeline
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.virtual_clock import VirtualClock
from support.archive import MESSAGES, StandInArchive
from support.pipeline import PipelineFiles, process_of
from support.spark_stand_in import StandIn
from support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{{file}}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{{file}}');
CREATE FOREIGN STREAM changes (at TIMESTAMP, id INTEGER NOT NULL, name VARCHAR(20))
  SERVER k OPTIONS (topic 'users', format 'JSON'{idle});
CREATE VIEW changes_timed AS SELECT STREAM at AS ROWTIME, id, name FROM changes;
CREATE TABLE users (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20));
CREATE PUMP fill STARTED AS INSERT INTO users (ROWTIME, id, name)
  SELECT STREAM ROWTIME, id, name FROM changes_timed;
CREATE FOREIGN STREAM clicks (at TIMESTAMP, id INTEGER, n INTEGER)
  SERVER k OPTIONS (topic 'clicks', format 'JSON'{idle});
CREATE VIEW clicks_timed AS SELECT STREAM at AS ROWTIME, id, n FROM clicks
  ORDER BY at WITHIN INTERVAL '2' SECOND;
CREATE FOREIGN STREAM alarms (at TIMESTAMP, id INTEGER)
  SERVER k OPTIONS (topic 'alarms', format 'JSON'{idle});
CREATE VIEW alarms_timed AS SELECT STREAM at AS ROWTIME, id FROM alarms;
CREATE FOREIGN TABLE named (at TIMESTAMP, n INTEGER, name VARCHAR(20)) SERVER d;
CREATE FOREIGN TABLE everything (at TIMESTAMP, id INTEGER, n INTEGER) SERVER d;
CREATE FOREIGN TABLE seconds (at TIMESTAMP, id INTEGER, n BIGINT, PRIMARY KEY (at, id)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO named (at, n, name)
  SELECT STREAM c.ROWTIME, c.n, u.name FROM clicks_timed c LEFT JOIN users u ON c.id = u.id;
CREATE PUMP q STARTED AS INSERT INTO everything (at, id, n)
  SELECT STREAM ROWTIME, id, n FROM clicks_timed UNION ALL SELECT STREAM ROWTIME, id, -1 FROM alarms_timed;
CREATE PUMP r STARTED AS INSERT INTO seconds (at, id, n)
  SELECT STREAM FLOOR(c.ROWTIME TO SECOND) AS at, id, COUNT(*) AS n FROM clicks_timed AS c
  GROUP BY FLOOR(c.ROWTIME TO SECOND), id;
"""
STAMPED = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{{file}}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{{file}}');
CREATE FOREIGN STREAM clicks (at TIMESTAMP, id INTEGER, n INTEGER)
  SERVER k OPTIONS (topic 'clicks', format 'JSON'{idle});
CREATE FOREIGN TABLE everything (at TIMESTAMP, id INTEGER, n INTEGER) SERVER d;
CREATE PUMP q STARTED AS INSERT INTO everything (at, id, n) SELECT STREAM ROWTIME, id, n FROM clicks;
"""
"""Clicks whose ROWTIME is the timestamp of their message."""
CUT_MS = 2_000_000_000_000
LATER_S = 1_000_000.0
ERRORS = "(select kind, relation, reason, topic, partition, message_offset, rowtime, bound, raw from rowtide_errors)"
_SIGNS = "(select epoch, commits, coalesce(beats, 0) from rowtide_pipelines)"
TABLES = ("named", "everything", "seconds", ERRORS)
TOPICS = {"CHANGES": ("users", 2), "CLICKS": ("clicks", 3), "ALARMS": ("alarms", 1)}
TO_THE_END = BackfillOrder(CUT_MS)
EACH_SECOND = BatchPace(1.0)
IDLE = ", idle_timeout '4 SECOND'"


@cache
def planned(text: str, file: str) -> Plan:
    """Return the plan of a pipeline file: many processes run it one after the other."""
    return plan_pipeline(text, file=file)


class Files(PipelineFiles):
    """Clicks of three partitions, of which the last is silent; users that seldom change; no alarms."""

    def __init__(self, folder: Path, idle: str = IDLE) -> None:
        folder.mkdir()
        super().__init__(folder, SQL.format(idle=idle), '[service]\nlisten = "127.0.0.1:0"\n', name="idle")
        self.clock = VirtualClock()
        self.parts: PartStore | None = None
        """Where a backfill keeps state in parts."""
        self.clicks = 0
        self._folder = folder
        for topic, partitions in TOPICS.values():
            self.broker.ensure_topic(topic, partitions)

    def produce(self, topic: str, behind_ms: int, text: str, partition: int = 0) -> None:
        now = self.clock.now_ms()
        value = f'{{"at":{now - behind_ms},{text}}}'
        self.broker.produce(topic, [value.encode()], partition=partition, timestamps=[now])

    def promise(self, topic: str, behind_ms: int, partition: int = 0) -> None:
        """Write a bound record."""
        now = self.clock.now_ms()
        header = (BOUND_HEADER, str(now - behind_ms).encode())
        self.broker.produce(topic, [None], partition=partition, timestamps=[now], headers=[[header]])

    def click(self, rng: random.Random) -> None:
        for partition in (0, 1):
            self.clicks += 1
            text = f'"id":{rng.randrange(4)},"n":{self.clicks}'
            self.produce("clicks", rng.choice((0, 500, 1_900, 9_000)), text, partition)

    def happen(self, rng: random.Random) -> None:
        """Let clicks, users and alarms come, some late and some that are no JSON."""
        self.click(rng)
        if rng.random() < 0.4:
            self.produce(
                "users", rng.choice((0, 500)), f'"id":{rng.randrange(4)},"name":"u"', rng.randrange(2)
            )
            self.produce("clicks", rng.choice((0, 1_000, 20_000)), '"id":1,"n":-1', 2)
            self.produce("alarms", rng.choice((0, 30_000)), '"id":9')
        if rng.random() < 0.1:
            self.broker.produce("clicks", [b"{"], partition=1, timestamps=[self.clock.now_ms()])

    def click_on(self, rng: random.Random, seconds: int) -> None:
        """Let clicks come for a while, although no one reads them."""
        self.produce("users", 60_000, '"id":1,"name":"ann"')
        for _ in range(seconds):
            self.clock.sleep(1)
            self.click(rng)

    def copy(self, other: Files) -> None:
        """Take over the topics of another one, and the time."""
        for topic, partitions in TOPICS.values():
            for partition in range(partitions):
                mine, log = (each.broker.topic(topic)[partition] for each in (self, other))
                for at in range(mine.end, log.end):
                    self.broker.produce(
                        topic,
                        [log.values[at]],
                        partition=partition,
                        timestamps=[log.timestamps[at]],
                        headers=[log.headers[at]],
                    )
        self.clock.seconds = other.clock.seconds

    def live(self, seconds: float, happens: Callable[[], None] = lambda: None) -> None:
        """Run for a while of virtual time; something happens each second until the last two."""
        with open_pipeline(planned(self.text, str(self.sql)), "idle") as pipeline:
            context = self._context(pipeline, self._stopping(seconds, happens))
            Service(replace(context, statements=statements_of(self.sql))).run()

    def _stopping(self, seconds: float, happens: Callable[[], None]) -> Callable[[], bool]:
        ends, due = self.clock.seconds + seconds, self.clock.seconds

        def stopping() -> bool:
            nonlocal due
            if due <= self.clock.seconds < ends - 2:
                happens()
                due = self.clock.seconds + 1
            return self.clock.seconds >= ends

        return stopping

    def batches(
        self,
        parts: int,
        seconds: float,
        happens: Callable[[], None] = lambda: None,
        pace: BatchPace = EACH_SECOND,
        crash_points: CrashPoints | None = None,
        *,
        until_end: bool = False,
        snapshot_rows: int | None = 25,
    ) -> None:
        """Run on a stand-in for Spark for a while of virtual time; something happens each second until the last two."""
        session = StandIn(parts)
        with open_pipeline(planned(self.text, str(self.sql)), "idle") as pipeline:
            context = self._context(pipeline, self._stopping(seconds, happens), crash_points)
            spark = OnSpark(session.as_session(), self._reader(session), str(self._folder), in_order=False)
            context = replace(context, pace=Pace(100, 1000, snapshot_rows, None))
            Service(context, RunBatches(spark, pace)).run(until_end=until_end)

    def _reader(self, session: StandIn) -> FrameReader:
        def read(
            _: ForeignStream, topics: str, begin: Mapping[int, int], end: Mapping[int, int]
        ) -> DataFrame:
            return self.frame(session, topics, begin, end)

        return read

    def _context(
        self, pipeline: Pipeline, stopping: Callable[[], bool], crash_points: CrashPoints | None = None
    ) -> PipelineContext:
        return process_of(
            pipeline,
            Pace(100, 1000, None, None),
            clock=self.clock,
            stopping=stopping,
            crash_points=crash_points or NoCrash(),
            parts=self.parts,
        )

    def frame(
        self, session: StandIn, topic: str, begin: Mapping[int, int], end: Mapping[int, int]
    ) -> DataFrame:
        rows = [
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": timestamp,
                "key": None,
                "value": value,
                "headers": None
                if headers is None
                else [{"key": key, "value": text} for key, text in headers],
            }
            for partition, log in self.broker.topic(topic).items()
            for offset, timestamp, value, headers in zip(
                log.offsets, log.timestamps, log.values, log.headers, strict=True
            )
            if partition in end and begin[partition] <= offset < end[partition]
        ]
        return cast("DataFrame", session.createDataFrame(pa.Table.from_pylist(rows, MESSAGES)))

    def backfill(
        self,
        parts: int,
        order: BackfillOrder = TO_THE_END,
        crash_points: CrashPoints | None = None,
        tell: Tell = lambda _report, _progress: None,
        archive: Path | None = None,
    ) -> BackfillReport:
        """Fill the tables on a stand-in for Spark; the oldest messages from an archive, if there is one."""
        session = StandIn(parts)
        with open_pipeline(planned(self.text, str(self.sql)), "idle") as pipeline:
            context = self._context(pipeline, lambda: False, crash_points)
            frames = self._reader(session)
            if archive is not None:
                spliced = splice(
                    context, frames, StandInArchive(session, archive), order, committed(context, order)
                )
                context, frames = spliced.context, spliced.frames
            return backfill(context, session.as_session(), frames, str(self._folder), order, tell)

    def work_long(self, patch: pytest.MonkeyPatch) -> list[Pulse]:
        """Let the first few rows that the driver processes itself take far longer than a take-over.

        Returns a list, into which the signs of life come that a replica has seen meanwhile.
        """
        run_here, ends = Exchange.run_here, 0.0
        seen: list[Pulse] = []

        def works() -> None:
            watch = LeaderWatch(USUAL)
            watch.begin(self.clock.seconds)
            while self.clock.seconds < ends:
                before = self.rows(_SIGNS)
                self.clock.seconds += USUAL.beat_s
                wait_until(lambda: self.rows(_SIGNS) != before)  # noqa: B023 - it is called at once
                seen.append(self.pulse())
                watch.see(seen[-1], self.clock.seconds)
                assert not watch.is_leaderless()

        def slow(exchange: Exchange, blocks: StageBlocks, work: TaskFunction) -> StageGiven | None:
            nonlocal ends
            if not seen:
                ends = self.clock.seconds + 3 * USUAL.takeover_s
                works()
            return run_here(exchange, blocks, work)

        patch.setattr(frames, "FEW_ROWS", 20_000)
        patch.setattr(together, "WAITING_S", 0.001)
        patch.setattr(Exchange, "run_here", slow)
        return seen

    def contents(self) -> dict[str, list[str]]:
        return {name: sorted(map(repr, self.rows(name))) for name in TABLES}

    def positions(self) -> list[tuple[object, ...]]:
        """Return relation, partition, next offset and bound."""
        columns = "relation, partition, next_offset, bound"
        return sorted(self.rows(f"(select {columns} from rowtide_positions)"))

    def accounts(self) -> list[tuple[object, ...]]:
        """Return what has become of all messages and rows (law 4)."""
        columns = "part, relation, rows_in, done, filtered, late, rejected, held, rows_out"
        return sorted(self.rows(f"(select {columns} from rowtide_accounts)"))

    def pulse(self) -> Pulse:
        """Return the last sign of life of the process that has the pipeline."""
        with open_pipeline(planned(self.text, str(self.sql)), "idle") as pipeline:
            found = pipeline.ledger.leadership().pulse()
        assert found is not None
        return found
