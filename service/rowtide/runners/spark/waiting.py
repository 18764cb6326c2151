"""Rows that wait in a merge for another input: they stay in files, sorted, and become state there.

A partition without a row holds back all rows of its stream. The driver learns
how many they are, where the first and the last of them stand, and where the
file is that the commit reads as state, batch by batch.

Imported by workers; never imports pyspark.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from rowtide.operators.merge.merge import Threshold
from rowtide.rows.tray import Tray, tray_schema
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.runners.spark.runs import TaskInputs

Place = tuple[int, int, int]
"""Rowtime, origin and counter of a row."""


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """Rows of one port of a merge, in their order: their file, their number, the places of two of them."""

    path: str
    rows: int
    first: Place
    last: Place

    @property
    def bound(self) -> Bound:
        """The bound of the port after them: the last row is also a bound just before it."""
        rowtime, origin, counter = self.last
        return Bound(rowtime, origin, counter - 1)

    def first_place(self, port: int, ranks: Mapping[int, int]) -> Threshold:
        """Return the place of the first row at a port of a merge."""
        rowtime, origin, counter = self.first
        return rowtime, ranks[origin], counter, port

    def table(self) -> pa.Table:
        """Return the rows as a table of ``tray_schema``, which lies in the file and not in memory."""
        return pyarrow.ipc.open_file(pa.memory_map(self.path)).read_all()


@dataclass(frozen=True, slots=True)
class WaitingTasks:
    """The tasks that write waiting rows, one for each port. Pickled to the workers."""

    folder: str
    inputs: Sequence[TaskInputs]
    row_type: RowType

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the ports of these numbers, and report each."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                found = pickle.dumps((number, self.written(number)))
                yield pa.RecordBatch.from_pydict({"content": pa.array([found], pa.binary())})

    def written(self, number: int) -> WaitingFile | None:
        """Write the rows of one port; None: there are none."""
        schema = tray_schema(self.row_type)
        path = f"{self.folder}/{uuid.uuid4().hex}.waiting"
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        count, first, last = 0, None, None
        # Not compressed, so that the file can be read as it lies there.
        with pa.OSFile(path, "wb") as sink, pyarrow.ipc.new_file(sink, schema) as writer:
            for cut in self.inputs[number].in_order({0: Bound(LATEST)}):
                for tray in (tray for _, tray, _ in cut.arrivals if tray is not None):
                    writer.write_table(tray.to_arrow().cast(schema))
                    count += len(tray)
                    first, last = first or _place(tray, 0), _place(tray, -1)
        if first is None or last is None:
            Path(path).unlink()
            return None
        return WaitingFile(path, count, first, last)


def _place(tray: Tray, at: int) -> Place:
    return int(tray.rowtime[at]), int(tray.origin[at]), int(tray.counter[at])
