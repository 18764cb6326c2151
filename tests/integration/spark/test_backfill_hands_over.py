"""Backfill plus live equals all live equals all Spark: rows, error rows, positions and bounds.

On a real broker, a real PostgreSQL and a real Spark session, with the cut inside open windows, rows
waiting in t-sorts, and flights waiting for the weather of a table.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from real.kafka import Broker
from real.postgres import PostgresServer
from real.spark import in_parts
from rowtide.app import context_of
from rowtide.config.reading import load_settings
from rowtide.errors import StatementError
from rowtide.runners.spark import frames
from rowtide.runners.spark.kafka import read_range
from rowtide.runners.spark.session import BRIEF_JVM
from rowtide.runtime.backfill.backfill import backfill, kafka_frames
from rowtide.runtime.configured import configured
from rowtide.runtime.pipeline import open_pipeline
from rowtide.sql.pipeline import plan_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.postgres]

BASE_MS = 1_700_000_000_000
MESSAGES = 1_500
PARTITIONS = 3
PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA;
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS;
CREATE FOREIGN STREAM trips (at TIMESTAMP NOT NULL, zone VARCHAR(4), cents INTEGER, ratio INTEGER)
  SERVER k OPTIONS (topic '{trips}');
CREATE FOREIGN STREAM rates (zone VARCHAR(4) NOT NULL, percent INTEGER) SERVER k OPTIONS (topic '{rates}');
CREATE TABLE current_rates (zone VARCHAR(4) NOT NULL, percent INTEGER, PRIMARY KEY (zone));
CREATE PUMP to_rates STARTED AS INSERT INTO current_rates SELECT STREAM zone, percent FROM rates;
CREATE VIEW ordered AS
  SELECT STREAM at AS ROWTIME, zone, cents, ratio FROM trips ORDER BY at WITHIN INTERVAL '5' SECOND;
CREATE VIEW rated AS
  SELECT STREAM o.zone, o.cents * r.percent AS charge, 100 / o.ratio AS share
  FROM ordered AS o LEFT JOIN current_rates AS r ON o.zone = r.zone;
CREATE FOREIGN TABLE minutes (minute_start TIMESTAMP, zone VARCHAR(4), trips BIGINT, charge BIGINT,
  share DECIMAL(38, 6), PRIMARY KEY (minute_start, zone)) SERVER d;
CREATE PUMP to_minutes STARTED AS INSERT INTO minutes
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS minute_start, zone, COUNT(*), SUM(charge), AVG(share)
  FROM rated GROUP BY FLOOR(ROWTIME TO MINUTE), zone;
CREATE FOREIGN TABLE trip_log (at TIMESTAMP, zone VARCHAR(4), cents INTEGER) SERVER d;
CREATE PUMP to_log STARTED AS INSERT INTO trip_log SELECT STREAM ROWTIME AS at, zone, cents FROM ordered;
"""
TABLES = {
    "minutes": "SELECT * FROM minutes",
    "trip_log": "SELECT * FROM trip_log",
    "errors": """
        SELECT kind, relation, reason, topic, partition, message_offset, rowtime, bound, raw, row_json
        FROM rowtide.errors""",
    "positions": "SELECT relation, topic, partition, next_offset, start_offset, bound FROM rowtide.positions",
}


class World:
    """Two topics with what was produced to them, and pipelines on them, each with a database of its own."""

    def __init__(self, broker: Broker, postgres: PostgresServer, folder: Path) -> None:
        self._broker = broker
        self._postgres = postgres
        self._folder = folder
        self._count = 0
        rng = random.Random(20260131)
        self.trips = broker.create_topic(PARTITIONS)
        self.rates = broker.create_topic(1)
        for partition in range(PARTITIONS):
            stamps = [BASE_MS + 200 * number + rng.randrange(150) for number in range(MESSAGES // PARTITIONS)]
            values = [self._trip(rng, stamp) for stamp in stamps]
            broker.produce(self.trips, values, partition=partition, timestamps=stamps)
        stamps = [BASE_MS + 1_500 * number for number in range(80)]
        rates = [
            json.dumps({"zone": f"z{rng.randrange(4)}", "percent": rng.randrange(200)}).encode()
            for _ in stamps
        ]
        broker.produce(self.rates, rates, timestamps=stamps)

    @staticmethod
    def _trip(rng: random.Random, stamp: int) -> bytes | None:
        if rng.random() < 0.01:
            return rng.choice([None, b"{", b'{"at": "never"}'])
        # One row in twenty is late by more than WITHIN allows.
        at = stamp - rng.randrange(4_000 if rng.random() < 0.95 else 20_000)
        trip = {
            "at": at,
            "zone": f"z{rng.randrange(5)}",
            "cents": rng.randrange(1000),
            "ratio": rng.randrange(9),
        }
        return json.dumps(trip).encode()

    def pipeline(self) -> tuple[Path, Path, str]:
        """Make the files of a pipeline on a new database; gives SQL file, settings, database."""
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        database = self._postgres.create_database()
        sql, config = folder / "trips.sql", folder / "config.toml"
        sql.write_text(PIPELINE.format(trips=self.trips, rates=self.rates))
        config.write_text(
            '[service]\nlisten = "127.0.0.1:0"\n'
            f'[servers.k]\nbootstrap_servers = "{self._broker.bootstrap_servers}"\n'
            f'[servers.d]\nurl = "{database}"\n'
        )
        return sql, config, database


def run_live(sql: Path, config: Path) -> None:
    command = [sys.executable, "-m", "rowtide", "run", str(sql), "--config", str(config), "--until-end"]
    path = os.pathsep.join(each for each in sys.path if each)
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def run_spark(spark: SparkSession, sql: Path, config: Path, until_ms: int, staging: Path) -> None:
    settings = load_settings(config)
    plan = configured(plan_pipeline(sql.read_text(), file=str(sql)), settings)
    staging.mkdir()
    with open_pipeline(plan, sql.stem) as pipeline:
        messages = kafka_frames(plan, lambda *args: read_range(spark, *args))
        context = replace(context_of(pipeline, settings), wait=True)
        backfill(context, spark, messages, str(staging), until_ms, in_order=True)


def contents(database: str) -> dict[str, list[str]]:
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        found = {
            name: sorted(map(repr, (tuple(row) for row in connection.execute(sa.text(query)))))
            for name, query in TABLES.items()
        }
    engine.dispose()
    return found


def wait_for(connection: sa.Connection, query: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a query gives a row, while the process lives."""
    for _ in range(1500):
        if connection.execute(sa.text(query)).first() is not None:
            return
        assert process.poll() is None, log.read_text()[-3000:]
        time.sleep(0.1)
    raise AssertionError(f"nothing has come of: {query}")


EXISTS = "SELECT 1 FROM pg_tables WHERE schemaname = 'rowtide' AND tablename = 'pipelines'"
CLAIMED = "SELECT 1 FROM rowtide.pipelines WHERE holder LIKE '%, a backfill'"
STAGES = "SELECT tablename FROM pg_tables WHERE schemaname = 'rowtide' AND tablename LIKE 'stage%'"
COMMITTING = """
    SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%pipelines%'"""


def stages_left(database: str) -> list[object]:
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        left = list(connection.execute(sa.text(STAGES)).scalars())
    engine.dispose()
    return left


def kill_a_backfill_at_its_commit(
    sql: Path, config: Path, database: str, until_ms: int, meanwhile: Callable[[], None], log: Path
) -> None:
    """Leave what SIGKILL leaves of a backfill: everything staged, nothing committed."""
    command = [sys.executable, "-m", "rowtide", "backfill", str(sql), "--config", str(config)]
    path = os.pathsep.join(each for each in sys.path if each)
    looking, holding = (sa.create_engine(database, poolclass=sa.NullPool) for _ in range(2))
    with (
        log.open("wb") as answer,
        # In a group of its own with the JVM and the workers: all of it is killed at once.
        subprocess.Popen(
            [*command, "--until", str(until_ms), "--master", "local[1]"],
            env=os.environ | {"PYTHONPATH": path, "JDK_JAVA_OPTIONS": BRIEF_JVM},
            stdout=answer,
            stderr=answer,
            start_new_session=True,
        ) as process,
        looking.connect().execution_options(isolation_level="AUTOCOMMIT") as looker,
        holding.connect() as holder,
    ):
        try:
            wait_for(looker, EXISTS, process, log)
            wait_for(looker, CLAIMED, process, log)
            meanwhile()
            # Its commit waits for this, with all rows staged.
            holder.execute(sa.text("SELECT * FROM rowtide.pipelines FOR UPDATE"))
            wait_for(looker, COMMITTING, process, log)
            assert looker.execute(sa.text(STAGES)).all()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        holder.rollback()
        assert not looker.execute(sa.text("SELECT 1 FROM rowtide.positions")).all()


def test_backfill_plus_live_is_all_live_is_all_spark(
    kafka: Broker, postgres_server: PostgresServer, spark: SparkSession, tmp_path: Path
) -> None:
    """Even if the backfill was killed before, and another one was tried meanwhile."""
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert frames.FEW_ROWS == 0
    world = World(kafka, postgres_server, tmp_path)
    live_sql, live_config, live = world.pipeline()
    run_live(live_sql, live_config)
    wanted = contents(live)
    assert wanted["minutes"]
    assert {"LATE", "REJECTED"} == {row.split("'")[1] for row in wanted["errors"]}

    # The cut lies inside a minute, with rows in the t-sorts, and further on for some partitions.
    cut = BASE_MS + 51_234
    both_sql, both_config, both = world.pipeline()

    def begin_another() -> None:
        with pytest.raises(StatementError, match=r"another backfill of pipeline .* is running"):
            run_spark(spark, both_sql, both_config, cut, tmp_path / "another")

    kill_a_backfill_at_its_commit(both_sql, both_config, both, cut, begin_another, tmp_path / "killed.log")
    run_spark(spark, both_sql, both_config, cut, tmp_path / "both")
    assert stages_left(both) == []
    handed_over = contents(both)
    assert 0 < len(handed_over["trip_log"]) < len(wanted["trip_log"])
    run_live(both_sql, both_config)
    assert contents(both) == wanted

    all_sql, all_config, everything = world.pipeline()
    with in_parts(spark, 7):
        run_spark(spark, all_sql, all_config, BASE_MS * 2, tmp_path / "all")
    assert contents(everything) == wanted

    with pytest.raises(StatementError, match="has committed positions"):
        run_spark(spark, both_sql, both_config, cut, tmp_path / "again")
    assert contents(both) == wanted
