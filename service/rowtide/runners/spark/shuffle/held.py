"""What the tasks of one stage gave, as the driver has it: the blocks stay with Spark, a few come to the driver, too.

A stage whose input is few rows takes longer to start as a job than to process. So the driver gets a copy of small
blocks with the message of each task (see ``blocks.Done``), and may do the work of one task itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.runners.spark.session import BLOCKS_AT_ONCE
from rowtide.runners.spark.shuffle.blocks import (
    AS_INPUT,
    BLOCK_SCHEMA,
    RUN,
    CellKind,
    Done,
    state_cells,
    unpacked,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COPIED_BYTES = 4 << 20
"""Maximum size of the copies of the blocks of one stage that the driver keeps."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a frame, by run and number, a few at a time. ``counts`` are the cells of each run."""

    frame: DataFrame
    counts: Mapping[int, int]

    def __iter__(self) -> Iterator[bytes]:
        """Read the cells."""
        for first, last, start, stop in self._bundles():
            wanted = f"run >= {first} AND run <= {last}"
            if stop:
                wanted += f" AND number >= {start} AND number < {stop}"
            found = self.frame.where(wanted).select("run", "number", "cell").collect()
            for row in sorted(found, key=lambda each: (each[0], each[1])):
                yield bytes(row[2])

    def _bundles(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the first and last run to be read at once; and the range of numbers, if not all."""
        together: list[int] = []
        count = 0
        for run in sorted(run for run, cells in self.counts.items() if cells):
            if together and count + self.counts[run] > BLOCKS_AT_ONCE:
                yield together[0], together[-1], 0, 0
                together, count = [], 0
            if self.counts[run] > BLOCKS_AT_ONCE:
                for start in range(0, self.counts[run], BLOCKS_AT_ONCE):
                    yield run, run, start, start + BLOCKS_AT_ONCE
            else:
                together.append(run)
                count += self.counts[run]
        if together:
            yield together[0], together[-1], 0, 0


@dataclass(slots=True)
class StageGiven:
    """What the tasks of one job gave, by run; or the driver, as one run.

    ``frame`` has the blocks, with Spark; None: Spark does not have them yet, see ``Exchange.frame``, or there are none.
    ``copy`` has them in this process, as ``run`` and ``BLOCKS``; None: they are too large.
    """

    done: Mapping[int, Done]
    frame: DataFrame | None = None
    copy: pa.Table | None = field(default=None, repr=False)

    def cells(self, kind: CellKind, slot: int = 0, runs: Iterable[int] | None = None) -> Iterable[bytes]:
        """Return the cells of one kind and slot; of all runs unless they are named."""
        wanted = list(self.done if runs is None else runs)
        if self.copy is not None:
            found = self.copy.filter((pc.field("kind") == int(kind)) & (pc.field("slot") == slot))
            found = found.filter(pc.field("run").isin(wanted)).sort_by(
                [("run", "ascending"), ("number", "ascending")]
            )
            cells: list[bytes] = found.column("cell").to_pylist()
            return cells
        if self.frame is None:
            return ()
        counts = {run: self.done[run].blocks.get((kind, slot), 0) for run in wanted}
        return Cells(self.frame.where(f"kind = {int(kind)} AND slot = {slot}"), counts)

    def batches(self, slot: int, runs: Iterable[int] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows of a slot."""
        return map(unpacked, self.cells(CellKind.ROWS, slot, runs))

    def report(self, run: int) -> bytes:
        """Return the report of a task, pickled."""
        inline = self.done[run].report
        return b"".join(self.cells(CellKind.REPORT, runs=[run])) if inline is None else inline


@dataclass(frozen=True, slots=True)
class StageBlocks:
    """The blocks that a stage reads: some slots of what others gave, at least one of which has blocks, or none.

    ``since``: without the blocks whose rows are all before this rowtime. ``states`` are those that the parts begin
    with.
    """

    given: Sequence[tuple[StageGiven, frozenset[int]]]
    since: int | None = None
    states: Sequence[bytes] = ()

    @property
    def are_here(self) -> bool:
        """Return whether this process has all of them."""
        return all(each.copy is not None for each, _ in self.given)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield them as the only task of a stage gets them from Spark."""
        if self.states:
            yield from state_cells(self.states).to_batches(BLOCKS_AT_ONCE)
        tables = []
        for each, slots in self.given:
            if each.copy is not None:
                wanted = (pc.field("kind") == int(CellKind.ROWS)) & pc.field("slot").isin(sorted(slots))
                if self.since is not None:
                    wanted &= pc.field("last") >= self.since
                tables.append(each.copy.filter(wanted).select(AS_INPUT))
        order = [(name, "ascending") for name in ("first", "slot", "run", "number")]
        yield from pa.concat_tables(tables).sort_by(order).combine_chunks().to_batches(BLOCKS_AT_ONCE)


def of_tasks(cells: Mapping[int, bytes], frame: DataFrame) -> StageGiven:
    """Return what tasks gave, with the copies of their blocks unless they are too many.

    ``cells`` are the pickled ``Done`` of each run. A frame without rows may have no tasks.
    """
    done: dict[int, Done] = {run: pickle.loads(cell) for run, cell in cells.items()}
    copies = [(run, each.copy) for run, each in done.items() if each.copy is not None]
    bare = {run: replace(each, copy=None) for run, each in done.items()}
    if len(copies) < len(done) or sum(each.nbytes for _, each in copies) > COPIED_BYTES:
        return StageGiven(bare, frame)
    return StageGiven(bare, frame, _together(copies))


def of_driver(batches: Iterable[pa.RecordBatch], run: int) -> StageGiven:
    """Return what this process has made as the run of a number."""
    table = pa.Table.from_batches(batches)
    is_done = np.asarray(table.column("kind")) == CellKind.DONE
    (content,) = table.filter(pa.array(is_done)).column("cell").to_pylist()
    done: Done = pickle.loads(content)
    blocks = [(run, each) for each in table.filter(pa.array(~is_done)).to_batches()]
    return StageGiven({run: replace(done, copy=None)}, None, _together(blocks))


def _together(blocks: Sequence[tuple[int, pa.RecordBatch]]) -> pa.Table:
    """Return blocks with the number of the run of each."""
    table = pa.Table.from_batches([each for _, each in blocks], BLOCK_SCHEMA)
    numbers = np.array([run for run, _ in blocks], dtype=np.int32)
    return table.add_column(0, RUN, pa.array(np.repeat(numbers, [each.num_rows for _, each in blocks])))
