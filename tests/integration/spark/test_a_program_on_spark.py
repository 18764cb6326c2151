"""A program on Spark gives what a flow gives that has read the same messages: rows, faults and state."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rowtide.flow.flow import Flow
from rowtide.operators.contract import Fault
from rowtide.plan.nodes import Node
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import INTEGER, TIMESTAMP, VARCHAR, Field, RowType
from rowtide.rowtime.bound import Bound
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.stage import RunDefinition
from rowtide.sql.pipeline import plan_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'nowhere:1');
CREATE FOREIGN STREAM trips (route VARCHAR, at TIMESTAMP, seats INTEGER) SERVER k OPTIONS (topic 'trips');
CREATE FOREIGN STREAM fares (route VARCHAR, cents INTEGER) SERVER k OPTIONS (topic 'fares');
CREATE TABLE current_fares (route VARCHAR NOT NULL, cents INTEGER, PRIMARY KEY (route));
CREATE TABLE zones (route VARCHAR NOT NULL, zone INTEGER, PRIMARY KEY (route));
INSERT INTO zones VALUES ('r1', 1), ('r2', 1), ('r3', 2);
CREATE PUMP p STARTED AS INSERT INTO current_fares SELECT STREAM route, cents FROM fares;
CREATE VIEW ordered AS
  SELECT STREAM at AS ROWTIME, route, seats FROM trips WHERE seats > 3
  ORDER BY at WITHIN INTERVAL '0.5' SECOND;
CREATE VIEW per_second AS
  SELECT STREAM FLOOR(o.ROWTIME TO SECOND) AS second_start, route, COUNT(*) AS trips, SUM(seats) AS seats,
         AVG(seats) AS mean
  FROM ordered AS o GROUP BY FLOOR(o.ROWTIME TO SECOND), route;
CREATE VIEW priced AS
  SELECT STREAM o.route, o.seats * f.cents AS price FROM ordered AS o
  LEFT JOIN current_fares AS f ON o.route = f.route;
CREATE VIEW zoned AS
  SELECT STREAM z.zone, 100 / (o.seats - 50) AS share FROM ordered AS o JOIN zones AS z ON o.route = z.route;
CREATE VIEW after_another AS
  SELECT STREAM route, LAG(route) OVER (ORDER BY ROWTIME) AS before, COUNT(*) OVER (PARTITION BY route) AS c
  FROM per_second;
CREATE VIEW per_zone AS
  SELECT STREAM FLOOR(p.ROWTIME TO SECOND) AS second_start, MOD(trips, 2) AS odd, MAX(seats) AS most
  FROM per_second AS p GROUP BY FLOOR(p.ROWTIME TO SECOND), MOD(trips, 2);
CREATE VIEW met AS
  SELECT STREAM o.route, o.seats, f.cents FROM ordered OVER (RANGE INTERVAL '0.2' SECOND PRECEDING) AS o
  LEFT JOIN fares OVER (RANGE INTERVAL '0.3' SECOND PRECEDING) AS f ON o.route = f.route;
"""
OUTPUTS = ("PER_SECOND", "PRICED", "ZONED", "AFTER_ANOTHER", "PER_ZONE", "MET")
TRIPS = RowType((Field("ROUTE", VARCHAR), Field("AT", TIMESTAMP), Field("SEATS", INTEGER)))
FARES = RowType((Field("ROUTE", VARCHAR), Field("CENTS", INTEGER)))
PARTITIONS = {"TRIPS": (0, 1, 2), "FARES": (0,)}

Place = tuple[str, int]
Log = dict[Place, list[tuple[int, str]]]


def intake(
    relation: str, batch: pa.RecordBatch, origins: Mapping[int, int]
) -> Iterator[tuple[int, Tray | Bound | Fault]]:
    """Read messages such as ``r1,200,7``; runs in the workers."""
    rows: dict[int, list[TimedRow]] = {}
    for message in batch.to_pylist():
        route, *numbers = message["value"].decode().split(",")
        partition = message["partition"]
        row = (route, *map(int, numbers))
        timed = TimedRow(message["timestamp"], origins[partition], message["offset"], Opcode.INSERT, row)
        rows.setdefault(partition, []).append(timed)
    for partition, held in rows.items():
        yield partition, Tray.from_rows(TRIPS if relation == "TRIPS" else FARES, held)


def logs(rng: random.Random) -> Log:
    found: Log = {}
    for partition in PARTITIONS["TRIPS"]:
        found["TRIPS", partition] = [
            (10 * i, f"r{rng.randrange(7)},{max(0, 10 * i - rng.randrange(900))},{rng.randrange(100)}")
            for i in range(300)
        ]
    found["FARES", 0] = [(60 * i, f"r{rng.randrange(7)},{rng.randrange(1000)}") for i in range(45)]
    return found


def batch_of(log: Log, place: Place, start: int, stop: int) -> pa.RecordBatch:
    relation, partition = place
    part = log[place][start:stop]
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([relation] * len(part), pa.string()),
            "partition": pa.array([partition] * len(part), pa.int32()),
            "offset": pa.array(range(start, start + len(part)), pa.int64()),
            "timestamp": pa.array([at for at, _ in part], pa.int64()),
            "value": pa.array([text.encode() for _, text in part], pa.binary()),
        }
    )


def feed(flow: Flow, log: Log, ranges: Mapping[Place, tuple[int, int]]) -> None:
    for place, (start, stop) in ranges.items():
        relation, partition = place
        origins = {partition: flow.origin(relation, partition)}
        for _, part in intake(relation, batch_of(log, place, start, stop), origins):
            assert isinstance(part, Tray)
            flow.insert(relation, partition, part)


def rows_of(trays: list[Tray]) -> list[TimedRow]:
    return [row for tray in trays for row in tray.rows()]


def outputs(names: Sequence[str] = OUTPUTS) -> dict[str, Node]:
    relations = dict(plan_pipeline(PIPELINE).relations)
    return {name: relations[name] for name in names}


@pytest.mark.parametrize("seed", [1])
def test_spark_up_to_a_cut_and_a_flow_from_there_are_a_flow_all_along(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    log = logs(rng)
    cut = {place: rng.randrange(len(held) // 2, len(held)) for place, held in log.items()}
    before = {place: (0, cut[place]) for place in log}
    after = {place: (cut[place], len(log[place])) for place in log}
    live = Flow(outputs(), PARTITIONS)
    feed(live, log, before)
    wanted = live.drain()

    run = SparkRun(spark, RunDefinition(outputs(), PARTITIONS), str(tmp_path), intake, few=0)
    frames = {
        relation: spark.createDataFrame(
            pa.Table.from_batches([batch_of(log, (relation, each), *before[relation, each]) for each in held])
        )
        for relation, held in PARTITIONS.items()
    }
    run.read(frames)

    for name in OUTPUTS:
        table = run.output(name).toArrow()
        row_type = outputs()[name].row_type
        given = sorted(map(repr, ((row.rowtime, row.row) for row in Tray.from_arrow(row_type, table).rows())))
        assert given == sorted(map(repr, ((row.rowtime, row.row) for row in rows_of(wanted.outputs[name]))))
    assert sorted(map(repr, run.faults.read())) == sorted(map(repr, wanted.faults))
    assert {fault.kind for fault in run.faults.read()} == {"LATE", "REJECTED"}

    handed_over = run.flow()
    handed_over.check()
    assert handed_over.bounds() == live.bounds()
    assert handed_over.counts().by_step == live.counts().by_step
    for flow in (live, handed_over):
        feed(flow, log, after)
    one, other = live.drain(), handed_over.drain()
    for name in OUTPUTS:
        assert rows_of(one.outputs[name]) == rows_of(other.outputs[name])
        assert one.outputs[name]
    assert one.faults == other.faults


def test_tasks_run_the_python_of_the_session(spark: SparkSession) -> None:
    """Not ``python3`` of the PATH, which may lack every package."""
    (found,) = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert spark.sparkContext.pythonExec == sys.executable
    assert Path(found).samefile(sys.executable)
