"""A backfill reads a stream of the topics that match, and the service goes on at the cut: rows as of one live run."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from real.kafka import Broker
from rowtide.app import context_of
from rowtide.config.reading import load_settings
from rowtide.runners.spark.kafka import read_range
from rowtide.runtime.backfill.backfill import backfill
from rowtide.runtime.backfill.begin import BackfillOrder
from rowtide.runtime.backfill.messages import kafka_frames
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{kafka}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM orders (number BIGINT NOT NULL) SERVER k OPTIONS (topic_pattern '{topics}', format 'JSON');
CREATE FOREIGN TABLE log (number BIGINT, topic VARCHAR(40), part INTEGER, place BIGINT) SERVER d;
CREATE PUMP p AS INSERT INTO log SELECT STREAM number, KAFKA_TOPIC, KAFKA_PARTITION, KAFKA_OFFSET FROM orders;
"""
START = 1_700_000_000_000
CUT = START + 200


def contents(file: Path) -> tuple[list[tuple[object, ...]], ...]:
    engine = sa.create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        found = [
            sorted(tuple(row) for row in connection.execute(sa.text(query)))
            for query in (
                "select number, topic, part, place from log",
                'select relation, topic, "partition", message_offset, reason from rowtide_errors',
                'select topic, "partition", next_offset from rowtide_positions',
            )
        ]
    engine.dispose()
    return tuple(found)


def test_rows_are_those_of_a_live_run(kafka: Broker, spark: SparkSession, tmp_path: Path) -> None:
    prefix = f"t{uuid.uuid4().hex[:8]}"
    topics = [kafka.create_topic(2, name=f"{prefix}-a"), kafka.create_topic(1, name=f"{prefix}-b")]
    places = [(topics[0], 0), (topics[0], 1), (topics[1], 0)]
    for index, (topic, partition) in enumerate(places):
        values = [b'{"number":%d}' % (1_000 * index + at) for at in range(300)]
        values[17] = b"{broken"
        kafka.produce(topic, values, partition=partition, timestamps=[START + at for at in range(300)])
        bound = [[("rowtide.bound", str(START + 10_000).encode())]]
        kafka.produce(topic, [None], partition=partition, timestamps=[START + 300], headers=bound)
    files = tmp_path / "live.db", tmp_path / "spark.db"
    for file in files:
        text = SQL.format(kafka=kafka.bootstrap_servers, file=file, topics=f"{prefix}-.*")
        plan, settings = plan_pipeline(text), load_settings(None)
        with open_pipeline(plan, "orders") as pipeline:
            context = replace(context_of(pipeline, settings), pace=Pace(0, 1_000, None, None))
            if file is files[1]:
                staging = tmp_path / "staging"
                staging.mkdir()
                frames = kafka_frames(plan, lambda *args: read_range(spark, *args))
                report = backfill(context, spark, frames, str(staging), BackfillOrder(CUT, in_order=True))
                assert report.errors == 3
                assert 0 < len(contents(file)[0]) < len(contents(files[0])[0])
            Service(context).run(until_end=True)
    live, filled = map(contents, files)
    assert filled == live
    assert len(live[0]) == 3 * 299
    assert {row[1:3] for row in live[1]} == set(places)
