"""Blocks: what a task gives, as rows of Spark whose cells Spark stores and shuffles without looking into them.

A cell holds rows of a step as Arrow, faults, a part of the task's report, or its ``Done``. Spark gets beside it
only what it needs to bring the cell to the task that reads it, and to sort: see ``BLOCKS``.

Imported by workers; never imports pyspark.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa
import pyarrow.ipc

from rowtide.rows.arrays import Int64s

BLOCKS = "kind int, slot int, part int, first long, last long, number int, rows int, cell binary"
"""The schema of what tasks give. Spark adds ``run``, the number of the task.

``kind`` and ``slot`` name the content of the cell, and ``part`` the task that reads it. ``first`` and ``last`` are the
least and the greatest rowtime of its rows, ``rows`` is the number of its rows or faults, and ``number`` counts the
task's blocks of that kind and slot. A task that runs again gives the same blocks, so (first, slot, run, number) is a
total order of the blocks of one kind.
"""
RUN = pa.field("run", pa.int32())
BLOCK_SCHEMA = pa.schema(
    [
        ("kind", pa.int32()),
        ("slot", pa.int32()),
        ("part", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("number", pa.int32()),
        ("rows", pa.int32()),
        ("cell", pa.binary()),
    ]
)
BATCH_BYTES = 4 << 20
"""Bytes of cells that a task passes to Spark at once, and of one cell of a report."""
INLINE_BYTES = 1 << 18
"""Maximum size of a report that the driver gets with ``Done``; a larger one it reads in pieces."""
_OPTIONS = pyarrow.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class CellKind(IntEnum):
    """What a cell holds: rows of the slot's step, pickled faults, a piece of a report, the pickled ``Done``."""

    ROWS = 0
    FAULTS = 1
    REPORT = 2
    DONE = 3


@dataclass(frozen=True, slots=True)
class Done:
    """The message of a task to the driver, which has no list of its blocks.

    ``rows`` and ``last`` are the number and the greatest rowtime of the rows of each slot, ``blocks`` counts the
    blocks by kind and slot. ``report`` is the report, pickled, or None if it is in blocks of its own.
    """

    rows: Mapping[int, int]
    last: Mapping[int, int]
    blocks: Mapping[tuple[CellKind, int], int]
    faults: int
    report: bytes | None


@dataclass(frozen=True, slots=True)
class Block:
    """A block of rows as its reader gets it."""

    slot: int
    run: int
    number: int
    first: int
    cell: pa.Buffer


class BlockWriter:
    """Gathers the blocks of one task into batches for Spark."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._blocks: dict[tuple[CellKind, int], int] = {}
        self._faults = 0
        self._pending: list[tuple[object, ...]] = []
        self._bytes = 0

    def rows(self, slot: int, part: int, batch: pa.RecordBatch, rowtime: Int64s) -> None:
        """Add rows, at least one, that have these rowtimes."""
        first, last = int(rowtime.min()), int(rowtime.max())
        self._rows[slot] = self._rows.get(slot, 0) + batch.num_rows
        self._last[slot] = max(self._last.get(slot, last), last)
        self._add(CellKind.ROWS, slot, (part, first, last), batch.num_rows, packed(batch))

    def faults(self, content: bytes, count: int) -> None:
        """Add pickled faults."""
        self._faults += count
        self._add(CellKind.FAULTS, 0, (0, 0, 0), count, content)

    def taken(self) -> Iterator[pa.RecordBatch]:
        """Take the batch that is full, if there is one."""
        if self._bytes >= BATCH_BYTES:
            yield self._take()

    def close(self, report: object) -> Iterator[pa.RecordBatch]:
        """Take the rest, with the task's report."""
        content = pickle.dumps(report)
        is_inline = len(content) <= INLINE_BYTES
        for start in () if is_inline else range(0, len(content), BATCH_BYTES):
            self._add(CellKind.REPORT, 0, (0, 0, 0), 0, content[start : start + BATCH_BYTES])
            yield from self.taken()
        done = Done(self._rows, self._last, dict(self._blocks), self._faults, content if is_inline else None)
        self._add(CellKind.DONE, 0, (0, 0, 0), 0, pickle.dumps(done))
        yield self._take()

    def _add(self, kind: CellKind, slot: int, place: tuple[int, int, int], rows: int, cell: bytes) -> None:
        number = self._blocks.get((kind, slot), 0)
        self._blocks[kind, slot] = number + 1
        self._pending.append((int(kind), slot, *place, number, rows, cell))
        self._bytes += len(cell)

    def _take(self) -> pa.RecordBatch:
        columns = zip(*self._pending, strict=True)
        arrays = [pa.array(each, field.type) for each, field in zip(columns, BLOCK_SCHEMA, strict=True)]
        self._pending, self._bytes = [], 0
        return pa.RecordBatch.from_arrays(arrays, schema=BLOCK_SCHEMA)


def packed(batch: pa.RecordBatch) -> bytes:
    """Return a batch as a cell."""
    sink = pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpacked(cell: pa.Buffer | bytes) -> pa.RecordBatch:
    """Return the batch of a cell."""
    return pyarrow.ipc.open_stream(cell).read_next_batch()


def blocks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Block]:
    """Return the blocks of rows that Spark passes to a task, in their order."""
    names = ("slot", "run", "number", "first")
    for batch in batches:
        cells = batch.column("cell")
        places = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        for at, (slot, run, number, first) in enumerate(places):
            yield Block(slot, run, number, first, cells[at].as_buffer())
