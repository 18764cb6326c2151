"""Folds an output inside tasks: the rows for a table, key by key, in Parquet files."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from rowtide.operators.contract import Fault
from rowtide.rows.tray import Tray, tray_schema
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.runners.spark.given import Layout, TaskFiles
from rowtide.runners.spark.runs import TaskInputs


@dataclass(frozen=True, slots=True)
class FoldNote:
    """The report of a fold to the driver."""

    content: object


FoldFunction = Callable[[Iterable[Tray]], Iterable["Tray | Fault | FoldNote"]]
"""Processes the rows of one task; pickled to the workers."""


@dataclass(frozen=True, slots=True)
class Folded:
    """The result of a fold: files of trays as Parquet, and its reports."""

    paths: Sequence[str]
    notes: Sequence[object]


@dataclass(frozen=True, slots=True)
class FoldDone:
    """The report of one task of a fold to the driver."""

    rows: str | None
    faults: str | None
    notes: Sequence[object]


@dataclass(frozen=True, slots=True)
class FoldTasks:
    """The tasks of a fold. Spark passes each its number among ``inputs``. Pickled to the workers."""

    fold: FoldFunction
    folder: str
    inputs: Sequence[TaskInputs]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the tasks of these numbers, and report each."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                done = pickle.dumps(self._folded(self.inputs[number]))
                yield pa.RecordBatch.from_pydict({"content": pa.array([done], pa.binary())})

    def _folded(self, inputs: TaskInputs) -> FoldDone:
        (row_type,) = inputs.row_types
        files = TaskFiles(Layout(self.folder, 1, {}, frozenset(), has_seq=False), {})
        path = f"{self.folder}/{uuid.uuid4().hex}.parquet"
        notes: list[object] = []
        schema = pa.schema([field.with_nullable(True) for field in tray_schema(row_type)])
        writer: pq.ParquetWriter | None = None
        for each in self.fold(_trays(inputs)):
            if isinstance(each, Fault):
                files.faults([each])
            elif isinstance(each, FoldNote):
                notes.append(each.content)
            else:
                writer = writer or pq.ParquetWriter(path, schema)
                writer.write_table(each.to_arrow().cast(schema))
        if writer is not None:
            writer.close()
        return FoldDone(None if writer is None else path, files.close().faults, notes)


def _trays(inputs: TaskInputs) -> Iterator[Tray]:
    for cut in inputs.in_order({0: Bound(LATEST)}):
        yield from (tray for _, tray, _ in cut.arrivals if tray is not None)
