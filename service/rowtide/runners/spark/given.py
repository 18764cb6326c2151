"""The output of a task, in its own files: runs for later stages, rows of outputs, faults, its report.

File names are never used twice: a repeated task writes other files, and the
driver uses only the files that a finished task reports.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from rowtide.operators.contract import Fault
from rowtide.operators.storage.key_parts import parts_of
from rowtide.rows.tray import tray_schema
from rowtide.rows.types import RowType
from rowtide.runners.spark.runs import (
    BLOCK_ROWS,
    PART,
    ROWS,
    SEQ,
    Numbered,
    Run,
    Split,
    rows_batch,
    rows_schema,
    write_index,
)

HELD_ROWS = 1 << 17
"""Rows that a task gathers before it writes them, so that each part has blocks of some size."""
FAULTS_AT_ONCE = 1_000
"""Faults of one row of a file."""
REPORT = "$report"
FAULTS_SCHEMA = pa.schema([(SEQ, pa.int64()), (REPORT, pa.binary())])
"""The number of faults, and the pickled faults."""
_OPTIONS = pyarrow.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class TaskOutput(Protocol):
    """Receives the output of a task's work."""

    def rows(self, at: int, rows: Numbered) -> None:
        """Take rows of a step, in their order."""

    def faults(self, faults: Sequence[Fault]) -> None:
        """Take faults, in their order."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The destination of a stage's rows: a folder, and for each step the split into ``parts``.

    ``outputs`` are the steps whose rows are also kept as Parquet.
    """

    folder: str
    parts: int
    splits: Mapping[int, Sequence[Split]]
    outputs: frozenset[int]
    has_seq: bool


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one task: runs by step and split, outputs by step, faults."""

    runs: Mapping[tuple[int, Split], Run]
    outputs: Mapping[int, str]
    faults: str | None


@dataclass(slots=True)
class _Runs:
    """One file of runs: the steps of one node, split one way."""

    path: str
    schema: pa.Schema
    sink: pa.OSFile
    writer: Any
    blocks: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    count: int = 0

    def write(self, at: int, part: int, rows: pa.RecordBatch, first: int, last: int) -> None:
        self.writer.write_batch(rows)
        self.blocks.setdefault(at, []).append((self.count, part, rows.num_rows, first, last))
        self.count += 1

    def close(self, unsorted: Collection[int], *, has_seq: bool) -> dict[int, Run]:
        """Write the index, and return the run of each step."""
        self.writer.close()
        self.sink.close()
        index: list[tuple[int, ...]] = []
        runs = {}
        for at, blocks in self.blocks.items():
            start = len(index)
            index += sorted(blocks, key=itemgetter(PART))
            rows = sum(block[ROWS] for block in blocks)
            runs[at] = Run(self.path, start, len(index), rows, at not in unsorted, has_seq)
        write_index(self.path, index)
        return runs


class TaskFiles:
    """Writes the files of one task. ``row_types`` are those of the steps with rows."""

    def __init__(self, layout: Layout, row_types: Mapping[int, RowType]) -> None:
        self._layout = layout
        self._row_types = row_types
        self._held: dict[int, list[Numbered]] = {}
        self._holding = 0
        self._last: dict[int, int] = {}
        self._unsorted: set[int] = set()
        self._runs: dict[tuple[RowType, Split], _Runs] = {}
        self._outputs: dict[int, tuple[str, pq.ParquetWriter]] = {}
        self._faults: list[Fault] = []
        self._fault_file: tuple[str, pq.ParquetWriter] | None = None
        Path(layout.folder).mkdir(parents=True, exist_ok=True)

    def rows(self, at: int, rows: Numbered) -> None:
        self._held.setdefault(at, []).append(rows)
        self._holding += len(rows)
        if self._holding >= HELD_ROWS:
            self._write_rows()

    def faults(self, faults: Sequence[Fault]) -> None:
        self._faults += faults
        while len(self._faults) >= FAULTS_AT_ONCE:
            self._write_faults(FAULTS_AT_ONCE)

    def close(self) -> Files:
        """Write the rest, and return the places of all files."""
        self._write_rows()
        if self._faults:
            self._write_faults(len(self._faults))
        runs: dict[tuple[int, Split], Run] = {}
        for (_, split), each in self._runs.items():
            closed = each.close(self._unsorted, has_seq=self._layout.has_seq)
            runs.update(((at, split), run) for at, run in closed.items())
        for _, writer in self._outputs.values():
            writer.close()
        if self._fault_file is not None:
            self._fault_file[1].close()
        return Files(
            runs,
            {at: path for at, (path, _) in self._outputs.items()},
            None if self._fault_file is None else self._fault_file[0],
        )

    def keep(self, report: object) -> str:
        """Write a report, and return its place."""
        path = self._new_path("pickle")
        Path(path).write_bytes(pickle.dumps(report))
        return path

    def _write_rows(self) -> None:
        for at, parts in self._held.items():
            self._write_step(at, Numbered.concat(parts))
        self._held.clear()
        self._holding = 0

    def _write_step(self, at: int, rows: Numbered) -> None:
        rowtime = rows.tray.rowtime
        if self._last.get(at, int(rowtime[0])) > int(rowtime[0]) or (rowtime[1:] < rowtime[:-1]).any():
            self._unsorted.add(at)
        self._last[at] = int(rowtime[-1])
        if at in self._layout.outputs:
            schema = output_schema(self._row_types[at])
            if at not in self._outputs:
                path = self._new_path("parquet")
                self._outputs[at] = path, pq.ParquetWriter(path, schema)
            table = rows.tray.to_arrow().append_column(schema.field(SEQ), pa.array(rows.seq))
            self._outputs[at][1].write_table(table.cast(schema))
        for split in self._layout.splits.get(at, ()):
            runs = self._file(self._row_types[at], split)
            for part, own in _apart(rows, split, self._layout.parts):
                for start in range(0, len(own), BLOCK_ROWS):
                    block = own.slice(start, min(start + BLOCK_ROWS, len(own)))
                    batch = rows_batch(runs.schema, block.tray, block.seq if self._layout.has_seq else None)
                    first, last = int(block.tray.rowtime[0]), int(block.tray.rowtime[-1])
                    runs.write(at, part, batch, first, last)

    def _file(self, row_type: RowType, split: Split) -> _Runs:
        found = self._runs.get((row_type, split))
        if found is None:
            path, schema = self._new_path("arrow"), rows_schema(row_type, has_seq=self._layout.has_seq)
            sink = pa.OSFile(path, "wb")
            found = _Runs(path, schema, sink, pyarrow.ipc.new_file(sink, schema, options=_OPTIONS))
            self._runs[row_type, split] = found
        return found

    def _write_faults(self, count: int) -> None:
        if self._fault_file is None:
            path = self._new_path("parquet")
            self._fault_file = path, pq.ParquetWriter(path, FAULTS_SCHEMA)
        content = pickle.dumps(self._faults[:count])
        del self._faults[:count]
        columns = [pa.array([count], pa.int64()), pa.array([content], pa.binary())]
        self._fault_file[1].write_batch(pa.RecordBatch.from_arrays(columns, schema=FAULTS_SCHEMA))

    def _new_path(self, suffix: str) -> str:
        return f"{self._layout.folder}/{uuid.uuid4().hex}.{suffix}"


def output_schema(row_type: RowType) -> pa.Schema:
    """Return the schema of an output's Parquet files: a tray's, and ``$seq``."""
    return tray_schema(row_type).append(pa.field(SEQ, pa.int64()))


def _apart(rows: Numbered, split: Split, parts: int) -> list[tuple[int, Numbered]]:
    """Return each part that has rows, with its rows."""
    if not split or parts == 1:
        return [(0, rows)]
    part: np.ndarray[Any, Any] = parts_of([rows.tray.columns[index] for index in split], parts)
    if parts <= np.iinfo(np.uint16).max:
        # Numbers of two bytes are sorted by counting.
        part = part.astype(np.uint16)
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(parts + 1))
    return [(at, rows.take(order[ends[at] : ends[at + 1]])) for at in range(parts) if ends[at] < ends[at + 1]]
