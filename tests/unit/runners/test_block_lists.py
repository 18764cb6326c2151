"""What the driver sends to tasks and gets of them does not grow with the rows, and tasks get their own blocks."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rowtide.plan.nodes import Node
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.shuffle import given
from rowtide.runners.spark.stage import RunDefinition
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.on_spark import LoggedIntake
from support.spark_stand_in import StandIn

SQL = """
CREATE STREAM s (k INTEGER, n INTEGER);
CREATE VIEW sums AS SELECT STREAM FLOOR(s.ROWTIME TO SECOND) AS at, k, SUM(n) AS n FROM s
  GROUP BY FLOOR(s.ROWTIME TO SECOND), k;
CREATE VIEW latest AS SELECT STREAM k, n, LAG(n) OVER (PARTITION BY k ORDER BY ROWTIME) AS before FROM sums;
"""
PARTITIONS, BLOCK_ROWS, HELD_ROWS = 2, 4, 64
ORDER = ("first", "slot", "run", "number")


class Looked:
    """A run of a small pipeline, and the blocks that its tasks got."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, rows: int, parts: int) -> None:
        monkeypatch.setattr(given, "BLOCK_ROWS", BLOCK_ROWS)
        monkeypatch.setattr(given, "HELD_ROWS", HELD_ROWS)
        self.session = StandIn(parts)
        self.folder = folder
        self.run = self._run(folder, rows)

    def _run(self, folder: Path, rows: int) -> SparkRun:
        outputs: dict[str, Node] = {"LATEST": dict(plan_pipeline(SQL).relations)["LATEST"]}
        definition = RunDefinition(outputs, {"S": range(PARTITIONS)})
        program = definition.program()
        places = {at: program.steps[at] for at in program.entrances.values()}
        messages = []
        for number in range(rows):
            step = list(places.values())[number % PARTITIONS]
            row = TimedRow(50 * number, step.place.origin, number, Opcode.INSERT, (number % 11, number))
            content = pickle.dumps(Tray.from_rows(step.node.row_type, [row]))
            messages.append({"partition": step.partition, "offset": number, "value": content})
        schema = pa.schema({"partition": pa.int32(), "offset": pa.int64(), "value": pa.binary()})
        frame = self.session.createDataFrame(pa.Table.from_pylist(messages, schema))
        run = SparkRun(self.session.as_session(), definition, str(folder), LoggedIntake(), few=0)
        run.read({"S": frame})  # type: ignore[dict-item]
        return run


@pytest.mark.parametrize("parts", [3, 7])
def test_tasks_load_as_much_for_more_rows_and_get_the_blocks_of_their_part_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parts: int
) -> None:
    few = Looked(monkeypatch, tmp_path / "few", 200, parts)
    many = Looked(monkeypatch, tmp_path / "many", 3_200, parts)
    assert few.session.jobs == many.session.jobs
    for small, large in zip(few.session.closures, many.session.closures, strict=True):
        # Numbers of rows have more digits.
        assert large <= small * 1.05
    blocks = [(each.run._rows._rows, sum(map(len, each.session.given))) for each in (few, many)]
    assert sum(blocks[1][0].values()) > 10 * sum(blocks[0][0].values())
    assert blocks[1][1] > 8 * blocks[0][1]
    for looked in (few, many):
        done = [
            done for held in looked.run._rows._given.values() for each in held for done in each.done.values()
        ]
        assert max(len(pickle.dumps(replace(each, report=None))) for each in done) < 500
        assert not list(looked.folder.rglob("*"))
    read = [tasks for tasks in many.session.read if len(tasks) == parts and "part" in tasks[0].column_names]
    assert read
    shared = 0
    for tasks in read:
        homes: dict[int, int] = {}
        for task, table in enumerate(tasks):
            assert all(homes.setdefault(part, task) == task for part in table["part"].to_pylist())
            order = list(zip(*(table[name].to_pylist() for name in ORDER), strict=True))
            assert order == sorted(set(order))
        shared += len(homes) > 1
        # Each part has a task of its own.
        assert len(homes) == len(set(homes.values()))
    assert shared


def test_what_spark_keeps_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looked = Looked(monkeypatch, tmp_path, 100, 3)
    assert looked.session.persisted
    looked.run.close()
    assert not looked.session.persisted
