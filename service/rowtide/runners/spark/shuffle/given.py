"""The output of a task: rows for later stages, split by key, and faults, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rowtide.operators.contract import Fault
from rowtide.operators.storage.key_parts import parts_of
from rowtide.rows.arrays import Int64s
from rowtide.rows.types import RowType
from rowtide.runners.spark.shuffle.blocks import BlockWriter
from rowtide.runners.spark.shuffle.runs import BLOCK_ROWS, Numbered, Split, rows_batch, rows_schema

HELD_ROWS = 1 << 17
"""Rows that a task gathers before it writes them, so that each part has blocks of some size."""
FAULTS_AT_ONCE = 1_000
"""Faults of one block."""


class TaskOutput(Protocol):
    """Receives the output of a task's work."""

    def rows(self, at: int, rows: Numbered) -> None:
        """Take rows of a step, in their order."""

    def faults(self, faults: Sequence[Fault]) -> None:
        """Take faults, in their order."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The destination of a stage's rows: of each step the slots and how each splits them into ``parts``."""

    parts: int
    slots: Mapping[int, Sequence[tuple[int, Split]]]
    has_seq: bool


class TaskBlocks:
    """Makes the blocks of one task. ``row_types`` are those of the steps with rows."""

    def __init__(self, layout: Layout, row_types: Mapping[int, RowType]) -> None:
        self._layout = layout
        self._schemas = {
            at: rows_schema(row_type, has_seq=layout.has_seq) for at, row_type in row_types.items()
        }
        self._held: dict[int, list[Numbered]] = {}
        self._holding = 0
        self._faults: list[Fault] = []
        self._blocks = BlockWriter()

    def rows(self, at: int, rows: Numbered) -> None:
        self._held.setdefault(at, []).append(rows)
        self._holding += len(rows)
        if self._holding >= HELD_ROWS:
            self._write_rows()

    def faults(self, faults: Sequence[Fault]) -> None:
        self._faults += faults
        while len(self._faults) >= FAULTS_AT_ONCE:
            self._write_faults(FAULTS_AT_ONCE)

    def write(self, slot: int, part: int, batch: pa.RecordBatch, rowtime: Int64s) -> None:
        """Take a block as it is."""
        self._blocks.rows(slot, part, batch, rowtime)

    def taken(self) -> Iterator[pa.RecordBatch]:
        """Take what is to be passed to Spark by now."""
        yield from self._blocks.taken()

    def close(self, report: object) -> Iterator[pa.RecordBatch]:
        """Take the rest, with the task's report."""
        self._write_rows()
        if self._faults:
            self._write_faults(len(self._faults))
        yield from self._blocks.close(report)

    def _write_rows(self) -> None:
        for at, parts in self._held.items():
            self._write_step(at, _in_time(Numbered.concat(parts)))
        self._held.clear()
        self._holding = 0

    def _write_step(self, at: int, rows: Numbered) -> None:
        for slot, split in self._layout.slots.get(at, ()):
            for part, own in _apart(rows, split, self._layout.parts):
                for start in range(0, len(own), BLOCK_ROWS):
                    block = own.slice(start, min(start + BLOCK_ROWS, len(own)))
                    batch = rows_batch(
                        self._schemas[at], block.tray, block.seq if self._layout.has_seq else None
                    )
                    self.write(slot, part, batch, block.tray.rowtime)

    def _write_faults(self, count: int) -> None:
        self._blocks.faults(self._faults[:count])
        del self._faults[:count]


def _in_time(rows: Numbered) -> Numbered:
    """Return rows in order of rowtime: a promotion may have changed it. Readers merge blocks, not their rows."""
    tray = rows.tray
    if (tray.rowtime[1:] >= tray.rowtime[:-1]).all():
        return rows
    return rows.take(np.lexsort((rows.seq, tray.counter, tray.origin, tray.rowtime)))


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
