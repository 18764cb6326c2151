"""Streams that are idle follow those that they meet: in a service that dies at random, and its replay."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from rowtide.metrics import Metrics
from rowtide.runtime.crashpoints import CrashPoints, NoCrash, SimulatedCrash
from rowtide.runtime.live.observing import MetricsObserver
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.virtual_clock import VirtualClock
from support.pipeline import PipelineFiles, process_of
from support.seeds import seeds

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM changes (at TIMESTAMP, id INTEGER NOT NULL, name VARCHAR(20))
  SERVER k OPTIONS (topic 'users', format 'JSON', idle_timeout '4 SECOND');
CREATE VIEW changes_timed AS SELECT STREAM at AS ROWTIME, id, name FROM changes;
CREATE TABLE users (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(20));
CREATE PUMP fill STARTED AS INSERT INTO users (ROWTIME, id, name)
  SELECT STREAM ROWTIME, id, name FROM changes_timed;
CREATE FOREIGN STREAM clicks (at TIMESTAMP, id INTEGER, n INTEGER)
  SERVER k OPTIONS (topic 'clicks', format 'JSON');
CREATE VIEW clicks_timed AS SELECT STREAM at AS ROWTIME, id, n FROM clicks
  ORDER BY at WITHIN INTERVAL '2' SECOND;
CREATE FOREIGN STREAM alarms (at TIMESTAMP, id INTEGER)
  SERVER k OPTIONS (topic 'alarms', format 'JSON', idle_timeout '3 SECOND');
CREATE VIEW alarms_timed AS SELECT STREAM at AS ROWTIME, id FROM alarms;
CREATE FOREIGN TABLE named (at TIMESTAMP, n INTEGER, name VARCHAR(20)) SERVER d;
CREATE FOREIGN TABLE everything (at TIMESTAMP, id INTEGER, n INTEGER) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO named (at, n, name)
  SELECT STREAM c.ROWTIME, c.n, u.name FROM clicks_timed c LEFT JOIN users u ON c.id = u.id;
CREATE PUMP q STARTED AS INSERT INTO everything (at, id, n)
  SELECT STREAM ROWTIME, id, n FROM clicks_timed UNION ALL SELECT STREAM ROWTIME, id, -1 FROM alarms_timed;
"""
START_MS = 1_767_225_600_000


class Files(PipelineFiles):
    """Users that seldom change, alarms that are rare, and clicks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SQL, '[service]\nlisten = "127.0.0.1:0"\n', name="idle")
        self.plan = plan_pipeline(self.text, file=str(self.sql))
        self.clock = VirtualClock()
        self.at = START_MS
        self.clicks = 0
        self.metrics = Metrics()
        for topic, partitions in (("users", 2), ("clicks", 2), ("alarms", 1)):
            self.broker.ensure_topic(topic, partitions)

    def produce(self, topic: str, behind_ms: int, text: str, partition: int = 0) -> None:
        value = f'{{"at":{self.at - behind_ms},{text}}}'
        self.broker.produce(topic, [value.encode()], partition=partition, timestamps=[self.at])

    def click(self, rng: random.Random) -> None:
        self.at += rng.choice((200, 1_000, 1_500))
        for partition in (0, 1):
            self.clicks += 1
            text = f'"id":{rng.randrange(4)},"n":{self.clicks}'
            self.produce("clicks", rng.choice((0, 500, 1_900)), text, partition)

    def live(self, seconds: float, happens: Callable[[], None], pace: Pace, crash: CrashPoints) -> bool:
        """Run for a while of virtual time, something happening each second; tell whether it died."""
        ends, due = self.clock.seconds + seconds, self.clock.seconds

        def stopping() -> bool:
            nonlocal due
            if self.clock.seconds >= due:
                happens()
                due = self.clock.seconds + 1.0
            return self.clock.seconds >= ends

        with open_pipeline(self.plan, "idle") as pipeline:
            context = process_of(
                pipeline,
                pace,
                clock=self.clock,
                stopping=stopping,
                crash_points=crash,
                observer=MetricsObserver(self.metrics, self.clock, "test"),
            )
            try:
                Service(context).run()
            except SimulatedCrash:
                return True
        return False


class DiesAnywhere:
    """Dies at any point with a small probability."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def reach(self, point: str) -> None:
        if self._rng.random() < 0.002:
            raise SimulatedCrash(point)


def test_a_quiet_dimension_lets_its_join_go_on(tmp_path: Path) -> None:
    files = Files(tmp_path)
    rng = random.Random(2)
    files.produce("users", 60_000, '"id":1,"name":"ann"')
    assert not files.live(20, lambda: files.click(rng), Pace(100, 1000, None, None), NoCrash())
    assert len(files.rows("named")) > 20
    assert {name for _, _, name in files.rows("named")} == {None, "ann"}
    decided = files.rows("rowtide_decisions where kind = 'IDLE'")
    assert {row[3:5] for row in decided} == {("CHANGES", 0), ("CHANGES", 1), ("ALARMS", 0)}


def test_a_change_behind_the_bound_that_was_taken_takes_effect_and_is_counted(tmp_path: Path) -> None:
    files = Files(tmp_path)
    rng = random.Random(3)
    pace = Pace(100, 1000, None, None)
    files.produce("users", 60_000, '"id":1,"name":"ann"')
    files.live(12, lambda: files.click(rng), pace, NoCrash())
    for user in range(4):
        files.produce("users", 10_000, f'"id":{user},"name":"late"')
    files.live(12, lambda: files.click(rng), pace, NoCrash())
    assert files.rows("rowtide_errors") == []
    named = sorted(files.rows("named"))
    assert named[-1][2] == "late"
    # What came out before stays as it was.
    assert {name for _, _, name in named[:10]} == {None, "ann"}
    assert b'rowtide_rows_revived_total{relation="CHANGES"} 4.0' in generate_latest(files.metrics.registry)


@pytest.mark.parametrize("seed", seeds(3, few=1))
@pytest.mark.parametrize("snapshot_rows", [None, 10])
def test_whatever_dies_the_log_and_its_decisions_give_the_same_tables(
    tmp_path: Path, snapshot_rows: int | None, seed: int
) -> None:
    rng = random.Random(seed)
    files = Files(tmp_path)
    names = iter(range(1_000_000))

    def happens() -> None:
        files.click(rng)
        if rng.random() < 0.2:
            behind = rng.choice((0, 100, 3_000))
            text = f'"id":{rng.randrange(4)},"name":"u{next(names)}"'
            files.produce("users", behind, text, rng.randrange(2))
        if rng.random() < 0.3:
            files.produce("alarms", rng.choice((0, 0, 5_000)), '"id":9')

    deaths = 0
    for _ in range(22):
        pace = Pace(300, 5, snapshot_rows, None)
        deaths += files.live(rng.randrange(3, 14), happens, pace, DiesAnywhere(rng))
    assert not files.live(12, lambda: files.click(rng), Pace(300, 5, snapshot_rows, None), NoCrash())
    assert deaths
    named = files.rows("named")
    late = files.rows("rowtide_errors where kind = 'LATE'")
    assert len(named) > files.clicks * 0.8
    assert len({n for _, n, _ in named}) == len(named)
    assert len({name for _, _, name in named}) > 3
    assert late
    assert "Equal" in files.call("replay", "--compare")
    if snapshot_rows is not None:
        files.call("state drop", "--snapshots", "--yes")
        assert "Equal" in files.call("replay", "--compare")
