"""The exchange: what the tasks of one stage give goes through Spark's shuffle to the tasks of the next.

A stage is one job. Its blocks are persisted on disk, because several stages may read them and the bounds of all its
tasks must be known before the next stage begins. The tasks of the next stage get the blocks of their part in order of
their first rowtime. Spark places tasks, spills, and computes blocks again if an executor with them is lost. No folder
is shared.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING
from zipimport import zipimporter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.runners.spark.blocks import BLOCKS, RUN, CellKind, Done, unpacked
from rowtide.runners.spark.session import BATCH_ROWS, BLOCKS_AT_ONCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TaskFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

DRIVER_RUN = 1 << 30
"""The number of the first run that the driver makes itself; it is after those of tasks."""
_AS_INPUT = ("slot", "part", "first", "run", "number", "cell")
_HASH_SEED = 42


class Spread(Enum):
    """How blocks are spread over the tasks that read them: the values are SQL expressions of a number.

    ``ONE``: one task reads all.
    """

    ONE = ""
    PART = "part"
    SLOT = "slot"
    ANY = "slot + run + number"


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a frame, by run and number, a few at a time. ``counts`` are the cells of each run."""

    frame: DataFrame
    counts: Mapping[int, int]

    def __iter__(self) -> Iterator[bytes]:
        """Read the cells."""
        for first, last, start, stop in self._bundles():
            wanted = f"run >= {first} AND run <= {last}"
            if stop:
                wanted += f" AND number >= {start} AND number < {stop}"
            found = self.frame.where(wanted).select("run", "number", "cell").collect()
            for row in sorted(found, key=lambda each: (each[0], each[1])):
                yield bytes(row[2])

    def _bundles(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the first and last run to be read at once; and the range of numbers, if not all."""
        together: list[int] = []
        count = 0
        for run in sorted(run for run, cells in self.counts.items() if cells):
            if together and count + self.counts[run] > BLOCKS_AT_ONCE:
                yield together[0], together[-1], 0, 0
                together, count = [], 0
            if self.counts[run] > BLOCKS_AT_ONCE:
                for start in range(0, self.counts[run], BLOCKS_AT_ONCE):
                    yield run, run, start, start + BLOCKS_AT_ONCE
            else:
                together.append(run)
                count += self.counts[run]
        if together:
            yield together[0], together[-1], 0, 0


@dataclass(frozen=True, slots=True)
class StageGiven:
    """What the tasks of one job gave, by run; or the driver, as one run. ``frame`` is None if it gave no block."""

    frame: DataFrame | None
    done: Mapping[int, Done]

    def cells(self, kind: CellKind, slot: int = 0, runs: Iterable[int] | None = None) -> Iterable[bytes]:
        """Return the cells of one kind and slot; of all runs unless they are named."""
        if self.frame is None:
            return ()
        counts = {run: self.done[run].blocks.get((kind, slot), 0) for run in runs or self.done}
        return Cells(self.frame.where(f"kind = {int(kind)} AND slot = {slot}"), counts)

    def batches(self, slot: int, runs: Iterable[int] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows of a slot."""
        return map(unpacked, self.cells(CellKind.ROWS, slot, runs))

    def report(self, run: int) -> bytes:
        """Return the report of a task, pickled."""
        inline = self.done[run].report
        return b"".join(self.cells(CellKind.REPORT, runs=[run])) if inline is None else inline


@dataclass(frozen=True, slots=True)
class OnWorker:
    """The work of a task, in a worker process that does not read Spark's archives again for its next task.

    PySpark lets all importers look for new modules before each task, and in Python 3.11 those of zip files
    read the whole archive at once: of pyspark.zip, some 10 times, and of Spark's jar (benchmarks/README.md). The
    cache of importers is filled again by the next import.
    """

    work: TaskFunction

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Do the work."""
        for path in [path for path, each in sys.path_importer_cache.items() if isinstance(each, zipimporter)]:
            del sys.path_importer_cache[path]
        return self.work(batches)


class Exchange:
    """The exchange of one run. ``parts`` is the number of tasks of a stage that is split."""

    def __init__(self, session: SparkSession, parts: int) -> None:
        self._session = session
        self._parts = parts
        self._kept: list[DataFrame] = []

    def run(self, frame: DataFrame, work: TaskFunction, rows_at_once: int = BLOCKS_AT_ONCE) -> StageGiven:
        """Run the tasks of a stage, which get ``rows_at_once`` rows of the frame at once."""
        with batch_rows(self._session, rows_at_once):
            given = self.keep(frame.mapInArrow(OnWorker(work), BLOCKS))
            found = given.where(f"kind = {int(CellKind.DONE)}").select("run", "cell").collect()
        return StageGiven(
            given, {row[0]: pickle.loads(row[1]) for row in sorted(found, key=lambda row: row[0])}
        )

    def keep(self, frame: DataFrame) -> DataFrame:
        """Add the number of each row's task, and persist the rows on disk."""
        from pyspark import StorageLevel

        kept = frame.selectExpr("spark_partition_id() AS run", "*").persist(StorageLevel.DISK_ONLY)
        self._kept.append(kept)
        return kept

    def put(self, batches: Iterable[pa.RecordBatch], run: int) -> StageGiven:
        """Take what the driver has made itself; ``run`` counts from 0."""
        run += DRIVER_RUN
        table = pa.Table.from_batches(batches)
        is_done = np.asarray(table.column("kind")) == CellKind.DONE
        (done,) = table.filter(pa.array(is_done)).column("cell").to_pylist()
        rest = table.filter(pa.array(~is_done))
        numbers = pa.array(np.full(rest.num_rows, run, dtype=np.int32))
        table = rest.add_column(0, RUN, numbers)
        return StageGiven(
            self._session.createDataFrame(table) if len(rest) else None, {run: pickle.loads(done)}
        )

    def blocks(
        self, given: Iterable[tuple[StageGiven, Iterable[int]]], since: int | None = None
    ) -> DataFrame:
        """Return the blocks of some slots of each of these, where they are; at least one of these has blocks.

        ``since``: without the blocks whose rows are all before this rowtime.
        """
        wanted = f"kind = {int(CellKind.ROWS)}" + ("" if since is None else f" AND last >= {since}")
        parts = [
            each.frame.where(f"{wanted} AND slot IN ({', '.join(map(str, sorted(slots)))})").select(
                *_AS_INPUT
            )
            for each, slots in given
            if each.frame is not None
        ]
        frame = parts[0]
        for each in parts[1:]:
            frame = frame.unionAll(each)
        return frame

    def read(self, frame: DataFrame, spread: Spread) -> DataFrame:
        """Return blocks as the input of tasks: spread over them, and in order of their first rowtime."""
        if spread is Spread.ONE or self._parts == 1:
            frame = frame.coalesce(1)
        else:
            numbers = ", ".join(map(str, hashed_to(self._parts)))
            task = f"array({numbers})[({spread.value}) % {self._parts}] AS task"
            frame = frame.selectExpr(*_AS_INPUT, task).repartition(self._parts, "task")
        return frame.sortWithinPartitions("first", "slot", "run", "number")

    def drop(self, given: Iterable[StageGiven]) -> None:
        """Remove what was persisted of these."""
        dropped = {id(each.frame) for each in given}
        for frame in (each for each in self._kept if id(each) in dropped):
            frame.unpersist()
        self._kept = [each for each in self._kept if id(each) not in dropped]

    def close(self) -> None:
        """Remove all that was persisted."""
        kept, self._kept = self._kept, []
        for frame in kept:
            frame.unpersist()


@contextmanager
def batch_rows(session: SparkSession, rows: int) -> Iterator[None]:
    """Pass this number of rows of a frame to a task at once, in the jobs that are planned in this block."""
    before = session.conf.get(BATCH_ROWS)
    session.conf.set(BATCH_ROWS, str(rows))
    try:
        yield
    finally:
        session.conf.set(BATCH_ROWS, str(before))


@lru_cache(maxsize=16)
def hashed_to(parts: int) -> Sequence[int]:
    """Return a number for each part that Spark's hash puts there: a hash of the parts themselves puts several together.

    If a version of Spark hashed otherwise, parts would share tasks, and no row would change.
    """
    found = np.full(parts, -1, dtype=np.int64)
    start, count = 0, 4 * parts
    while (found < 0).any():
        numbers = np.arange(start, start + count, dtype=np.uint32)
        part, first = np.unique(murmur3(numbers).astype(np.int64) % parts, return_index=True)
        fresh = found[part] < 0
        found[part[fresh]] = numbers[first[fresh]]
        start += count
    return tuple(found.tolist())


def murmur3(numbers: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Return Spark's hash of integers."""
    k = _turned(numbers * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = _turned(np.uint32(_HASH_SEED) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (h ^ (h >> np.uint32(16))).view(np.int32)


def _turned(numbers: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits))
