"""Folds an output inside tasks: the rows for a table, key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rowtide.operators.contract import Fault
from rowtide.rows.tray import Tray, tray_schema
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.runners.spark.shuffle.blocks import blocks_of
from rowtide.runners.spark.shuffle.given import Layout, TaskBlocks
from rowtide.runners.spark.shuffle.runs import BLOCK_ROWS, TaskInputs

if TYPE_CHECKING:
    from rowtide.runners.spark.shuffle.held import StageGiven


@dataclass(frozen=True, slots=True)
class FoldNote:
    """The report of a fold to the driver."""

    content: object


@dataclass(frozen=True, slots=True)
class FoldCount:
    """The rows that a fold has got, and how many of them it has rejected."""

    rows: int
    rejected: int


FoldFunction = Callable[[Iterable[Tray]], Iterable["Tray | Fault | FoldNote"]]
"""Processes the rows of one task; pickled to the workers."""


@dataclass(frozen=True, slots=True)
class Folded:
    """The result of a fold: its rows, which stay with Spark, and its reports."""

    given: Sequence[StageGiven]
    row_type: RowType
    notes: Sequence[object]

    def trays(self) -> Iterator[Tray]:
        """Read the rows, task by task, a few blocks at a time."""
        for each in self.given:
            for batch in each.batches(0):
                yield Tray.from_arrow(self.row_type, batch)


@dataclass(frozen=True, slots=True)
class FoldTasks:
    """The tasks of a fold. Pickled to the workers."""

    fold: FoldFunction
    inputs: TaskInputs

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fold one task's rows, and report the notes."""
        (row_type,) = self.inputs.row_types
        given = TaskBlocks(Layout(1, {}, has_seq=False), {})
        notes: list[object] = []
        schema = pa.schema([field.with_nullable(True) for field in tray_schema(row_type)])
        for each in self.fold(self._trays(batches)):
            if isinstance(each, Fault):
                given.faults([each])
            elif isinstance(each, FoldNote):
                notes.append(each.content)
            else:
                for start in range(0, len(each), BLOCK_ROWS):
                    rows = each.slice(start, min(start + BLOCK_ROWS, len(each)))
                    (batch,) = rows.to_arrow().cast(schema).combine_chunks().to_batches()
                    given.write(0, 0, batch, rows.rowtime)
            yield from given.taken()
        yield from given.close(notes)

    def _trays(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Tray]:
        for cut in self.inputs.in_order(blocks_of(batches), {0: Bound(LATEST)}):
            yield from (tray for _, tray, _ in cut.arrivals if tray is not None)
