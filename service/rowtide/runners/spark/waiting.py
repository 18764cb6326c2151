"""Rows that wait in a merge for another input: they stay in blocks, sorted, until they become state.

A partition without a row holds back all rows of its stream. The driver learns
how many they are, and where the first and the last of them stand. When the
commit wants them as state, it brings them to a file of its own, a few blocks at
a time, and reads that batch by batch.

Imported by workers; never imports pyspark.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.ipc

from rowtide.checkpoint.parts.kept import KeptPart, to_table
from rowtide.checkpoint.snapshot import PARTS
from rowtide.flow.program import Program
from rowtide.operators.contract import State, Want
from rowtide.operators.merge.merge import MergeOperator, queue_of
from rowtide.operators.merge.merge import Place as RankedPlace
from rowtide.rows.tray import Tray, tray_schema
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.runners.spark.parts.keeping import PartKeeper
from rowtide.runners.spark.parts.queues import KeptQueues
from rowtide.runners.spark.shuffle.blocks import BlockWriter, blocks_of
from rowtide.runners.spark.shuffle.runs import TaskInputs

if TYPE_CHECKING:
    from rowtide.runners.spark.shuffle.held import StageGiven

Place = tuple[int, int, int]
"""Rowtime, origin and counter of a row."""


@dataclass(frozen=True, slots=True)
class WaitingCount:
    """Rows of one port of a merge: their number, the places of the first and the last."""

    rows: int
    first: Place
    last: Place

    @property
    def bound(self) -> Bound:
        """The bound of the port after them: the last row is also a bound."""
        return Bound(*self.last)

    def first_place(self, ranks: Mapping[int, int]) -> RankedPlace:
        """Return the place of the first row at a merge."""
        rowtime, origin, counter = self.first
        return rowtime, ranks[origin], counter


@dataclass(frozen=True, slots=True)
class WaitingTasks:
    """The tasks that set waiting rows aside; a port is the slot of its rows. Pickled to the workers.

    With a ``keeper`` they keep them in parts.
    """

    inputs: TaskInputs
    keeper: PartKeeper | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Set one task's rows aside, and report them by port."""
        writer = BlockWriter()
        kept = None if self.keeper is None else KeptQueues(self.keeper)
        found: dict[int, WaitingCount] = {}
        ports = dict.fromkeys(range(len(self.inputs.row_types)), Bound(LATEST))
        for cut in self.inputs.in_order(blocks_of(batches), ports):
            for port, tray, _ in cut.arrivals:
                if tray is None:
                    continue
                before = found.get(port)
                found[port] = WaitingCount(
                    len(tray) + (before.rows if before else 0),
                    before.first if before else _place(tray, 0),
                    _place(tray, -1),
                )
                if kept is not None:
                    kept.add(port, tray)
                    continue
                rows = tray.to_arrow().cast(tray_schema(tray.row_type)).combine_chunks()
                (batch,) = rows.to_batches()
                writer.rows(port, 0, batch, tray.rowtime)
            yield from writer.taken()
        yield from writer.close(SetAside(found, () if kept is None else kept.close()))


@dataclass(frozen=True, slots=True)
class SetAside:
    """The report of a task that has set rows aside: their counts by port, and the parts in which it keeps them."""

    counts: Mapping[int, WaitingCount]
    parts: Sequence[KeptPart]


class RowsAside:
    """The rows that wait at the ports of one merge. ``folder`` is one of this process.

    ``parts`` are those in which they are kept; none: they are in blocks.
    """

    def __init__(self, given: StageGiven, row_type: RowType, folder: str) -> None:
        self._given = given
        self._schema = tray_schema(row_type)
        self._folder = folder
        self._paths: dict[int, str] = {}
        self._runs: dict[int, int] = {}
        self.parts: list[KeptPart] = []
        counts: dict[int, WaitingCount] = {}
        for run in given.done:
            found: SetAside = pickle.loads(given.report(run))
            counts |= found.counts
            self.parts += found.parts
            self._runs |= dict.fromkeys(found.counts, run)
        self.counts = dict(sorted(counts.items()))
        """The rows by port, where there are any."""

    @property
    def rows(self) -> int:
        """The number of all of them."""
        return sum(each.rows for each in self.counts.values())

    def table(self, port: int) -> pa.Table:
        """Return the rows of a port as a table of ``tray_schema``, which lies in a file and not in memory."""
        if port not in self._paths:
            self._paths[port] = self._fetched(port)
        return pyarrow.ipc.open_file(pa.memory_map(self._paths[port])).read_all()

    def _fetched(self, port: int) -> str:
        Path(self._folder).mkdir(parents=True, exist_ok=True)
        path = f"{self._folder}/{uuid.uuid4().hex}.waiting"
        # Not compressed, so that the file can be read as it lies there.
        with pa.OSFile(path, "wb") as sink, pyarrow.ipc.new_file(sink, self._schema) as writer:
            for batch in self._given.batches(port, [self._runs[port]]):
                writer.write_batch(batch)
        return path


class WaitingInMerges:
    """The rows that wait in the merges of a run, by the position of the merge.

    Args:
      program: the program.
      merge_of: returns the merge of a position in the driver, without these rows.
    """

    def __init__(self, program: Program, merge_of: Callable[[int], MergeOperator]) -> None:
        self._program = program
        self._merge_of = merge_of
        self._aside: dict[int, RowsAside] = {}

    def put(self, at: int, rows: RowsAside) -> None:
        """Note rows that wait."""
        self._aside[at] = rows

    def forget(self, at: int) -> None:
        """Drop what is noted of a step, which runs again."""
        self._aside.pop(at, None)

    def positions(self) -> list[int]:
        """Return the merges where rows wait."""
        return sorted(self._aside)

    def counts(self) -> dict[str, int]:
        """Return the number of rows that wait in the merges of each relation."""
        found: dict[str, int] = {}
        for at, waiting in self._aside.items():
            relation = self._program.steps[at].node.relation
            found[relation] = found.get(relation, 0) + waiting.rows
        return found

    def ahead(self) -> dict[int, tuple[int, Sequence[Want]]]:
        """Return the merges where rows wait, by position: their number, and what the first of them needs."""
        found = {}
        for at, waiting in sorted(self._aside.items()):
            merge = self._merge_of(at)
            first = min((rows.first_place(merge.ranks), port) for port, rows in waiting.counts.items())
            found[at] = waiting.rows, merge.wants_at(*first)
        return found

    def state(self, at: int) -> State:
        """Return the state of a merge with the rows that wait, which are in files or in parts, not in memory."""
        merge, waiting = self._merge_of(at), self._aside[at]
        account = replace(merge.account, rows_in=merge.account.rows_in + waiting.rows)
        state = {**merge.snapshot(), "account": account.to_arrow()}
        if waiting.parts:
            return {**state, PARTS: to_table(waiting.parts)}
        return {**state, **{queue_of(port): waiting.table(port) for port in waiting.counts}}


def _place(tray: Tray, at: int) -> Place:
    return int(tray.rowtime[at]), int(tray.origin[at]), int(tray.counter[at])
