"""The exchange: what the tasks of one stage give goes through Spark's shuffle to the tasks of the next.

A stage is one job. Its blocks are persisted on disk, because several stages may read them and the bounds of all its
tasks must be known before the next stage begins. The tasks of the next stage get the blocks of their part in order of
their first rowtime. Spark places tasks, spills, and computes blocks again if an executor with them is lost. No folder
is shared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING
from zipimport import zipimporter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.runners.spark.session import BATCH_ROWS
from rowtide.runners.spark.shuffle.blocks import AS_INPUT, BLOCKS, CellKind, state_cells
from rowtide.runners.spark.shuffle.held import COPIED_BYTES, StageBlocks, StageGiven, of_driver, of_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TaskFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

DRIVER_RUN = 1 << 30
"""The number of the first run that the driver makes itself; it is after those of tasks."""
TASKS_OF_A_JOB = 1 << 16
"""More than the tasks of any job of a segment that has several: their runs have numbers of their own."""
HERE_BYTES = 64 << 20
"""Maximum size of what a stage gives in the driver: a few rows may become many."""
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
    """The exchange of one run. ``parts`` is the number of tasks of a stage that is split.

    Stages may run in several threads at once.
    """

    def __init__(self, session: SparkSession, parts: int) -> None:
        self._session = session
        self.parts = parts
        self._kept: list[DataFrame] = []
        self._here = Lock()

    def run(self, frame: DataFrame, work: TaskFunction, first_run: int = 0) -> StageGiven:
        """Run the tasks of a stage over a frame; their runs are numbered from ``first_run`` on."""
        given = self.keep(frame.mapInArrow(OnWorker(work), BLOCKS), first_run)
        found = given.where(f"kind = {int(CellKind.DONE)}").select("run", "cell").collect()
        return of_tasks({row[0]: row[1] for row in sorted(found, key=lambda row: row[0])}, given)

    def run_stage(self, blocks: StageBlocks, spread: Spread, work: TaskFunction) -> StageGiven:
        """Run the tasks of a stage over blocks."""
        frame = self.blocks(blocks.given, blocks.since) if blocks.given else None
        return self.run(self.read(frame, spread, blocks.states), work)

    def run_few(self, blocks: StageBlocks, spread: Spread, work: TaskFunction) -> StageGiven:
        """Do the work of the only task of a stage here if that is possible, else run the stage.

        One at a time: the code of users meets no other thread of this process, as in a worker.
        """
        with self._here:
            given = self.run_here(blocks, work)
        return self.run_stage(blocks, spread, work) if given is None else given

    def run_cells(self, cells: Sequence[bytes], work: TaskFunction, turn: int) -> StageGiven:
        """Run tasks that each begin with one of some cells, at most as many as there are parts, and get no rows.

        ``turn`` is another one for each job of a segment.
        """
        return self.run(self.read(None, Spread.PART, cells), work, turn * TASKS_OF_A_JOB)

    def run_here(self, blocks: StageBlocks, work: TaskFunction) -> StageGiven | None:
        """Do the work of the only task of a stage in this process; None: it is for Spark, as its blocks are.

        Work that gives much is left to Spark as well, where it runs again from the beginning.
        """
        if not blocks.are_here:
            return None
        given: list[pa.RecordBatch] = []
        size = 0
        for batch in work(blocks.batches()):
            given.append(batch)
            size += batch.nbytes
            if size > HERE_BYTES:
                return None
        return self._of_driver(given, 0)

    def empty(self, schema: StructType) -> DataFrame:
        """Return a frame without rows."""
        return self._session.createDataFrame([], schema)

    def keep(self, frame: DataFrame, first_run: int = 0) -> DataFrame:
        """Add the number of each row's task, from ``first_run`` on, and persist the rows on disk."""
        from pyspark import StorageLevel

        number = f"spark_partition_id() + {first_run}" if first_run else "spark_partition_id()"
        kept = frame.selectExpr(f"{number} AS run", "*").persist(StorageLevel.DISK_ONLY)
        self._kept.append(kept)
        return kept

    def put(self, batches: Iterable[pa.RecordBatch], run: int) -> StageGiven:
        """Take what the driver has made itself; ``run`` counts from 0."""
        return self._of_driver(batches, DRIVER_RUN + run)

    def _of_driver(self, batches: Iterable[pa.RecordBatch], run: int) -> StageGiven:
        """Return what this process has made; Spark takes it at once if it is much."""
        given = of_driver(batches, run)
        if given.copy is not None and given.copy.nbytes > COPIED_BYTES and self.frame(given) is not None:
            given.copy = None
        return given

    def frame(self, given: StageGiven) -> DataFrame | None:
        """Return the blocks of a stage as a frame, which Spark gets now if the driver has made them; None: no block."""
        if given.frame is None and given.copy is not None and len(given.copy):
            given.frame = self._session.createDataFrame(given.copy)
        return given.frame

    def blocks(
        self, given: Iterable[tuple[StageGiven, Iterable[int]]], since: int | None = None
    ) -> DataFrame:
        """Return the blocks of some slots of each of these, where they are; at least one of these has blocks.

        ``since``: without the blocks whose rows are all before this rowtime.
        """
        wanted = f"kind = {int(CellKind.ROWS)}" + ("" if since is None else f" AND last >= {since}")
        parts = [
            held.where(f"{wanted} AND slot IN ({', '.join(map(str, sorted(slots)))})").select(*AS_INPUT)
            for each, slots in given
            if (held := self.frame(each)) is not None
        ]
        frame = parts[0]
        for each in parts[1:]:
            frame = frame.unionAll(each)
        return frame

    def read(self, frame: DataFrame | None, spread: Spread, states: Sequence[bytes] = ()) -> DataFrame:
        """Return blocks as the input of tasks: spread over them, and in order of their first rowtime.

        ``states`` are those that the parts begin with, one for each task of ``PART`` or ``ONE``. There are some, or
        there is a frame of blocks.
        """
        if states:
            cells = self._session.createDataFrame(state_cells(states))
            frame = cells if frame is None else frame.unionAll(cells)
        assert frame is not None
        if spread is Spread.ONE or self.parts == 1:
            frame = frame.coalesce(1)
        else:
            numbers = ", ".join(map(str, hashed_to(self.parts)))
            task = f"array({numbers})[({spread.value}) % {self.parts}] AS task"
            frame = frame.selectExpr(*AS_INPUT, task).repartition(self.parts, "task")
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
