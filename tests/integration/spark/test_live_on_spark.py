"""Live, then live on Spark, then live again is all live: on a real broker, a real PostgreSQL and a real Spark.

In the long run the topic is written while Spark runs, and its process is killed between two commits and started again.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from real.kafka import Broker
from real.postgres import PostgresServer
from rowtide.app import context_of
from rowtide.config.reading import load_settings
from rowtide.runners.spark.kafka import read_range
from rowtide.runners.spark.session import BRIEF_JVM
from rowtide.runtime.backfill.messages import kafka_frames
from rowtide.runtime.backfill.slice_work import OnSpark
from rowtide.runtime.batches.loop import BatchPace
from rowtide.runtime.batches.running import RunBatches
from rowtide.runtime.configured import configured
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from support.trips import EXISTS, World, contents, run_live, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.postgres]

PAGES = {
    "/healthz": "alive",
    "/readyz": "ready",
    "/metrics": "rowtide_messages_read_total",
    "/why-not?relation=MINUTES": "ORDERED",
}
"""Pages of the service, and what they say."""
CHUNK = 60
"""Trips that come at once in each partition."""


@contextmanager
def on_spark(sql: Path, config: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a pipeline on Spark, in a group of its own with the JVM and the workers."""
    command = [sys.executable, "-m", "rowtide", "run", str(sql), "--config", str(config), "--runner", "spark"]
    command += ["--master", "local[2]", "--parts", "3", "--trigger", "0.1 SECOND", "--batch-messages", "150"]
    path = os.pathsep.join(each for each in sys.path if each)
    with (
        log.open("ab") as answer,
        subprocess.Popen(
            command,
            env=os.environ | {"PYTHONPATH": path, "JDK_JAVA_OPTIONS": BRIEF_JVM},
            stdout=answer,
            stderr=answer,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def run_to_the_end(spark: SparkSession, sql: Path, config: Path, scratch: Path) -> None:
    """Run a pipeline on the session of the tests, up to the ends of its topics."""
    settings = load_settings(config)
    plan = configured(plan_pipeline(sql.read_text(), file=str(sql)), settings)
    with open_pipeline(plan, sql.stem) as pipeline:
        messages = kafka_frames(plan, lambda *args: read_range(spark, *args))
        on_spark = OnSpark(spark, messages, str(scratch), in_order=True)
        runs = RunBatches(on_spark, BatchPace(0.1, 150))
        Service(context_of(pipeline, settings), runs).run(until_end=True)


@contextmanager
def looking(database: str) -> Iterator[sa.Connection]:
    """Connect to a database to look at what others commit."""
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection
    engine.dispose()


def reached(offset: int) -> str:
    """Return the query that finds a row when every partition of the trips is read up to an offset."""
    return f"SELECT 1 FROM rowtide.positions WHERE relation = 'TRIPS' HAVING MIN(next_offset) >= {offset}"


def run_and_kill(world: World, sql: Path, config: Path, database: str, log: Path) -> None:
    """Run a pipeline on Spark in a process of its own, which is killed between two commits."""
    with looking(database) as looker, on_spark(sql, config, log) as process:
        world.produce_next(CHUNK)
        wait_for(looker, reached(world.produced - CHUNK + 1), process, log)
        # A batch is in hand, or the next one.
        world.produce_next(CHUNK)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


@pytest.mark.parametrize(
    "is_killed", [False, pytest.param(True, marks=pytest.mark.long)], ids=["in one session", "killed"]
)
def test_live_then_spark_then_live_is_all_live(
    kafka: Broker, postgres_server: PostgresServer, spark: SparkSession, tmp_path: Path, is_killed: bool
) -> None:
    world = World(kafka, postgres_server, tmp_path)
    both_sql, both_config, both = world.pipeline()
    run_live(both_sql, both_config)
    before = contents(both)

    if is_killed:
        run_and_kill(world, both_sql, both_config, both, tmp_path / "spark.log")
        killed = contents(both)
        assert len(killed["trip_log"]) > len(before["trip_log"])
        before = killed
    else:
        world.produce_next(CHUNK)
    run_to_the_end(spark, both_sql, both_config, tmp_path)
    assert len(contents(both)["trip_log"]) > len(before["trip_log"])

    world.produce_next(CHUNK)
    run_live(both_sql, both_config)
    live_sql, live_config, live = world.pipeline()
    run_live(live_sql, live_config)
    assert contents(both) == contents(live)
    assert {"LATE", "REJECTED"} == {row.split("'")[1] for row in contents(live)["errors"]}


@pytest.mark.long
def test_it_answers_as_a_service_and_ends_after_its_batch(
    kafka: Broker, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    world = World(kafka, postgres_server, tmp_path)
    sql, config, database = world.pipeline()
    log = tmp_path / "spark.log"
    with looking(database) as looker, on_spark(sql, config, log) as process:
        wait_for(looker, EXISTS, process, log)
        wait_for(looker, reached(world.produced), process, log)
        url = re.findall(r"http://127\.0\.0\.1:\d+", log.read_text())[-1]
        for page, text in PAGES.items():
            with urllib.request.urlopen(f"{url}{page}") as answer:
                assert text in answer.read().decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log.read_text()[-3000:]
    live_sql, live_config, live = world.pipeline()
    run_live(live_sql, live_config)
    assert contents(database) == contents(live)
