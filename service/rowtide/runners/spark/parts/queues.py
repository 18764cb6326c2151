"""Rows that wait in a merge, kept in parts: each part has some rows of one port, in their order.

Imported by workers; never imports pyspark.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowtide.checkpoint.parts.kept import KeptPart, PartFacts, get
from rowtide.checkpoint.parts.store import PartStore
from rowtide.plan.nodes import Merge
from rowtide.rows.tray import Tray, same_place, tray_schema
from rowtide.rows.types import RowType
from rowtide.runners.spark.parts.keeping import PartKeeper
from rowtide.runners.spark.shuffle.blocks import begun_in, blocks_of
from rowtide.runners.spark.shuffle.given import Layout, TaskBlocks
from rowtide.runners.spark.start import rows_of

PART_ROWS = 1 << 18
"""Rows of a part at least, except for the last one of a port."""


def queue_of(port: int) -> str:
    """Return the table of a merge's state with the rows that wait at a port."""
    return f"queue {port}"


class KeptQueues:
    """Keeps the rows of some ports, which come in their order."""

    def __init__(self, keeper: PartKeeper) -> None:
        self._keeper = keeper
        self._held: dict[int, list[Tray]] = {}
        self._parts: list[KeptPart] = []

    def add(self, port: int, tray: Tray) -> None:
        """Add rows of a port."""
        held = self._held.setdefault(port, [])
        held.append(tray)
        if sum(map(len, held)) >= PART_ROWS:
            rows = Tray.concat(held)
            # Rows of one place stay together: they are one change.
            ends = np.flatnonzero(~same_place(rows.rowtime, rows.origin, rows.counter)) + 1
            end = int(ends[-1]) if len(ends) else 0
            if end:
                self._keep(port, rows.slice(0, end))
            self._held[port] = [rows.slice(end, len(rows))]

    def close(self) -> Sequence[KeptPart]:
        """Keep the rest, and return all parts, those of each port in order."""
        for port, held in self._held.items():
            self._keep(port, Tray.concat(held))
        return self._parts

    def _keep(self, port: int, rows: Tray) -> None:
        table = rows.to_arrow().cast(tray_schema(rows.row_type)).combine_chunks()
        count = len(self._parts)
        facts = PartFacts(len(rows), len(rows))
        self._parts.append(self._keeper.put(count, 0, Merge, {queue_of(port): table}, facts))


@dataclass(frozen=True, slots=True)
class QueueTasks:
    """The tasks that make blocks of the rows of one port, which wait in parts. Pickled to the workers."""

    port: int
    row_type: RowType
    layout: Layout
    store: PartStore

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read one task's parts."""
        blocks = TaskBlocks(self.layout, {0: self.row_type})
        contents, _ = begun_in(blocks_of(batches))
        for content in contents:
            parts: Sequence[KeptPart] = pickle.loads(content)
            for part in parts:
                for rows in rows_of(get(self.store, part)[queue_of(self.port)], self.row_type):
                    blocks.rows(0, rows)
                    yield from blocks.taken()
        yield from blocks.close(None)
