"""A driver that may get one megabyte fills history whose state is larger, if tasks keep that in parts; else it fails.

On a real broker and real Spark, into SQLite: Spark itself counts what the driver gets.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from real.kafka import Broker
from support.trips import run_live

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.long]

USERS = 60_000
BASE_MS = 1_700_000_000_000
PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{servers}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{database}');
CREATE FOREIGN STREAM changes (id INTEGER NOT NULL, name VARCHAR(200)) SERVER k OPTIONS (topic '{users}');
CREATE FOREIGN STREAM clicks (id INTEGER NOT NULL, n INTEGER) SERVER k OPTIONS (topic '{clicks}');
CREATE TABLE users (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(200));
CREATE PUMP fill STARTED AS INSERT INTO users SELECT STREAM id, name FROM changes;
CREATE FOREIGN TABLE named (id INTEGER, n INTEGER, name VARCHAR(200)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO named
  SELECT STREAM c.id, c.n, u.name FROM clicks AS c LEFT JOIN users AS u ON c.id = u.id;
CREATE FOREIGN TABLE counted (id INTEGER, n BIGINT, PRIMARY KEY (id)) SERVER d;
CREATE VIEW counts OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM id, COUNT(*) AS n FROM changes GROUP BY id EMIT CHANGES;
CREATE PUMP q STARTED AS INSERT INTO counted SELECT STREAM * FROM counts;
"""


def produce(broker: Broker) -> dict[str, str]:
    users, clicks = broker.create_topic(2), broker.create_topic(2)
    for partition in range(2):
        mine = range(partition, USERS, 2)
        values = [json.dumps({"id": each, "name": f"user {each} " + "x" * 80}).encode() for each in mine]
        broker.produce(users, values, partition=partition, timestamps=[BASE_MS + each for each in mine])
        values = [json.dumps({"id": each * 7, "n": each}).encode() for each in range(500)]
        stamps = [BASE_MS + each * USERS // 500 for each in range(500)]
        broker.produce(clicks, values, partition=partition, timestamps=stamps)
    return {"users": users, "clicks": clicks, "servers": broker.bootstrap_servers}


def pipeline(folder: Path, topics: dict[str, str], settings: str = "") -> tuple[Path, Path]:
    folder.mkdir()
    sql, config = folder / "users.sql", folder / "config.toml"
    sql.write_text(PIPELINE.format(database=folder / "out.db", **topics))
    config.write_text('[service]\nlisten = "127.0.0.1:0"\n' + settings)
    return sql, config


def contents(sql: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(sql.parent / "out.db") as connection:
        return {
            name: sorted(connection.execute(f"select * from {name}").fetchall(), key=repr)
            for name in ("named", "counted", "rowtide_errors")
        }


def backfill(sql: Path, config: Path) -> subprocess.CompletedProcess[str]:
    command = ["backfill", str(sql), "--config", str(config), "--until", str(BASE_MS * 2), "--parts", "8"]
    command += ["--slice-messages", str(USERS // 2), "--master", "local[2]"]
    return subprocess.run(
        [sys.executable, "-m", "rowtide", *command, "--conf", "spark.driver.maxResultSize=1m"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_state_that_the_driver_may_not_get_is_kept_in_parts(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    assert spark, "only where Spark runs at all"
    topics = produce(kafka)
    through_driver = backfill(*pipeline(tmp_path / "driver", topics))
    assert through_driver.returncode == 3
    assert "maxResultSize" in through_driver.stderr

    sql, config = pipeline(tmp_path / "parts", topics, f'[checkpoint]\nparts = "{tmp_path / "store"}"\n')
    in_parts = backfill(sql, config)
    assert in_parts.returncode == 0, in_parts.stderr[-3_000:]
    assert sum(each.stat().st_size for each in (tmp_path / "store").rglob("*") if each.is_file()) > 2_000_000
    live_sql, live_config = pipeline(tmp_path / "live", topics)
    run_live(live_sql, live_config)
    assert contents(sql) == contents(live_sql)
    # A service takes the state over.
    run_live(sql, config)
    assert contents(sql) == contents(live_sql)
