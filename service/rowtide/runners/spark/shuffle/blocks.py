"""Blocks: what a task gives, as rows of Spark whose cells Spark stores and shuffles without looking into them.

A cell holds rows of a step as Arrow, faults, a part of the task's report, or its ``Done``. Spark gets beside it
only what it needs to bring the cell to the task that reads it, and to sort: see ``BLOCKS``.

Imported by workers; never imports pyspark.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain

import pyarrow as pa
import pyarrow.ipc

from rowtide.operators.contract import Fault
from rowtide.rows.arrays import Int64s
from rowtide.rowtime.bound import EARLIEST

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
AS_INPUT = ("slot", "part", "first", "run", "number", "cell")
"""The columns of blocks as input of tasks."""
BATCH_BYTES = 4 << 20
"""Bytes of cells that a task passes to Spark at once, and of one cell of a report."""
INLINE_BYTES = 1 << 18
"""Maximum size of a report that the driver gets with ``Done``; a larger one it reads in pieces."""
COPY_BYTES = 1 << 17
"""Maximum size of the blocks of a task of which the driver gets a copy with ``Done``."""
STATE_SLOT = 0
"""The slot of blocks with the state that a part begins with. It is before those of rows, which begin at 1."""
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
    blocks by kind and slot. ``report`` is the report, pickled, or None if it is in blocks of its own. ``oldest`` has
    the least counter of the faults of each origin. ``copy`` has the same blocks once more, as ``BLOCK_SCHEMA``, if
    they are small.
    """

    rows: Mapping[int, int]
    last: Mapping[int, int]
    blocks: Mapping[tuple[CellKind, int], int]
    faults: int
    report: bytes | None
    oldest: Mapping[int, int] = field(default_factory=dict)
    copy: pa.RecordBatch | None = None


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
        self._oldest: dict[int, int] = {}
        self._pending: list[tuple[object, ...]] = []
        self._bytes = 0
        self._has_passed = False

    def rows(self, slot: int, part: int, batch: pa.RecordBatch, rowtime: Int64s) -> None:
        """Add rows, at least one, that have these rowtimes."""
        first, last = int(rowtime.min()), int(rowtime.max())
        self._rows[slot] = self._rows.get(slot, 0) + batch.num_rows
        self._last[slot] = max(self._last.get(slot, last), last)
        self._add(CellKind.ROWS, slot, (part, first, last), batch.num_rows, packed(batch))

    def faults(self, faults: Sequence[Fault]) -> None:
        """Add faults."""
        self._faults += len(faults)
        for each in faults:
            self._oldest[each.origin] = min(self._oldest.get(each.origin, each.counter), each.counter)
        self._add(CellKind.FAULTS, 0, (0, 0, 0), len(faults), pickle.dumps(faults))

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
        inline = content if is_inline else None
        copy = self._batch() if not self._has_passed and self._bytes <= COPY_BYTES else None
        done = Done(self._rows, self._last, dict(self._blocks), self._faults, inline, self._oldest, copy)
        self._add(CellKind.DONE, 0, (0, 0, 0), 0, pickle.dumps(done))
        yield self._take()

    def _add(self, kind: CellKind, slot: int, place: tuple[int, int, int], rows: int, cell: bytes) -> None:
        number = self._blocks.get((kind, slot), 0)
        self._blocks[kind, slot] = number + 1
        self._pending.append((int(kind), slot, *place, number, rows, cell))
        self._bytes += len(cell)

    def _take(self) -> pa.RecordBatch:
        batch = self._batch()
        self._pending, self._bytes, self._has_passed = [], 0, True
        return batch

    def _batch(self) -> pa.RecordBatch:
        columns: Iterable[Sequence[object]] = zip(*self._pending, strict=True)
        if not self._pending:
            columns = [[]] * len(BLOCK_SCHEMA)
        arrays = [pa.array(each, field.type) for each, field in zip(columns, BLOCK_SCHEMA, strict=True)]
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


def state_cells(parts: Sequence[bytes]) -> pa.Table:
    """Return the states of parts as blocks, as tasks read them (``exchange.AS_INPUT``): in pieces, before all rows."""
    rows = [
        (STATE_SLOT, part, EARLIEST, part, number, content[start : start + BATCH_BYTES])
        for part, content in enumerate(parts)
        for number, start in enumerate(range(0, len(content), BATCH_BYTES))
    ]
    fields = [RUN if name == RUN.name else BLOCK_SCHEMA.field(name) for name in AS_INPUT]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(each, field.type) for each, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def begun_in(blocks: Iterator[Block]) -> tuple[list[bytes], Iterator[Block]]:
    """Return the states at the front of a task's blocks, usually one, and an iterator of the rest."""
    pieces: dict[int, list[bytes]] = {}
    rest: Iterator[Block] = iter(())
    for block in blocks:
        if block.slot != STATE_SLOT:
            rest = chain([block], blocks)
            break
        pieces.setdefault(block.run, []).append(block.cell.to_pybytes())
    return [b"".join(each) for each in pieces.values()], rest


def blocks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Block]:
    """Return the blocks of rows that Spark passes to a task, in their order."""
    names = ("slot", "run", "number", "first")
    for batch in batches:
        cells = batch.column("cell")
        places = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        for at, (slot, run, number, first) in enumerate(places):
            yield Block(slot, run, number, first, cells[at].as_buffer())
