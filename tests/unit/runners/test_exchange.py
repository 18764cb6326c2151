"""Blocks between stages: where Spark puts them, how the driver reads them, and that a repeated task gives the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from rowtide.flow.segments import segments
from rowtide.plan.nodes import Node
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, Field, RowType
from rowtide.rowtime.bound import Bound
from rowtide.runners.spark.session import BLOCKS_AT_ONCE
from rowtide.runners.spark.shuffle.blocks import (
    BATCH_BYTES,
    COPY_BYTES,
    INLINE_BYTES,
    BlockWriter,
    CellKind,
    unpacked,
)
from rowtide.runners.spark.shuffle.exchange import Exchange, Spread, hashed_to, murmur3
from rowtide.runners.spark.shuffle.given import Layout, TaskBlocks
from rowtide.runners.spark.shuffle.held import COPIED_BYTES, StageBlocks, StageGiven, of_tasks
from rowtide.runners.spark.shuffle.runs import Piece, TaskInputs, numbered
from rowtide.runners.spark.stage import RunDefinition, SegmentTask, StageTasks
from rowtide.sql.pipeline import plan_pipeline
from support.spark_stand_in import StandIn

ROW_TYPE = RowType((Field("K", BIGINT), Field("N", BIGINT)))
SQL = """
CREATE STREAM s (k BIGINT, n BIGINT);
CREATE VIEW sums AS SELECT STREAM FLOOR(s.ROWTIME TO SECOND) AS at, k, SUM(n) AS n FROM s
  GROUP BY FLOOR(s.ROWTIME TO SECOND), k;
"""


def tray(rowtimes: Iterable[int], origin: int = 1) -> Tray:
    rows = [
        TimedRow(at, origin, number, Opcode.INSERT, (at % 3, number)) for number, at in enumerate(rowtimes)
    ]
    return Tray.from_rows(ROW_TYPE, rows)


def test_the_hash_is_that_of_spark() -> None:
    """Spark 4.0: ``SELECT hash(0), hash(1), hash(42), hash(-1)``."""
    numbers = np.array([0, 1, 42, -1], dtype=np.int64).astype(np.uint32)
    assert murmur3(numbers).tolist() == [933211791, -559580957, 29417773, -1604776387]


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 200, 1_000])
def test_each_part_has_a_number_that_is_hashed_to_it(parts: int) -> None:
    numbers = np.array(hashed_to(parts), dtype=np.uint32)
    assert (murmur3(numbers).astype(np.int64) % parts).tolist() == list(range(parts))


def given_by(counts: Iterable[int], session: StandIn) -> StageGiven:
    """Return what tasks gave that each had so many blocks of one row."""
    exchange = Exchange(session.as_session(), 3)
    tasks = session.createDataFrame(pa.table({"count": pa.array(counts, pa.int64())})).each_alone()

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = BlockWriter()
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for at in range(number):
                row = pa.RecordBatch.from_pydict({"n": pa.array([1_000 * number + at])})
                writer.rows(0, 0, row, np.array([at]))
                yield from writer.taken()
        yield from writer.close(None)

    return exchange.run(tasks, work)  # type: ignore[arg-type]


@pytest.mark.parametrize("counts", [[3, 0, 2], [40, 1, 1, 16, 17], [1] * 50, [0]])
def test_the_driver_reads_blocks_in_order_a_few_at_a_time(counts: list[int]) -> None:
    session = StandIn(3)
    given = given_by(counts, session)
    session.collected.clear()
    found = [batch.column("n")[0].as_py() for batch in given.batches(0)]
    assert found == [1_000 * count + at for count in counts for at in range(count)]
    assert all(rows <= BLOCKS_AT_ONCE for rows in session.collected)
    assert len(session.collected) <= 2 * sum(counts) / BLOCKS_AT_ONCE + 3


@pytest.mark.parametrize("size", [10, INLINE_BYTES, INLINE_BYTES + 1, 3 * BATCH_BYTES])
def test_a_large_report_comes_in_pieces(size: int) -> None:
    def work(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from BlockWriter().close(b"x" * size)

    session = StandIn(1)
    given = Exchange(session.as_session(), 1).run(session.createDataFrame(pa.table({"n": [1]})), work)  # type: ignore[arg-type]
    assert (given.done[0].report is None) is (size + 100 > INLINE_BYTES)
    content = given.report(0)
    assert content.count(b"x") == size
    assert all(len(cell) <= BATCH_BYTES for cell in given.cells(CellKind.REPORT))


def test_rows_out_of_order_are_sorted_within_their_block() -> None:
    blocks = TaskBlocks(Layout(1, {0: [(0, ())]}, has_seq=True), {0: ROW_TYPE})
    blocks.rows(0, numbered(tray([5, 3, 9, 3]), None))
    blocks.rows(0, numbered(tray([1], origin=2), None))
    exchange = Exchange(StandIn(1).as_session(), 1)
    given = exchange.put(blocks.close(None), 0)
    ((run, done),) = given.done.items()
    assert (done.rows, done.last) == ({0: 5}, {0: 9})
    (batch,) = given.batches(0, [run])
    assert batch.column("$rowtime").to_pylist() == [1, 3, 3, 5, 9]
    assert batch.column("$counter").to_pylist() == [0, 1, 3, 0, 2]


def test_a_task_that_runs_again_gives_the_same_bytes() -> None:
    outputs: dict[str, Node] = {"SUMS": dict(plan_pipeline(SQL).relations)["SUMS"]}
    definition = RunDefinition(outputs, {"S": range(1)})
    session = StandIn(3)
    exchange = Exchange(session.as_session(), 3)
    blocks = TaskBlocks(Layout(3, {0: [(1, (0,))]}, has_seq=True), {0: ROW_TYPE})
    for start in range(0, 5_000, 100):
        blocks.rows(0, numbered(tray(range(start, start + 100), origin=start % 2), None))
    given = exchange.put(blocks.close(None), 0)
    program = definition.program()
    at = program.outputs["SUMS"]
    number = next(turn for turn, each in enumerate(segments(program)) if at in each.steps)
    layout = Layout(3, {at: [(0, ())]}, has_seq=True)
    inputs = TaskInputs({0: [Piece(1)]}, [ROW_TYPE], (0, 1))
    work = StageTasks(SegmentTask(definition, number, {0: Bound(4_000)}, in_parts=True), layout, inputs)
    read = StageBlocks([(given, frozenset([1]))])
    once, again = (exchange.run_stage(read, Spread.PART, work) for _ in range(2))
    assert once.done == again.done
    assert sum(len(table) for table in session.given) > 6
    assert session.given[-1].equals(session.given[-2])
    assert unpacked(pa.py_buffer(next(iter(once.cells(CellKind.ROWS))))).num_rows
    # So does the driver.
    alone = exchange.run_stage(read, Spread.ONE, work)
    here = exchange.run_here(read, work)
    assert here is not None and here.copy is not None and alone.copy is not None
    assert here.done == alone.done
    assert here.copy.equals(alone.copy)


def test_the_driver_has_no_copy_of_many_blocks() -> None:
    def tasks(count: int, size: int) -> StageGiven:
        def work(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            writer = BlockWriter()
            noise = np.random.default_rng(1).integers(1 << 62, size=size // 8)
            writer.rows(0, 0, pa.RecordBatch.from_pydict({"n": noise}), np.array([1]))
            yield from writer.close(None)

        session = StandIn(3)
        frame = session.createDataFrame(pa.table({"n": list(range(count))})).each_alone()
        return Exchange(session.as_session(), 3).run(frame, work)  # type: ignore[arg-type]

    few = tasks(3, COPY_BYTES // 2)
    assert few.copy is not None and len(few.copy) == 3
    assert list(few.batches(0)) == list(StageGiven(few.done, few.frame).batches(0))
    assert tasks(3, COPY_BYTES + 8).copy is None
    assert tasks(2 * COPIED_BYTES // COPY_BYTES + 2, COPY_BYTES // 2).copy is None


def test_a_frame_without_rows_may_have_no_task() -> None:
    session = StandIn(3)
    frame = session.createDataFrame(pa.table({"n": [1]}))
    given = of_tasks({}, frame)  # type: ignore[arg-type]
    assert given.copy is not None and given.copy.column_names[0] == "run"
    assert list(given.cells(CellKind.ROWS)) == []
