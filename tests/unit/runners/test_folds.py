"""Rows of an output are folded by tasks of their own: by key, or without a key in several tasks or one."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from rowtide.plan.outputs import table_nodes
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.runners.spark.folding import FoldNote
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.shuffle import given
from rowtide.runners.spark.stage import RunDefinition
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.on_spark import LoggedIntake
from support.spark_stand_in import StandIn

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY;
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
CREATE FOREIGN STREAM readings (sensor INTEGER, number INTEGER) SERVER k OPTIONS (topic 'readings');
CREATE FOREIGN TABLE log (sensor INTEGER, number INTEGER) SERVER d;
CREATE FOREIGN TABLE latest (sensor INTEGER, number INTEGER, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO log SELECT STREAM sensor, number FROM readings;
CREATE PUMP q STARTED AS INSERT INTO latest SELECT STREAM sensor, number FROM readings;
"""
PARTITIONS, ROWS = 4, 40


def noted(trays: Iterable[Tray]) -> Iterator[FoldNote]:
    """Note the rows of each task."""
    yield FoldNote([(each.rowtime, each.row) for tray in trays for each in tray.rows()])


@pytest.fixture
def session() -> StandIn:
    return StandIn(3)


@pytest.fixture
def run(session: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkRun:
    monkeypatch.setattr(given, "BLOCK_ROWS", 4)
    plan = plan_pipeline(SQL)
    nodes = table_nodes(plan)
    definition = RunDefinition(nodes, {"READINGS": range(PARTITIONS)})
    program = definition.program()
    origins = {partition: program.steps[at].place.origin for (_, partition), at in program.entrances.items()}
    (row_type,) = {step.node.row_type for step in program.steps if step.partition == 0}
    rows = [(number % PARTITIONS, number) for number in range(ROWS)]
    trays = [
        Tray.from_rows(
            row_type,
            [TimedRow(1_000 * number, origins[partition], number + 1, Opcode.INSERT, (number % 5, number))],
        )
        for partition, number in rows
    ]
    messages = pa.table(
        {
            "partition": pa.array([partition for partition, _ in rows], pa.int32()),
            "offset": pa.array([number for _, number in rows], pa.int64()),
            "value": pa.array([pickle.dumps(each) for each in trays], pa.binary()),
        }
    )
    made = SparkRun(
        session.as_session(), definition, str(tmp_path), LoggedIntake(), {"LOG": (), "LATEST": (0,)}, few=0
    )
    made.read({"READINGS": session.createDataFrame(messages)})  # type: ignore[dict-item]
    return made


def folded(run: SparkRun, name: str, *, in_any_order: bool) -> list[list[tuple[int, tuple[int, int]]]]:
    table = {each.name: each for each in plan_pipeline(SQL).foreign_tables}[name]
    found = run.fold(name, table.row_type, noted, in_any_order=in_any_order)
    return [each for each in found.notes if isinstance(each, list)]


def test_rows_without_a_key_are_folded_by_one_task_in_order_of_time(run: SparkRun, session: StandIn) -> None:
    (rows,) = folded(run, "LOG", in_any_order=False)
    assert session.jobs[-1] == 1
    assert [row[1] for _, row in rows] == [row[1] for _, row in sorted(rows)]
    assert rows


def test_rows_without_a_key_are_folded_by_several_tasks_if_their_order_does_not_matter(
    run: SparkRun, session: StandIn
) -> None:
    (whole,) = folded(run, "LOG", in_any_order=False)
    parts = folded(run, "LOG", in_any_order=True)
    assert session.jobs[-1] == 3
    assert all(parts)
    assert sorted(row for part in parts for row in part) == sorted(whole)


def test_rows_with_a_key_are_folded_by_key(run: SparkRun) -> None:
    for in_any_order in (False, True):
        parts = folded(run, "LATEST", in_any_order=in_any_order)
        keys = [{row[0] for _, row in part} for part in parts]
        assert sum(map(len, keys)) == len(set().union(*keys)) == 5
        for part in parts:
            assert [rowtime for rowtime, _ in part] == sorted(rowtime for rowtime, _ in part)
