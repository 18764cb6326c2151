"""What the driver sends to tasks does not grow with the rows, and tasks look up their own blocks only."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rowtide.plan.nodes import Node
from rowtide.rows.arrays import Int64s
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.runners.spark import given
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.runs import NUMBER, PART, ROWS, Run
from rowtide.runners.spark.stage import RunDefinition
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.on_spark import LoggedIntake
from spark_stand_in import StandIn

SQL = """
CREATE STREAM s (k INTEGER, n INTEGER);
CREATE VIEW sums AS SELECT STREAM FLOOR(s.ROWTIME TO SECOND) AS at, k, SUM(n) AS n FROM s
  GROUP BY FLOOR(s.ROWTIME TO SECOND), k;
CREATE VIEW latest AS SELECT STREAM k, n, LAG(n) OVER (PARTITION BY k ORDER BY ROWTIME) AS before FROM sums;
"""
PARTITIONS, BLOCK_ROWS, HELD_ROWS = 2, 4, 64


class Looked:
    """A run of a small pipeline, and the blocks that its tasks looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, rows: int, parts: int) -> None:
        monkeypatch.setattr(given, "BLOCK_ROWS", BLOCK_ROWS)
        monkeypatch.setattr(given, "HELD_ROWS", HELD_ROWS)
        self.session = StandIn(parts)
        self.found: list[tuple[str, int]] = []
        blocks_of = Run.blocks_of

        def looked_up(run: Run, part: int) -> Int64s:
            blocks = blocks_of(run, part)
            assert set(blocks[PART].tolist()) <= {part}
            self.found += [(run.path, number) for number in blocks[NUMBER].tolist()]
            return blocks

        with monkeypatch.context() as patched:
            patched.setattr(Run, "blocks_of", looked_up)
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
def test_tasks_load_as_much_for_more_rows_and_look_up_no_block_of_another_part(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parts: int
) -> None:
    few = Looked(monkeypatch, tmp_path / "few", 200, parts)
    many = Looked(monkeypatch, tmp_path / "many", 3_200, parts)
    assert few.session.jobs == many.session.jobs
    assert len(many.found) > 8 * len(few.found)
    for small, large in zip(few.session.closures, many.session.closures, strict=True):
        # Numbers of rows have more digits.
        assert large <= small * 1.05
    # By the stage that reads it, and by a merge that looks for rows that wait.
    assert max(Counter(many.found).values()) <= 2
    index = {str(path): np.load(f"{path}.npy") for path in (tmp_path / "many").rglob("*.arrow")}
    assert {path for path, _ in many.found} == set(index)
    assert len(set(many.found)) == sum(each.shape[1] for each in index.values())
    assert all(each[ROWS].max() <= BLOCK_ROWS for each in index.values())
