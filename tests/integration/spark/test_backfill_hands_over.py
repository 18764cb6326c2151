"""Backfill plus live equals all live equals all Spark: rows, error rows, positions and bounds.

On a real broker, a real PostgreSQL and a real Spark session, with the cut inside open windows, rows
waiting in t-sorts, and flights waiting for the weather of a table. The backfill is killed between its slices,
and later another one continues from the positions of the service.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
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
from rowtide.runtime.backfill.backfill import BackfillReport, backfill
from rowtide.runtime.backfill.begin import BackfillOrder
from rowtide.runtime.backfill.messages import kafka_frames
from rowtide.runtime.backfill.slices import SliceLimits
from rowtide.runtime.configured import configured
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.recovery.begin import StartEdge
from rowtide.sql.pipeline import plan_pipeline
from support.trips import BASE_MS, EXISTS, World, contents, run_live, wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.postgres]

SLICE = 300


def run_spark(
    spark: SparkSession, sql: Path, config: Path, order: BackfillOrder, staging: Path
) -> BackfillReport:
    settings = load_settings(config)
    plan = configured(plan_pipeline(sql.read_text(), file=str(sql)), settings)
    staging.mkdir()
    with open_pipeline(plan, sql.stem) as pipeline:
        messages = kafka_frames(plan, lambda *args: read_range(spark, *args))
        context = replace(context_of(pipeline, settings), wait=True)
        return backfill(context, spark, messages, str(staging), order)


CLAIMED = "SELECT 1 FROM rowtide.pipelines WHERE holder LIKE '%, a backfill'"
STAGES = "SELECT tablename FROM pg_tables WHERE schemaname = 'rowtide' AND tablename LIKE 'stage%'"
COMMITTED = "SELECT 1 FROM rowtide.pipelines WHERE commits >= 1"
COMMITTING = """
    SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%positions%'"""


def stages_left(database: str) -> list[object]:
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        left = list(connection.execute(sa.text(STAGES)).scalars())
    engine.dispose()
    return left


def blobs_named(database: str) -> set[str]:
    """Return the blobs that snapshots name."""
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        manifests = connection.execute(sa.text("SELECT manifest FROM rowtide.snapshots")).scalars().all()
    engine.dispose()
    return {blob for manifest in manifests for blob in json.loads(manifest).get("blobs", [])}


def kill_a_backfill_at_its_commit(
    sql: Path, config: Path, database: str, until_ms: int, meanwhile: Callable[[], None], log: Path
) -> None:
    """Leave what SIGKILL leaves of a backfill: a slice committed, and everything of the next one staged."""
    command = [sys.executable, "-m", "rowtide", "backfill", str(sql), "--config", str(config)]
    command += ["--slice-messages", str(SLICE)]
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
            wait_for(looker, COMMITTED, process, log)
            # Its next commit waits for this, with all rows staged; its heartbeats do not.
            holder.execute(sa.text("LOCK TABLE rowtide.positions IN SHARE MODE"))
            wait_for(looker, COMMITTING, process, log)
            assert looker.execute(sa.text(STAGES)).all()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        holder.rollback()
        assert looker.execute(sa.text("SELECT 1 FROM rowtide.positions")).all()


def test_backfill_plus_live_is_all_live(
    kafka: Broker, postgres_server: PostgresServer, spark: SparkSession, tmp_path: Path
) -> None:
    """Even if the backfill was killed after a slice, and another one was tried meanwhile; with state in parts."""
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert frames.FEW_ROWS == 0
    world = World(kafka, postgres_server, tmp_path)
    live_sql, live_config, live = world.pipeline()
    run_live(live_sql, live_config)
    wanted = contents(live)
    assert wanted["minutes"]
    assert {"LATE", "REJECTED"} == {row.split("'")[1] for row in wanted["errors"]}

    # The cut lies inside a minute, with rows in the t-sorts, and further on for some partitions.
    cut = BackfillOrder(BASE_MS + 51_234, slices=SliceLimits(messages=SLICE), in_order=True)
    folder = tmp_path / "parts"
    both_sql, both_config, both = world.pipeline(folder)

    def begin_another() -> None:
        with pytest.raises(StatementError, match=r"another backfill of pipeline .* is running"):
            run_spark(spark, both_sql, both_config, cut, tmp_path / "another")

    log = tmp_path / "killed.log"
    kill_a_backfill_at_its_commit(both_sql, both_config, both, cut.until_ms, begin_another, log)
    killed = contents(both)
    report = run_spark(spark, both_sql, both_config, cut, tmp_path / "both")
    assert report.slices > 0
    assert stages_left(both) == []
    assert len(blobs_named(both)) > 3
    assert blobs_named(both) == {
        str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()
    }
    handed_over = contents(both)
    assert 0 < len(killed["trip_log"]) < len(handed_over["trip_log"]) < len(wanted["trip_log"])
    run_live(both_sql, both_config)
    assert contents(both) == wanted

    with pytest.raises(StatementError, match="has committed positions"):
        run_spark(spark, both_sql, both_config, cut, tmp_path / "again")
    assert contents(both) == wanted


@pytest.mark.long
def test_all_spark_is_all_live_and_a_service_and_spark_take_turns(
    kafka: Broker, postgres_server: PostgresServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(kafka, postgres_server, tmp_path)
    live_sql, live_config, live = world.pipeline()
    run_live(live_sql, live_config)
    wanted = contents(live)
    both_sql, both_config, both = world.pipeline()
    to_the_end = BackfillOrder(BASE_MS * 2, in_order=True)
    with in_parts(spark, 7):
        run_spark(spark, both_sql, both_config, to_the_end, tmp_path / "all")
    assert contents(both) == wanted

    # From the positions of the service to those of Spark, and back.
    world.produce_next(100)
    continues = replace(to_the_end, until_ms=BASE_MS + 110_000, begin=StartEdge.WATERMARK)
    run_spark(spark, live_sql, live_config, continues, tmp_path / "continues")
    later = contents(live)
    assert len(later["trip_log"]) > len(wanted["trip_log"])
    for sql, config in ((both_sql, both_config), (live_sql, live_config)):
        run_live(sql, config)
    assert contents(both) == contents(live)
    assert len(contents(live)["trip_log"]) > len(later["trip_log"])
