"""Trips of a real broker whose minutes go to a real PostgreSQL: topics, pipelines on them, and what they hold."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import sqlalchemy as sa
from typer.testing import CliRunner

from real.kafka import Broker
from real.postgres import PostgresServer
from rowtide.cli.main import app
from support.waiting import wait_until

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
    "accounts": """
        SELECT part, relation, rows_in, done, filtered, late, rejected, held, rows_out FROM rowtide.accounts""",
    "positions": "SELECT relation, topic, partition, next_offset, start_offset, bound FROM rowtide.positions",
}

EXISTS = "SELECT 1 FROM pg_tables WHERE schemaname = 'rowtide' AND tablename = 'pipelines'"


class World:
    """Two topics with what was produced to them, and pipelines on them, each with a database of its own."""

    def __init__(self, broker: Broker, postgres: PostgresServer, folder: Path) -> None:
        self._broker = broker
        self._postgres = postgres
        self._folder = folder
        self._count = 0
        rng = self._rng = random.Random(20260131)
        self.trips = broker.create_topic(PARTITIONS)
        self.rates = broker.create_topic(1)
        self.produced = 0
        """Trips in each partition."""
        self.produce_next(MESSAGES // PARTITIONS)
        stamps = [BASE_MS + 1_500 * number for number in range(80)]
        rates = [
            json.dumps({"zone": f"z{rng.randrange(4)}", "percent": rng.randrange(200)}).encode()
            for _ in stamps
        ]
        broker.produce(self.rates, rates, timestamps=stamps)

    def produce_next(self, count: int) -> None:
        """Produce trips, a fifth of a second after each other, in each partition."""
        numbers = range(self.produced, self.produced + count)
        self.produced += count
        for partition in range(PARTITIONS):
            stamps = [BASE_MS + 200 * number + self._rng.randrange(150) for number in numbers]
            values = [self._trip(self._rng, stamp) for stamp in stamps]
            self._broker.produce(self.trips, values, partition=partition, timestamps=stamps)

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

    def pipeline(self, parts: Path | None = None) -> tuple[Path, Path, str]:
        """Make the files of a pipeline on a new database; return SQL file, settings, database.

        ``parts`` is the folder in which a backfill keeps state in parts.
        """
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
            + ("" if parts is None else f'[checkpoint]\nparts = "{parts}"\n')
        )
        return sql, config, database


def run_live(sql: Path, config: Path) -> None:
    """Run a pipeline to the ends of its topics, in this process."""
    done = CliRunner().invoke(app, ["run", str(sql), "--config", str(config), "--until-end"])
    assert done.exit_code == 0, (done.output[-3000:], done.exception)


def result_of(*arguments: str) -> str:
    """Run a command in a process of its own, which must succeed; return its output."""
    path = os.pathsep.join(each for each in sys.path if each)
    done = subprocess.run(
        [sys.executable, "-m", "rowtide", *arguments],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


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

    def has_come() -> bool:
        assert process.poll() is None, log.read_text()[-3000:]
        return connection.execute(sa.text(query)).first() is not None

    wait_until(has_come, lambda: f"nothing has come of: {query}")
