"""Faults of a parallel run: they stay in the files of the tasks until they become error rows.

Each row of a file has several faults (see ``given``). The driver counts them,
and reads them only if they are few.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from rowtide.checkpoint.ledger import PartitionId
from rowtide.operators.contract import Fault
from rowtide.runners.spark.given import REPORT
from rowtide.runners.spark.runs import SEQ

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FaultRows = Callable[[Sequence[Fault], pa.RecordBatch], bytes]
"""Makes the stored form of one task's faults from their messages, if they still have one: columns
source, partition, offset, timestamp and value. Pickled to the workers."""

_TOLD = "origin int, counter long, turn long, identity binary, source string, partition int, content binary"
_MESSAGE = ("source", "partition", "offset", "timestamp", "value")
_ROWS_AT_ONCE = 1_000
"""Number of error rows that are made, and later written, at once. Each may have a message of a megabyte."""


class FaultFiles:
    """The faults in some files, in the order in which the files were written."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._paths: dict[str, int | None] = {}

    def add(self, paths: Iterable[str | None], segment: int | None = None) -> None:
        """Add these files of a segment, each once; None: a task had no faults."""
        self._paths.update(dict.fromkeys((path for path in paths if path is not None), segment))

    def forget(self, segment: int) -> None:
        """Drop the files of a segment, which runs again."""
        self._paths = {path: number for path, number in self._paths.items() if number != segment}

    def count(self) -> int:
        """Count the faults, including repetitions. No fault is read."""
        counts = (table.column(SEQ).to_pylist() for table in self._chunks([SEQ]))
        return sum(each for held in counts for each in held)

    def read(self) -> list[Fault]:
        """Bring the faults to the driver, each once, in the order of their rows within each origin."""
        found: dict[Fault, None] = {}
        for table in self._chunks([REPORT]):
            for content in table.column(REPORT).to_pylist():
                found.update(dict.fromkeys(pickle.loads(content)))
        return sorted(found, key=lambda fault: (fault.origin, fault.counter))

    def rows(
        self, messages: Mapping[str, DataFrame], places: Mapping[int, PartitionId], make: FaultRows, path: str
    ) -> Callable[[], Iterator[bytes]]:
        """Make error rows on Spark: the messages are read again, and joined to their faults.

        ``messages`` are those of each source relation, ``places`` maps origins to partitions. The
        result is stored at ``path``; returns a reader of it, in order, one piece at a time.
        """
        from pyspark.sql import functions

        told = self._told(places)
        once = told.groupBy("origin", "counter", "identity").agg(
            functions.min("turn").alias("turn"),
            functions.first("source").alias("source"),
            functions.first("partition").alias("partition"),
            functions.first("content").alias("content"),
        )
        parts = [
            frame.select(functions.lit(name).alias("source"), *_MESSAGE[1:])
            for name, frame in messages.items()
        ]
        read = parts[0]
        for each in parts[1:]:
            read = read.unionAll(each)
        joined = once.join(
            read.withColumnRenamed("offset", "counter"), ["source", "partition", "counter"], "left"
        )
        frame = joined.orderBy("origin", "counter", "turn")
        frame.mapInArrow(_made(make), "content binary").write.mode("overwrite").parquet(path)
        return lambda: _pieces(path)

    def _told(self, places: Mapping[int, PartitionId]) -> DataFrame:
        """Return the faults as rows: place, identity, and the pickled fault."""
        if not self._paths:
            raise ValueError("no faults to read")
        # One step of the Spark plan, for any number of files.
        count, tasks = len(self._paths), self._session.sparkContext.defaultParallelism
        numbers = self._session.range(0, count, 1, min(count, tasks))
        return numbers.mapInArrow(_apart(list(self._paths), dict(places)), _TOLD)

    def _chunks(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for path in self._paths:
            yield pq.ParquetFile(path).read(columns=list(columns))


def _apart(
    paths: Sequence[str], places: Mapping[int, PartitionId]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the work of a task that reads the fault files whose numbers it gets."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for turn in batch.column(0).to_pylist():
                for chunk in pq.ParquetFile(paths[turn]).iter_batches(batch_size=1, columns=[REPORT]):
                    yield _rows_of(turn, pickle.loads(chunk.column(0)[0].as_py()), places)

    return work


def _rows_of(turn: int, faults: Sequence[Fault], places: Mapping[int, PartitionId]) -> pa.RecordBatch:
    found = [places.get(fault.origin) for fault in faults]
    identities = [repr((each.relation, each.reason, each.message, each.row)).encode() for each in faults]
    return pa.RecordBatch.from_pydict(
        {
            "origin": pa.array([fault.origin for fault in faults], pa.int32()),
            "counter": pa.array([fault.counter for fault in faults], pa.int64()),
            "turn": pa.array([turn] * len(faults), pa.int64()),
            "identity": pa.array(identities, pa.binary()),
            "source": pa.array([each and each[0] for each in found], pa.string()),
            "partition": pa.array([each and each[1] for each in found], pa.int32()),
            "content": pa.array([pickle.dumps(fault) for fault in faults], pa.binary()),
        }
    )


def _made(make: FaultRows) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                part = batch.slice(start, _ROWS_AT_ONCE)
                faults = [pickle.loads(content) for content in part.column("content").to_pylist()]
                columns = {name: part.column("counter" if name == "offset" else name) for name in _MESSAGE}
                content = make(faults, pa.RecordBatch.from_pydict(columns))
                yield pa.RecordBatch.from_pydict({"content": pa.array([content], pa.binary())})

    return work


def _pieces(path: str) -> Iterator[bytes]:
    """Read a folder's only column, file by file in the order of Spark's partitions."""
    files = sorted(pyarrow.dataset.dataset(path, format="parquet").files)
    for file in files:
        for batch in pyarrow.dataset.dataset(file, format="parquet").to_batches(batch_size=1):
            yield from batch.column("content").to_pylist()
