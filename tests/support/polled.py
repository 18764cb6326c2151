"""A table of a database that changes, a stream that is joined with it, and processes that die anywhere."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rowtide.plan.plan import Plan
from rowtide.runtime.crashpoints import CrashPoints, NoCrash, SimulatedCrash
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import Pipeline, open_pipeline
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.memory import memory_broker
from support.pipeline import process_of

INTERVAL_MS = 10_000

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{folder}');
CREATE SERVER crm FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{folder}/crm.db');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{folder}/out.db');
CREATE TABLE users (id INTEGER PRIMARY KEY, name VARCHAR(9), credit DECIMAL(9, 2))
  SERVER crm OPTIONS (table_name 'people', {options});
CREATE FOREIGN STREAM clicks (n INTEGER, who INTEGER) SERVER k OPTIONS (topic 'clicks', format 'JSON');
CREATE FOREIGN TABLE users_now (id INTEGER PRIMARY KEY, name VARCHAR(9), credit DECIMAL(9, 2)) SERVER d;
CREATE FOREIGN TABLE named (n INTEGER, who INTEGER, name VARCHAR(9)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO users_now SELECT * FROM users;
CREATE PUMP p2 STARTED AS INSERT INTO named
  SELECT STREAM c.n, c.who, u.name FROM clicks AS c LEFT JOIN users AS u ON c.who = u.id;
"""
COMPARED = "poll_interval '10 SECOND'"
BY_TIME = "poll_interval '10 SECOND', changes_by 'updated_at', compare_interval '25 SECOND'"
BY_NUMBER = "poll_interval '10 SECOND', changes_by 'version', lookback '3', compare_interval '25 SECOND'"


class DiesAnywhere:
    """Dies at any point with a small probability."""

    def __init__(self, rng: random.Random, probability: float = 0.03) -> None:
        self._rng = rng
        self._probability = probability

    def reach(self, point: str) -> None:
        if self._rng.random() < self._probability:
            raise SimulatedCrash(point)


@dataclass
class PolledWorld:
    """What outlives a process: the two databases, the broker, and time."""

    folder: Path
    rng: random.Random
    options: str = COMPARED
    sql: str = SQL
    snapshot_rows: int | None = None
    clock: VirtualClock = field(default_factory=VirtualClock)
    clicks: list[tuple[int, int, int]] = field(default_factory=list)
    """Number, user and rowtime."""
    log: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """Every record of the log that was ever seen."""
    deaths: int = 0
    version: int = 0

    def __post_init__(self) -> None:
        memory_broker(str(self.folder)).ensure_topic("clicks", 1)
        self.at_source(
            "create table people (id integer primary key, name varchar(9), credit decimal(9, 2),"
            " updated_at timestamp, version integer)"
        )

    @cached_property
    def plan(self) -> Plan:
        return plan_pipeline(self.sql.format(folder=self.folder, options=self.options))

    def at_source(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.folder / "crm.db")) as connection, connection:
            connection.execute(statement, values)

    def source(self, text: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "crm.db")) as connection:
            return connection.execute(text).fetchall()

    def sink(self, text: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "out.db")) as connection:
            return connection.execute(text).fetchall()

    def change(self, *, clicks: bool = True) -> None:
        """Insert, update or delete a row, and perhaps click."""
        rng, self.version = self.rng, self.version + 1
        id_, draw = rng.randrange(12), rng.random()
        if draw < 0.2:
            self.at_source("delete from people where id = ?", id_)
        elif draw < 0.8:
            # Several changes within one second: ties of the column that orders them.
            second = self.clock.now_ms() // 1000
            self.at_source(
                "insert or replace into people values (?, ?, ?, datetime(?, 'unixepoch'), ?)",
                id_,
                f"n{rng.randrange(99)}",
                rng.randrange(1000) / 4,
                second,
                self.version,
            )
        if clicks and rng.random() < 0.7:
            self.click(self.clock.now_ms() + rng.choice((0, 1, 500)))

    def click(self, at: int) -> None:
        at = max(at, self.clicks[-1][2] if self.clicks else 0)
        number, who = len(self.clicks), self.rng.randrange(12)
        self.clicks.append((number, who, at))
        memory_broker(str(self.folder)).produce(
            "clicks", [json.dumps({"n": number, "who": who}).encode()], timestamps=[at]
        )

    def context(self, pipeline: Pipeline, crash_points: CrashPoints, **changes: Any) -> PipelineContext:
        given: dict[str, Any] = {
            "clock": self.clock,
            "pace": Pace(0, 10, self.snapshot_rows, None),
            "crash_points": crash_points,
            "poll_messages": 7,
        }
        return process_of(pipeline, **(given | changes))

    def run(self, crash_points: CrashPoints | None = None) -> None:
        """Run to the ends; dies at crash points."""
        try:
            with open_pipeline(self.plan, "p") as pipeline:
                Service(self.context(pipeline, crash_points or NoCrash())).run(until_end=True)
        finally:
            self.look_at_log()

    def run_until_done(self, crash_points: CrashPoints) -> None:
        """Run to the ends, with another process after each death; time passes in between."""
        while True:
            try:
                self.run(crash_points)
                return
            except SimulatedCrash:
                self.deaths += 1
                self.clock.sleep(self.rng.choice((0, 0.5, 4)))

    def look_at_log(self) -> None:
        """Keep the records that are new, and check that those already seen are unchanged."""
        if not (self.folder / "out.db").exists():
            return
        with closing(sqlite3.connect(self.folder / "out.db")) as connection:
            if not connection.execute(
                "select 1 from sqlite_master where name = 'rowtide_polled_changes'"
            ).fetchall():
                return
            for offset, *record in connection.execute(
                "select message_offset, rowtime, message_key, content, bound from rowtide_polled_changes"
            ):
                assert self.log.setdefault(offset, tuple(record)) == tuple(record)
                self.log[offset] = tuple(record)

    def states(self) -> list[tuple[int, dict[int, str | None]]]:
        """Return the names of users after each record of the log, with the rowtime of the record."""
        assert list(self.log) == sorted(self.log)
        names: dict[int, str | None] = {}
        found, bound = [(-1, dict(names))], -1
        for rowtime, key, content, promised in self.log.values():
            assert rowtime >= bound, "a change is behind the bound of an earlier poll"
            if promised is not None:
                bound = promised
                continue
            id_ = json.loads(key)["ID"]
            names = {**names}
            if content is None:
                del names[id_]
            else:
                names[id_] = json.loads(content)["NAME"]
            found.append((rowtime, names))
        return found

    def expected_named(self) -> list[tuple[int, int, str | None]]:
        """Join every click with the last state of the log at its rowtime."""
        states = self.states()
        return [
            (number, who, [names for rowtime, names in states if rowtime <= at][-1].get(who))
            for number, who, at in self.clicks
        ]
