"""Partitions without messages in a backfill: they follow under an idle time-out, else they are named.

On a stand-in for Spark, with the broker in memory and SQLite. What follows follows as in a live service.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from pipeline_kit import PipelineFiles
from rowtide.cli.backfill import _as_json, _shown
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import ForeignStream
from rowtide.runners.spark import frames
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.stage import RunDefinition
from rowtide.runtime.backfill.backfill import BackfillReport, MessageIntake, backfill
from rowtide.runtime.context import PipelineContext
from rowtide.runtime.live.pace import Pace
from rowtide.runtime.pipeline import Pipeline, open_pipeline
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.memory.source import MemorySource
from spark_stand_in import StandIn

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
CUT_MS = 2_000_000_000_000
LATER_S = 1_000_000.0
ERRORS = "(select kind, relation, reason, topic, partition, message_offset, rowtime, bound, raw from rowtide_errors)"
TABLES = ("named", "everything", "seconds", ERRORS)
TOPICS = {"CHANGES": ("users", 2), "CLICKS": ("clicks", 3), "ALARMS": ("alarms", 1)}
IDLE = ", idle_timeout '4 SECOND'"


class Files(PipelineFiles):
    """Clicks of three partitions, of which the last is silent; users that seldom change; no alarms."""

    def __init__(self, folder: Path, idle: str = IDLE) -> None:
        folder.mkdir()
        super().__init__(folder, SQL.format(idle=idle), '[service]\nlisten = "127.0.0.1:0"\n', name="idle")
        self.clock = VirtualClock()
        self.clicks = 0
        self._folder = folder
        for topic, partitions in TOPICS.values():
            self.broker.ensure_topic(topic, partitions)

    def produce(self, topic: str, behind_ms: int, text: str, partition: int = 0) -> None:
        now = self.clock.now_ms()
        value = f'{{"at":{now - behind_ms},{text}}}'
        self.broker.produce(topic, [value.encode()], partition=partition, timestamps=[now])

    def click(self, rng: random.Random) -> None:
        for partition in (0, 1):
            self.clicks += 1
            text = f'"id":{rng.randrange(4)},"n":{self.clicks}'
            self.produce("clicks", rng.choice((0, 500, 1_900, 9_000)), text, partition)

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
                        topic, [log.values[at]], partition=partition, timestamps=[log.timestamps[at]]
                    )
        self.clock.seconds = other.clock.seconds

    def live(self, seconds: float, happens: Callable[[], None] = lambda: None) -> None:
        """Run for a while of virtual time; something happens each second until the last two."""
        ends, due = self.clock.seconds + seconds, self.clock.seconds

        def stopping() -> bool:
            nonlocal due
            if due <= self.clock.seconds < ends - 2:
                happens()
                due = self.clock.seconds + 1
            return self.clock.seconds >= ends

        with open_pipeline(plan_pipeline(self.text, file=str(self.sql)), "idle") as pipeline:
            Service(self._context(pipeline, stopping)).run()

    def _context(self, pipeline: Pipeline, stopping: Callable[[], bool]) -> PipelineContext:
        return PipelineContext(
            name=pipeline.name,
            plan=pipeline.plan,
            sources=pipeline.sources,
            database=pipeline.database,
            ledger=pipeline.ledger,
            clock=self.clock,
            pace=Pace(100, 1000, None, None),
            stopping=stopping,
            rng=random.Random(1),
            threads=False,
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
                "headers": None,
            }
            for partition, log in self.broker.topic(topic).items()
            for offset, timestamp, value in zip(log.offsets, log.timestamps, log.values, strict=True)
            if begin[partition] <= offset < end[partition]
        ]
        kinds = {
            "topic": pa.string(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": pa.int64(),
            "key": pa.binary(),
            "value": pa.binary(),
            "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
        }
        return cast("DataFrame", session.createDataFrame(pa.Table.from_pylist(rows, pa.schema(kinds))))

    def backfill(self, parts: int, until_ms: int = CUT_MS) -> BackfillReport:
        """Fill the tables on a stand-in for Spark."""
        session = StandIn(parts)
        plan = plan_pipeline(self.text, file=str(self.sql))

        def read(
            _: ForeignStream, topics: str, begin: Mapping[int, int], end: Mapping[int, int]
        ) -> DataFrame:
            return self.frame(session, topics, begin, end)

        with open_pipeline(plan, "idle") as pipeline:
            context = self._context(pipeline, lambda: False)
            return backfill(context, session.as_session(), read, str(self._folder), until_ms)

    def contents(self) -> dict[str, list[str]]:
        return {name: sorted(map(repr, self.rows(name))) for name in TABLES}

    def positions(self) -> list[tuple[object, ...]]:
        """Return relation, partition, next offset and bound."""
        columns = "relation, partition, next_offset, bound"
        return sorted(self.rows(f"(select {columns} from rowtide_positions)"))


@pytest.fixture(autouse=True)
def _rows_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FEW_ROWS", 0)


@pytest.mark.parametrize("parts", [3, 7])
def test_what_follows_in_a_backfill_follows_as_in_a_live_service(tmp_path: Path, parts: int) -> None:
    live, filled = Files(tmp_path / "live"), Files(tmp_path / "filled")
    rng = random.Random(parts)
    live.produce("users", 60_000, '"id":1,"name":"ann"')
    live.live(60, lambda: live.click(rng))
    filled.copy(live)
    report = filled.backfill(parts)
    assert len(live.rows("named")) > 40
    assert len(live.rows("everything")) > 40
    assert filled.contents() == live.contents()
    assert filled.positions() == live.positions()
    named = {(each.relation, each.partition) for each in report.held_back}
    assert named <= {("CLICKS", 0), ("CLICKS", 1)}

    # Silent partitions wake, in time or late, the backfilled pipeline as the other one.
    def wakes() -> None:
        filled.click(rng)
        if rng.random() < 0.5:
            filled.produce("clicks", rng.choice((0, 1_000, 30_000)), '"id":1,"n":-1', 2)
            filled.produce("alarms", rng.choice((0, 30_000)), '"id":9')
            filled.produce("users", rng.choice((0, 30_000)), '"id":2,"name":"late"')

    before = len(filled.rows("named"))
    filled.live(30, wakes)
    assert len(filled.rows("named")) > before
    assert [row for row in filled.rows("rowtide_errors") if "ALARMS_TIMED" in row]
    assert "Equal" in filled.call("replay", "--compare")
    filled.call("state drop", "--snapshots", "--yes")
    assert "Equal" in filled.call("replay", "--compare")


def test_when_all_is_silent_long_since_streams_do_not_advance_each_other(tmp_path: Path) -> None:
    live, filled = Files(tmp_path / "live"), Files(tmp_path / "filled")
    live.click_on(random.Random(1), 60)
    live.clock.seconds += LATER_S
    filled.copy(live)
    live.live(20)
    with capture_logs() as logged:
        report = filled.backfill(3)
    segments = {each["segment"]: each["rows"] for each in logged if each["event"] == "backfill_segment"}
    assert {each.split(":")[0] for each in segments} == {f"segment {at + 1} of 9" for at in range(9)}
    (clicks,) = [rows for segment, rows in segments.items() if segment.endswith("Source CLICKS")]
    assert 60 < clicks <= 120
    assert live.rows("seconds")
    assert live.rows("named") == []
    assert filled.contents() == live.contents()
    assert filled.positions() == live.positions()
    assert "It follows the others when" in _shown(report)


def test_without_a_time_out_what_holds_back_is_named_and_goes_on_live(tmp_path: Path) -> None:
    live, filled = Files(tmp_path / "live", idle=""), Files(tmp_path / "filled", idle="")
    live.click_on(random.Random(1), 60)
    filled.copy(live)
    live.live(20)
    report = filled.backfill(3)
    assert filled.contents() == live.contents()
    assert filled.positions() == live.positions()
    assert filled.rows("seconds") == []
    (clicks,) = [each for each in report.held_back if each.relation == "CLICKS"]
    assert (clicks.topic, clicks.partition, clicks.bound, clicks.messages_left) == ("clicks", 2, None, False)
    # All clicks that are not late, and those that the t-sort has released.
    assert 60 <= clicks.rows <= 120
    shown = _shown(report)
    assert f'{clicks.rows} rows wait for partition 2 of topic "clicks" (CLICKS): it has no bound' in shown
    assert "declare idle_timeout on foreign stream CLICKS, such as idle_timeout '30 SECOND'" in shown
    assert {"relation", "partition", "rows"} <= set(_as_json(report)["held_back"][0])  # type: ignore[index]

    live.produce("clicks", 0, '"id":1,"n":-1', 2)
    live.produce("alarms", 0, '"id":9')
    live.produce("users", 0, '"id":2,"name":"bob"', 1)
    live.produce("users", 0, '"id":2,"name":"eve"', 0)
    filled.copy(live)
    for files in (live, filled):
        files.live(20)
    assert live.rows("everything")
    assert live.rows("named")
    assert live.rows("seconds")
    assert filled.contents() == live.contents()


def test_a_partition_with_messages_after_the_cut_is_not_silent(tmp_path: Path) -> None:
    files = Files(tmp_path / "filled")
    files.click_on(random.Random(1), 10)
    until = files.clock.now_ms() + 1
    files.clock.seconds += 60
    files.produce("clicks", 0, '"id":1,"n":-1', 2)
    files.clock.seconds += LATER_S
    report = files.backfill(3, until)
    (clicks,) = [each for each in report.held_back if each.relation == "CLICKS"]
    assert clicks.partition == 2
    assert "It has messages after the cut: `rowtide run` continues with them." in clicks.shown()


@pytest.mark.parametrize("parts", [3, 7])
def test_rows_that_wait_lie_in_files(tmp_path: Path, parts: int) -> None:
    files = Files(tmp_path / "filled", idle="")
    files.click_on(random.Random(1), 500)
    session = StandIn(parts)
    plan = plan_pipeline(files.text, file=str(files.sql))
    streams = {stream.name: stream for stream in plan.foreign_streams}
    run = SparkRun(
        session.as_session(),
        RunDefinition(table_nodes(plan), {name: range(count) for name, (_, count) in TOPICS.items()}),
        str(tmp_path),
        MessageIntake(streams),
    )
    run.read(
        {
            name: files.frame(
                session, topic, dict.fromkeys(range(count), 0), dict.fromkeys(range(count), 10_000)
            )
            for name, (topic, count) in TOPICS.items()
        }
    )
    held = [
        operator.held()
        for circuit in run._circuits.values()
        for operator in circuit.operators.values()
        if operator
    ]
    assert sum(held) < 20
    assert sum(rows for rows, _ in run.ahead().values()) > 700
    before = pa.total_allocated_bytes()
    state = run.state()
    tables = [table for step in state.values() for name, table in step.items() if name.startswith("queue")]
    assert sum(map(len, tables)) > 700
    assert pa.total_allocated_bytes() - before < 20_000
    # In memory it is the same.
    whole = run.flow()
    whole.check()
    for key, step in whole.snapshot().items():
        for name, table in step.items():
            assert table.equals(state[key][name].combine_chunks()), (key, name)


STAMPED = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{{file}}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{{file}}');
CREATE FOREIGN STREAM clicks (at TIMESTAMP, id INTEGER, n INTEGER)
  SERVER k OPTIONS (topic 'clicks', format 'JSON'{idle});
CREATE FOREIGN TABLE everything (at TIMESTAMP, id INTEGER, n INTEGER) SERVER d;
CREATE PUMP q STARTED AS INSERT INTO everything (at, id, n) SELECT STREAM ROWTIME, id, n FROM clicks;
"""


@pytest.mark.parametrize(("option", "comes"), [("", True), (", append_time 'OFF'", False)])
def test_where_the_broker_stamps_a_silent_partition_follows_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, comes: bool
) -> None:
    monkeypatch.setattr(MemorySource, "has_append_times", lambda _self: True)
    monkeypatch.setattr(f"{__name__}.SQL", STAMPED)
    live, filled = Files(tmp_path / "live", option), Files(tmp_path / "filled", option)
    live.click_on(random.Random(1), 60)
    # The latest message is no row, but shows the time.
    live.clock.sleep(1)
    live.broker.produce("clicks", [b"{"], partition=1, timestamps=[live.clock.now_ms()])
    filled.copy(live)
    live.live(20)
    report = filled.backfill(3)
    assert bool(live.rows("everything")) is comes
    assert len(live.rows("everything")) == (120 if comes else 0)
    for query in ("everything", ERRORS):
        assert sorted(map(repr, filled.rows(query))) == sorted(map(repr, live.rows(query)))
    assert filled.positions() == live.positions()
    decided = "(select distinct kind, partition, next_offset, bound from rowtide_decisions)"
    assert set(filled.rows(decided)) <= set(live.rows(decided))
    assert bool(filled.rows(decided)) is comes
    assert bool(report.held_back) is not comes
    assert "Equal" in filled.call("replay", "--compare")
    filled.call("state drop", "--snapshots", "--yes")
    assert "Equal" in filled.call("replay", "--compare")
