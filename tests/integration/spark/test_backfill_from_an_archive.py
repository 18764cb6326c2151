"""A topic whose oldest records Kafka has deleted: Spark reads them from the archive, and nothing differs.

On a real broker and a real Spark session, with transactions, so that the log has holes.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from real.kafka import Broker
from rowtide.app import context_of
from rowtide.cli.main import app
from rowtide.config.reading import load_settings
from rowtide.errors import StatementError
from rowtide.runners.archived import Wanted
from rowtide.runners.spark import archive as archive_module
from rowtide.runners.spark.archive import SparkArchive
from rowtide.runners.spark.kafka import read_range
from rowtide.runtime.backfill.archived import splice
from rowtide.runtime.backfill.backfill import BackfillReport, backfill
from rowtide.runtime.backfill.begin import BackfillOrder, committed
from rowtide.runtime.backfill.messages import kafka_frames
from rowtide.runtime.backfill.slices import SliceLimits
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from support.archive import rows_of
from support.trips import result_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{kafka}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM orders (at TIMESTAMP, number BIGINT NOT NULL) SERVER k OPTIONS (topic '{topics}', format 'JSON');
CREATE FOREIGN TABLE log (number BIGINT, topic VARCHAR(40), part INTEGER, place BIGINT, key VARBINARY(10),
  headers VARCHAR(100)) SERVER d;
CREATE FOREIGN TABLE sums (second TIMESTAMP NOT NULL PRIMARY KEY, n BIGINT, total BIGINT) SERVER d;
CREATE VIEW timed AS SELECT STREAM at AS ROWTIME, number, KAFKA_TOPIC AS topic, KAFKA_PARTITION AS part,
  KAFKA_OFFSET AS place, KAFKA_KEY AS key, KAFKA_HEADERS AS headers FROM orders ORDER BY at WITHIN INTERVAL '1' SECOND;
CREATE PUMP p AS INSERT INTO log SELECT STREAM number, topic, part, place, key, headers FROM timed;
CREATE PUMP q AS INSERT INTO sums
  SELECT STREAM FLOOR(t.ROWTIME TO SECOND) AS second, COUNT(*) AS n, SUM(number) AS total FROM timed AS t
  GROUP BY FLOOR(t.ROWTIME TO SECOND);
"""
HEADERS: list[tuple[str, str | bytes | None]] = [("h", b"\xff"), ("h", b"x")]
START = 1_700_000_000_000
MESSAGES = 300
CUT = 2_000_000_000_000
"""After the marks of transactions, too: the broker stamps them, and finds them by time."""
ORDER = BackfillOrder(CUT)
SLICE = 400
QUERIES = (
    "select number, topic, part, place, key, headers from log",
    "select second, n, total from sums",
    'select kind, relation, topic, "partition", message_offset, reason, rowtime, bound, raw from rowtide_errors',
    'select topic, "partition", next_offset, bound from rowtide_positions',
)


def contents(file: Path) -> list[list[str]]:
    engine = sa.create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        found = [sorted(repr(tuple(row)) for row in connection.execute(sa.text(query))) for query in QUERIES]
    engine.dispose()
    return found


def produce(kafka: Broker, topic: str, partition: int, numbers: range, rng: random.Random) -> None:
    """Produce in transactions, whose marks are holes, and one of which is aborted."""
    producer = kafka.producer(transactional_id=f"{topic}-{partition}-{numbers.start}")
    producer.init_transactions()
    for first in range(numbers.start, numbers.stop, 50):
        producer.begin_transaction()
        for number in range(first, first + 50):
            stamp = START + 20 * number
            at = stamp - rng.choice([0, 300, 900, 5_000])
            value = b'{"at":%d,"number":%d}' % (at, number)
            producer.produce(
                topic,
                rng.choice([value] * 20 + [b"{", None]),
                key=rng.choice([None, b"k"]),
                partition=partition,
                timestamp=stamp,
                headers=rng.choice([None, HEADERS]),
            )
        producer.flush()
        if first % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def fill(
    spark: SparkSession, text: str, order: BackfillOrder, staging: Path, archive: Path | None
) -> BackfillReport:
    plan, settings = plan_pipeline(text), load_settings(None)
    staging.mkdir()
    with open_pipeline(plan, "orders") as pipeline:
        context = replace(context_of(pipeline, settings), pace=Pace(0, 1_000, None, None))
        frames = kafka_frames(plan, lambda *args: read_range(spark, *args))
        if archive is not None:
            found = committed(context, order)
            spliced = splice(context, frames, SparkArchive(spark, str(archive)), order, found)
            context, frames = spliced.context, spliced.frames
        return backfill(context, spark, frames, str(staging), order)


def by_command(text: str, folder: Path, archive: Path) -> tuple[int, int, int]:
    """Run the command in a process of its own; return the numbers of slices, messages and errors."""
    pipeline = folder / "orders.sql"
    pipeline.write_text(text)
    spliced = ["--archive", str(archive), "--slice-messages", str(SLICE)]
    session = ["--master", "local[2]", "--parts", "3"]
    said = result_of("backfill", str(pipeline), "--until", str(CUT), "--json", *spliced, *session)
    result: dict[str, Any] = json.loads(said.splitlines()[-1])
    return result["slices"], result["messages"], result["errors"]


def go_on(text: str) -> None:
    plan, settings = plan_pipeline(text), load_settings(None)
    with open_pipeline(plan, "orders") as pipeline:
        context = replace(context_of(pipeline, settings), pace=Pace(0, 1_000, None, None))
        Service(context).run(until_end=True)


@pytest.mark.parametrize("is_command", [False, pytest.param(True, marks=pytest.mark.long)])
def test_history_from_an_archive_is_that_of_the_broker(
    kafka: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_command: bool
) -> None:
    monkeypatch.setattr(archive_module, "PART_OFFSETS", 64)
    rng = random.Random(1)
    topics = [kafka.create_topic(2), kafka.create_topic(1)]
    places = [(topics[0], 0), (topics[0], 1), (topics[1], 0)]
    for topic, partition in places:
        produce(kafka, topic, partition, range(MESSAGES - 100), rng)
    files = tmp_path / "kafka.db", tmp_path / "archive.db"
    texts = [SQL.format(kafka=kafka.bootstrap_servers, file=file, topics=", ".join(topics)) for file in files]
    pipeline, root = tmp_path / "p.sql", tmp_path / "archive"
    pipeline.write_text(texts[0])
    root.mkdir()
    done = CliRunner().invoke(app, ["archive", str(pipeline), str(root), "--until-end"])
    assert done.exit_code == 0, done.output
    archived = rows_of(root)
    assert any(row["holes_before"] > 50 for row in archived)
    for topic, partition in places:
        produce(kafka, topic, partition, range(MESSAGES - 100, MESSAGES), rng)
    whole = fill(spark, texts[0], replace(ORDER, in_order=True), tmp_path / "0", None)
    for topic, partition in places:
        kafka.delete_records(topic, partition, rng.randrange(60, 150))
    if is_command:
        slices, messages, errors = by_command(texts[1], tmp_path, root)
    else:
        sliced = replace(ORDER, slices=SliceLimits(messages=SLICE))
        report = fill(spark, texts[1], sliced, tmp_path / "1", root)
        slices, messages, errors = report.slices, report.messages, report.errors
    assert slices > 1
    assert (messages, errors) == (whole.messages, whole.errors)
    assert whole.errors > 20
    assert contents(files[1]) == contents(files[0])
    assert len(contents(files[0])[0]) > 100
    for text in texts:
        go_on(text)
    assert contents(files[1]) == contents(files[0])
    # What is read of it is what is in it.
    own = [row for row in archived if (row["topic"], row["partition"]) == places[0]]
    archive = SparkArchive(spark, str(root))
    wanted = Wanted(*places[0], own[3]["offset"], own[90]["offset"])
    stamps = archive.stamps(wanted)
    assert stamps.offsets.tolist() == [row["offset"] for row in own[3:90]]
    assert stamps.timestamps.tolist() == [row["timestamp"] for row in own[3:90]]
    assert all(part.is_whole for part in archive.parts(topics))
    # A file that is missing is named.
    gone = rng.choice([path for path in root.rglob("*.parquet") if f"topic={topics[0]}" in str(path)])
    gone.unlink()
    with pytest.raises(StatementError, match="are neither in the archive"):
        fill(spark, texts[1].replace(str(files[1]), str(tmp_path / "2.db")), ORDER, tmp_path / "2", root)


def test_paths_that_are_no_archives_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StatementError, match=r"the archive .* cannot be read"):
        SparkArchive(spark, str(tmp_path / "none"))
    spark.createDataFrame([(1, b"x")], "offset long, value binary").write.parquet(str(tmp_path / "other"))
    with pytest.raises(StatementError, match="has no column topic, partition, timestamp"):
        SparkArchive(spark, str(tmp_path / "other"))
