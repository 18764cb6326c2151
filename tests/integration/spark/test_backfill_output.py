"""What a backfill writes: the same whichever way it goes, all at once or not at all.

PostgreSQL has staging tables, SQLite has not, so there the rows go through the driver.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from real.spark import in_parts
from rowtide.app import context_of
from rowtide.config.reading import load_settings
from rowtide.errors import TransientError
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.runners.spark.kafka import MESSAGE_COLUMNS
from rowtide.runtime.backfill import backfill_output
from rowtide.runtime.backfill.backfill import BackfillReport, backfill
from rowtide.runtime.backfill.begin import BackfillOrder
from rowtide.runtime.crashpoints import CrashAt, CrashPoints, NoCrash, SimulatedCrash, raise_crash
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.state.output import target_table
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

END_MS = 2_000_000_000_000
PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'nowhere:1');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{url}');
CREATE FOREIGN STREAM trips (zone VARCHAR(4), cents INTEGER, ratio INTEGER)
  SERVER k OPTIONS (topic 'trips'{idle});
CREATE FOREIGN TABLE log (at TIMESTAMP, zone VARCHAR(4), cents INTEGER, share DECIMAL(10, 2)) SERVER d;
CREATE PUMP to_log STARTED AS INSERT INTO log
  SELECT STREAM ROWTIME AS at, zone, cents, CAST(100 / ratio AS DECIMAL(10, 2)) AS share FROM trips;
CREATE FOREIGN TABLE latest (zone VARCHAR(4) NOT NULL, cents INTEGER, PRIMARY KEY (zone)) SERVER d;
CREATE PUMP to_latest STARTED AS INSERT INTO latest SELECT STREAM zone, cents FROM trips;
"""
CHECKPOINT = {
    "errors": "SELECT kind, relation, reason, topic, partition, message_offset, raw, row_json FROM {errors}",
    "positions": "SELECT relation, partition, next_offset, bound FROM {positions}",
}


@pytest.fixture(scope="module")
def topic() -> InMemoryTopic:
    """Trips of two partitions; some do not decode, are late, divide by zero, or have no zone."""
    return trips(2)


def trips(partitions: int) -> InMemoryTopic:
    """Return trips of two partitions; further ones are empty."""
    rng = random.Random(7)
    topic = InMemoryTopic("trips", partitions)
    for at in range(400):
        zone = "null" if at % 57 == 0 else f'"z{rng.randrange(9)}"'
        trip = f'{{"zone": {zone}, "cents": {rng.randrange(1000)}, "ratio": {rng.randrange(7)}}}'
        late = 5_000 if at % 41 == 40 else 0
        topic.add(at % 2, 1_000_000 + 100 * at - late, b"{" if at % 97 == 0 else trip.encode())
    return topic


class World:
    """One database, and backfills into it."""

    def __init__(
        self, spark: SparkSession, topic: InMemoryTopic, url: str, folder: Path, idle: str = ""
    ) -> None:
        self._idle = idle
        self._spark = spark
        self._topic = topic
        self._url = url
        self._folder = folder
        self._runs = 0

    def run(self, crash_points: CrashPoints | None = None) -> BackfillReport:
        self._runs += 1
        staging = self._folder / f"{sa.make_url(self._url).get_backend_name()}-{self._runs}"
        staging.mkdir()
        with open_pipeline(self._plan(), "trips") as pipeline:
            context = replace(
                context_of(pipeline, load_settings(None)),
                sources={"TRIPS": self._topic},
                wait=True,
                crash_points=crash_points or NoCrash(),
            )
            return backfill(context, self._spark, self._frames, str(staging), BackfillOrder(END_MS))

    def _frames(
        self, _: ForeignStream, _topics: str, begin: Mapping[int, int], end: Mapping[int, int]
    ) -> DataFrame:
        rows = [
            ("trips", partition, at, timestamp, None, value, None)
            for partition, log in self._topic.partitions.items()
            for at, timestamp, value in zip(log.offsets, log.timestamps, log.values, strict=True)
            if begin[partition] <= at < end[partition]
        ]
        return self._spark.createDataFrame(rows, MESSAGE_COLUMNS)

    def ask(self, statement: str) -> list[str]:
        engine = sa.create_engine(self._url)
        schema = "rowtide_" if engine.name == "sqlite" else "rowtide."
        text = statement.format(errors=f"{schema}errors", positions=f"{schema}positions")
        with engine.begin() as connection:
            result = connection.execute(sa.text(text))
            found = [tuple(map(str, row)) for row in result] if result.returns_rows else []
        engine.dispose()
        return sorted(map(repr, found))

    def contents(self) -> dict[str, list[str]]:
        found = {name: self.ask(query) for name, query in CHECKPOINT.items()}
        with open_pipeline(self._plan(), "trips") as pipeline, pipeline.database.begin() as transaction:
            for table in pipeline.plan.foreign_tables:
                found[table.name] = sorted(map(repr, transaction.rows(target_table(table))))
        return found

    def _plan(self) -> Plan:
        return plan_pipeline(PIPELINE.format(url=self._url, idle=self._idle))


STAGES = "SELECT tablename FROM pg_tables WHERE schemaname = 'rowtide' AND tablename LIKE 'stage%'"


def test_a_backfill_comes_at_once_or_not_at_all_and_the_same_whichever_way(
    spark: SparkSession,
    topic: InMemoryTopic,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    through_driver = World(spark, topic, f"sqlite:///{tmp_path / 'trips.db'}", tmp_path)
    fetched = through_driver.run()
    wanted = through_driver.contents()
    assert {"LATE", "REJECTED"} == {row.split("'")[1] for row in wanted["errors"]}
    staged = World(spark, topic, postgres_url, tmp_path)
    with pytest.raises(SimulatedCrash):
        staged.run(CrashAt("commit.after_snapshot", 1, raise_crash))
    assert not any(staged.contents().values())
    assert len(staged.ask(STAGES)) == 2

    # Now more faults than the driver fetches messages for: Spark reads them once more.
    monkeypatch.setattr(backfill_output, "FETCHED_FAULTS", 0)
    report = staged.run()
    assert report == fetched
    assert staged.contents() == wanted
    assert staged.ask("SELECT count(*) FROM {errors} WHERE message_time IS NULL") == ["('0',)"]
    assert not staged.ask(STAGES)


def test_a_row_that_the_database_refuses_becomes_an_error_row_and_the_others_are_written(
    spark: SparkSession, topic: InMemoryTopic, postgres_url: str, tmp_path: Path
) -> None:
    world = World(spark, topic, postgres_url, tmp_path)
    world.ask(
        "CREATE TABLE log (at timestamp, zone varchar(4), cents integer CHECK (cents <> 970), "
        "share numeric(10, 2))"
    )
    world.run()
    contents = world.contents()
    refused = [row for row in contents["errors"] if "log_cents_check" in row]
    assert len(refused) == 1
    assert '"CENTS":970' in refused[0]
    not_in_log = [row for row in contents["errors"] if "'LATEST'" not in row]
    # The last message waits in the merge for the other partition.
    assert len(contents["LOG"]) + len(not_in_log) == 399
    assert contents["LATEST"]
    assert not world.ask(STAGES)


def test_a_task_that_fails_is_told_in_one_line_and_nothing_is_committed(
    spark: SparkSession, topic: InMemoryTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(spark, topic, f"sqlite:///{tmp_path / 'trips.db'}", tmp_path)
    frames = world._frames
    monkeypatch.setattr(world, "_frames", lambda *given: frames(*given).drop("headers"))
    with pytest.raises(TransientError, match=r"^Spark stopped: KeyError: .*headers") as answer:
        world.run()
    assert "\n" not in answer.value.message
    assert not any(world.contents().values())


@pytest.mark.parametrize("parts", [3, pytest.param(7, marks=pytest.mark.long)])
def test_an_empty_partition_follows_under_a_time_out_and_else_is_named_with_the_rows_that_wait(
    spark: SparkSession, tmp_path: Path, parts: int
) -> None:
    def world(name: str, partitions: int, idle: str = "") -> World:
        return World(spark, trips(partitions), f"sqlite:///{tmp_path / name}.db", tmp_path / name, idle)

    for name in ("two", "follows", "waits"):
        (tmp_path / name).mkdir()
    # The last message is long ago: all partitions are silent, and the last rows wait for none.
    idle = ", idle_timeout '30 SECOND'"
    two, follows, waits = world("two", 2, idle), world("follows", 3, idle), world("waits", 3)
    with in_parts(spark, parts):
        wanted, followed, waited = two.run(), follows.run(), waits.run()
    assert wanted.held_back == followed.held_back == []
    assert wanted.rows["LOG"] > 300
    found = [
        {name: rows for name, rows in each.contents().items() if name != "positions"}
        for each in (two, follows)
    ]
    assert found[0] == found[1]
    decided = follows.ask("SELECT DISTINCT kind, partition, next_offset FROM rowtide_decisions")
    assert "('IDLE', '2', '0')" in decided

    assert not any(waited.rows.values())
    assert not waits.contents()["LOG"]
    (held,) = waited.held_back
    assert (held.topic, held.partition, held.bound) == ("trips", 2, None)
    # In the merges before both tables: what did not decode or was late does not wait.
    assert wanted.rows["LOG"] < held.rows <= 2 * 400
