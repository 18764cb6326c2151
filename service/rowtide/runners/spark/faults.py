"""Faults of a parallel run: they stay in the blocks of the tasks until they become error rows.

A block has several faults (see ``given``). The driver knows how many they are, and reads them only if they are few.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from rowtide.checkpoint.ledger import PartitionId
from rowtide.operators.contract import Fault
from rowtide.runners.spark.blocks import CellKind
from rowtide.runners.spark.exchange import Cells, Exchange, StageGiven, batch_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FaultRows = Callable[[Sequence[Fault], pa.RecordBatch], bytes]
"""Makes the stored form of one task's faults from their messages, if they still have one: columns
source, partition, offset, timestamp and value. Pickled to the workers."""

_REPORTED = (
    "origin int, counter long, turn long, identity binary, source string, partition int, content binary"
)
_MADE = "number int, cell binary"
_MESSAGE = ("source", "partition", "offset", "timestamp", "value")
_ROWS_AT_ONCE = 1_000
"""Number of error rows that are made, and later written, at once. Each may have a message of a megabyte."""


class Faults:
    """The faults of a run, in the order in which they were added."""

    def __init__(self, session: SparkSession, exchange: Exchange) -> None:
        self._session = session
        self._exchange = exchange
        self._given: list[tuple[int | None, StageGiven]] = []

    def add(self, given: StageGiven, segment: int | None = None) -> None:
        """Add what tasks of a segment gave."""
        if any(done.faults for done in given.done.values()):
            self._given.append((segment, given))

    def forget(self, segment: int) -> None:
        """Drop the faults of a segment, which runs again."""
        self._given = [(number, given) for number, given in self._given if number != segment]

    def count(self) -> int:
        """Count the faults, including repetitions. No fault is read."""
        return sum(done.faults for _, given in self._given for done in given.done.values())

    def read(self) -> list[Fault]:
        """Bring the faults to the driver, each once, in the order of their rows within each origin."""
        found: dict[Fault, None] = {}
        for _, given in self._given:
            for content in given.cells(CellKind.FAULTS):
                found.update(dict.fromkeys(pickle.loads(content)))
        return sorted(found, key=lambda fault: (fault.origin, fault.counter))

    def rows(
        self, messages: Mapping[str, DataFrame], places: Mapping[int, PartitionId], make: FaultRows
    ) -> Iterable[bytes]:
        """Make error rows on Spark: the messages are read again, and joined to their faults.

        ``messages`` are those of each source relation, ``places`` maps origins to partitions. Returns a reader of
        the result, in order, a few pieces at a time.
        """
        from pyspark.sql import functions

        reported = self._reported(places)
        once = reported.groupBy("origin", "counter", "identity").agg(
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
        with batch_rows(self._session, _ROWS_AT_ONCE):
            made = self._exchange.keep(frame.mapInArrow(_made(make), _MADE))
            counts = made.groupBy("run").count().collect()
        return Cells(made, {row[0]: row[1] for row in counts})

    def _reported(self, places: Mapping[int, PartitionId]) -> DataFrame:
        """Return the faults as rows: place, identity, and the pickled fault."""
        if not self._given:
            raise ValueError("no faults to read")
        frames = [
            given.frame.where(f"kind = {int(CellKind.FAULTS)}").selectExpr(f"{turn} AS turn", "run", "cell")
            for turn, (_, given) in enumerate(self._given)
            if given.frame is not None
        ]
        together = frames[0]
        for each in frames[1:]:
            together = together.unionAll(each)
        return together.mapInArrow(_apart(dict(places)), _REPORTED)


def _apart(
    places: Mapping[int, PartitionId],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the work of a task that takes blocks of faults apart."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("turn", "run", "cell"))
            for turn, run, content in zip(*columns, strict=True):
                yield _rows_of((turn << 32) + run, pickle.loads(content), places)

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
        number = 0
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                part = batch.slice(start, _ROWS_AT_ONCE)
                faults = [pickle.loads(content) for content in part.column("content").to_pylist()]
                columns = {name: part.column("counter" if name == "offset" else name) for name in _MESSAGE}
                content = make(faults, pa.RecordBatch.from_pydict(columns))
                made = {"number": pa.array([number], pa.int32()), "cell": pa.array([content], pa.binary())}
                yield pa.RecordBatch.from_pydict(made)
                number += 1

    return work
