"""Rows that wait in a merge, kept in parts: each part has some rows of one port, in their order.

Imported by workers; never imports pyspark.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rowtide.checkpoint.parts.kept import WAITING, KeptPart, PartFacts, get
from rowtide.checkpoint.parts.store import PartStore
from rowtide.operators.merge.merge import queue_of
from rowtide.plan.nodes import Merge
from rowtide.rows.tray import COUNTER, ORIGIN, ROWTIME, Tray, same_place
from rowtide.rows.types import RowType
from rowtide.runners.spark.parts.keeping import PartKeeper
from rowtide.runners.spark.shuffle.blocks import begun_in, blocks_of
from rowtide.runners.spark.shuffle.given import Layout, TaskBlocks
from rowtide.runners.spark.start import rows_of

PART_ROWS = 1 << 18
PART_BYTES = 64 << 20
"""Rows, and bytes in memory, after which the rows of a port are kept as a part. Arrow has at most 2 GiB of texts in one
column."""
HELD_BYTES = 256 << 20
"""Bytes of the rows of all ports after which a task keeps those of the port with the most."""


class KeptQueues:
    """Keeps rows of some ports, which come in their order. Those of one place are one change: they stay together."""

    def __init__(self, keeper: PartKeeper) -> None:
        self._keeper = keeper
        self._held: dict[int, _Held] = {}
        self._parts: list[KeptPart] = []

    def add(self, port: int, tray: Tray) -> None:
        """Add rows of a port."""
        held = self._held.setdefault(port, _Held())
        held.add(tray.to_arrow())
        if held.rows >= PART_ROWS or held.bytes >= PART_BYTES:
            self._keep(port, held.taken())
        elif sum(each.bytes for each in self._held.values()) >= HELD_BYTES:
            most = max(self._held, key=lambda each: self._held[each].bytes)
            self._keep(most, self._held[most].taken())

    def close(self) -> Sequence[KeptPart]:
        """Keep the rest, and return all parts, those of each port in order."""
        for port, held in self._held.items():
            self._keep(port, pa.concat_tables(held.tables))
        return self._parts

    def _keep(self, port: int, rows: pa.Table) -> None:
        count = len(rows)
        if count:
            state = {queue_of(port): rows.combine_chunks()}
            number, facts = len(self._parts), PartFacts(count, count)
            self._parts.append(self._keeper.put(number, WAITING, Merge, state, facts))


class _Held:
    """The rows of a port that are not kept yet, with their number and their bytes."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.rows = 0
        self.bytes = 0

    def add(self, rows: pa.Table) -> None:
        self.tables.append(rows)
        self.rows += len(rows)
        self.bytes += rows.nbytes

    def taken(self) -> pa.Table:
        """Take all rows but those of the last place, to which more may come."""
        rows = pa.concat_tables(self.tables)
        rowtime, origin, counter = (np.asarray(rows.column(name)) for name in (ROWTIME, ORIGIN, COUNTER))
        ends = np.flatnonzero(~same_place(rowtime, origin, counter)) + 1
        end = int(ends[-1]) if len(ends) else 0
        rest = rows.slice(end)
        self.tables, self.rows, self.bytes = [rest], len(rest), rest.nbytes
        return rows.slice(0, end)


@dataclass(frozen=True, slots=True)
class QueueTasks:
    """The tasks that make blocks of rows that wait in parts at some ports. Pickled to the workers.

    ``queues`` has the number of each port at its merge, and the type of its rows. In the blocks they are rows of step
    0, 1 and so on. A task gets some parts, each with the place of its port in ``queues``.
    """

    queues: Sequence[tuple[int, RowType]]
    layout: Layout
    store: PartStore

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read one task's parts."""
        blocks = TaskBlocks(self.layout, {at: row_type for at, (_, row_type) in enumerate(self.queues)})
        contents, _ = begun_in(blocks_of(batches))
        for content in contents:
            parts: Sequence[tuple[int, KeptPart]] = pickle.loads(content)
            for at, part in parts:
                port, row_type = self.queues[at]
                for rows in rows_of(get(self.store, part)[queue_of(port)], row_type):
                    blocks.rows(at, rows)
                    yield from blocks.taken()
        yield from blocks.close(None)
