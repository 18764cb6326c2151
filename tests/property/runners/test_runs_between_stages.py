"""What tasks write and later tasks weave together is what one task would have had."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.operators.contract import Fault
from rowtide.rows.rowop import Opcode, TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, DOUBLE, VARCHAR, Field, RowType, decimal
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.runners.spark.session import BLOCKS_AT_ONCE
from rowtide.runners.spark.shuffle.blocks import RUN, CellKind, blocks_of
from rowtide.runners.spark.shuffle.exchange import Exchange
from rowtide.runners.spark.shuffle.given import Layout, TaskBlocks
from rowtide.runners.spark.shuffle.runs import Causes, MergeLimit, Numbered, Piece, TaskInputs, numbered
from rowtide.runners.spark.waiting import RowsAside, WaitingTasks
from support.spark_stand_in import StandIn

ROW_TYPE = RowType(
    (
        Field("K", VARCHAR),
        Field("X", DOUBLE),
        Field("D", decimal(12, 2)),
        Field("N", BIGINT, nullable=False),
    )
)
PARTS = 3
keys = st.one_of(st.none(), st.sampled_from(["", "a", "ab", "a longer key than eight bytes"]))
"""One causes rows of several keys: they share its place."""
causes = st.lists(st.tuples(st.integers(0, 5), st.lists(keys, min_size=1, max_size=4)), max_size=30)


def rows_of(log: Sequence[tuple[int, Sequence[str | None]]], origin: int) -> list[TimedRow]:
    found = []
    for counter, (rowtime, caused) in enumerate(sorted(log, key=lambda each: each[0])):
        for number, key in enumerate(caused):
            row = (key, None if key is None else -0.0, None if key is None else Decimal(-number) / 4, number)
            found.append(TimedRow(rowtime, origin, counter, Opcode.INSERT, row))
    return list(Tray.from_rows(ROW_TYPE, found).rows())


SLOT = 5


def written(rows: Sequence[TimedRow], split: tuple[int, ...], run: int = 0) -> pa.Table:
    """Return the blocks of a task's rows, as Spark has them."""
    blocks = TaskBlocks(Layout(PARTS, {0: [(SLOT, split)]}, has_seq=True), {0: ROW_TYPE})
    if rows:
        blocks.rows(0, numbered(Tray.from_rows(ROW_TYPE, rows), None))
    found = pa.Table.from_batches(blocks.close(None))
    return found.filter(pc.equal(found["kind"], CellKind.ROWS)).append_column(
        RUN, pa.array([run] * pc.sum(pc.equal(found["kind"], CellKind.ROWS)).as_py(), pa.int32())
    )


def of_parts(blocks: pa.Table, parts: Sequence[int]) -> list[pa.RecordBatch]:
    """Return what the task of these parts gets."""
    mine = blocks.filter(pc.is_in(blocks["part"], pa.array(parts, pa.int32())))
    order = [(name, "ascending") for name in ("first", "slot", "run", "number")]
    return list(mine.sort_by(order).to_batches(BLOCKS_AT_ONCE))


def read(
    blocks: pa.Table, parts: Sequence[int], at_once: int, piece: Piece | None = None
) -> list[list[TimedRow]]:
    inputs = TaskInputs({0: [piece or Piece(SLOT)]}, [ROW_TYPE], (1, 2), at_once)
    cuts = inputs.in_order(blocks_of(of_parts(blocks, parts)), {0: Bound(LATEST)})
    return [list(tray.rows()) for cut in cuts for _, tray, _ in cut.arrivals if tray is not None]


@given(causes, causes, st.integers(1, 7), st.sampled_from([(), (0,), (0, 1), (2, 0)]))
def test_rows_of_several_runs_come_in_consistent_time_each_in_its_part(
    one: list[tuple[int, list[str | None]]],
    other: list[tuple[int, list[str | None]]],
    at_once: int,
    split: tuple[int, ...],
) -> None:
    all_rows = [*rows_of(one, 1), *rows_of(other, 2)]
    in_time = sorted(all_rows, key=lambda row: (row.rowtime, row.origin, row.counter, row.row[3]))
    blocks = pa.concat_tables([written(rows_of(one, 1), split), written(rows_of(other, 2), split, 1)])
    by_part = [read(blocks, [part], at_once) for part in range(PARTS)]
    together = [row for cut in read(blocks, range(PARTS), at_once) for row in cut]
    assert list(map(repr, together)) == list(map(repr, in_time))
    homes: dict[object, int] = {}
    for part, cuts in enumerate(by_part):
        mine = [row for cut in cuts for row in cut]
        # A cut ends with its last place.
        assert all(sum(row[:3] != cut[-1][:3] for row in cut) < at_once for cut in cuts)
        assert list(map(repr, mine)) == [repr(row) for row in in_time if row in mine]
        for row in mine if split else ():
            assert homes.setdefault(tuple(row.row[at] for at in split), part) == part
    assert sum(len(cut) for cuts in by_part for cut in cuts) == len(in_time)


class Kept:
    """What a stage gives, in memory."""

    def __init__(self) -> None:
        self.parts: list[Numbered] = []

    def rows(self, at: int, rows: Numbered) -> None:
        self.parts.append(rows)

    def faults(self, faults: Sequence[Fault]) -> None:
        raise AssertionError(faults)


@given(causes, st.integers(1, 7), st.integers(1, 3))
def test_what_tasks_make_of_the_rows_of_one_place_keeps_the_order_of_those_rows(
    log: list[tuple[int, list[str | None]]], at_once: int, made: int
) -> None:
    rows = rows_of(log, 1)
    wanted = [repr((row.rowtime, row.counter, row.row[3], each)) for row in rows for each in range(made)]
    found = []
    blocks = written(rows, (0,))
    inputs = TaskInputs({0: [Piece(SLOT)]}, [ROW_TYPE], (1,), at_once)
    for part in range(PARTS):
        for cut in inputs.in_order(blocks_of(of_parts(blocks, [part])), {0: Bound(LATEST)}):
            ((_, tray, _),) = cut.arrivals
            assert tray is not None
            repeated = tray.take(np.repeat(np.arange(len(tray)), made))
            given_ = numbered(repeated, cut.causes)
            for turn, (row, seq) in enumerate(zip(repeated.rows(), given_.seq.tolist(), strict=True)):
                shown = repr((row.rowtime, row.counter, row.row[3], turn % made))
                found.append(((row.rowtime, row.counter, seq), shown))
    assert [shown for _, shown in sorted(found, key=lambda each: each[0])] == wanted


@settings(max_examples=50)
@given(causes, st.integers(0, 5), st.integers(-1, 31))
def test_what_a_merge_lets_through_and_what_waits_are_all_rows(
    log: list[tuple[int, list[str | None]]], rowtime: int, counter: int
) -> None:
    rows = rows_of(log, 1)
    limit = MergeLimit((rowtime, 0, counter), 0, {1: 0})
    blocks = written(rows, ())
    passing = read(blocks, [0], 7, Piece(SLOT).behind(limit, meets_itself=False))
    aside = Piece(SLOT, last=max((row.rowtime for row in rows), default=-1)).waiting(limit)
    waiting = [row for cut in read(blocks, [0], 7, aside) for row in cut] if aside is not None else []
    kept: list[TimedRow] = []
    if aside is not None:
        work = WaitingTasks(TaskInputs({0: [aside]}, [ROW_TYPE], (1, 2), 7))
        session = StandIn(1).as_session()
        exchange = Exchange(session, 1)
        given_ = exchange.put(work(of_parts(blocks, [0])), 0)
        with tempfile.TemporaryDirectory() as folder:
            held = RowsAside(given_, ROW_TYPE, folder)
            kept = list(Tray.from_arrow(ROW_TYPE, held.table(0)).rows()) if held.counts else []
    assert list(map(repr, [*(row for cut in passing for row in cut), *waiting])) == list(map(repr, rows))
    assert list(map(repr, kept)) == list(map(repr, waiting))
    if kept:
        assert (held.counts[0].rows, held.counts[0].first, held.counts[0].last) == (
            len(kept),
            (kept[0].rowtime, kept[0].origin, kept[0].counter),
            (kept[-1].rowtime, kept[-1].origin, kept[-1].counter),
        )
    assert all((row.rowtime, row.counter) < (rowtime, counter) for cut in passing for row in cut)


def test_a_place_that_a_stage_made_itself_has_no_cause() -> None:
    tray = Tray.from_rows(ROW_TYPE, rows_of([(1, ["a", "b"])], 1))
    cause = numbered(tray, None)
    own = Tray.from_rows(ROW_TYPE, rows_of([(1, ["c"])], 2))
    assert numbered(own, Causes(tray.origin, tray.counter, cause.seq)).seq.tolist() == [0]
