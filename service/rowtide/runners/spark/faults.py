"""Faults of a parallel run: they stay in the blocks of the tasks until they become error rows.

A block has several faults (see ``shuffle.given``). The driver knows how many they are, and reads them only if they are
few.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from rowtide.checkpoint.ledger import PartitionId
from rowtide.operators.contract import Fault
from rowtide.runners.spark.shuffle.blocks import CellKind
from rowtide.runners.spark.shuffle.exchange import Exchange, batch_rows
from rowtide.runners.spark.shuffle.held import Cells, StageGiven

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
    """The faults of a run, in the order of ``turns``: the segments, then the folds of outputs.

    A fault of a row of ``sources``, which are origins, is one however often it was added. Other rows have only
    the numbers that their task gives them: tasks with different keys may have equal faults of different rows.
    """

    def __init__(
        self,
        session: SparkSession,
        exchange: Exchange,
        sources: Collection[int],
        turns: Iterable[int | str],
    ) -> None:
        self._session = session
        self._exchange = exchange
        self._sources = frozenset(sources)
        self._turns = {of: turn for turn, of in enumerate(turns)}
        self._given: list[tuple[int | str, StageGiven]] = []

    def add(self, given: StageGiven, of: int | str) -> None:
        """Add what tasks of a segment gave, or of the fold of an output."""
        if any(done.faults for done in given.done.values()):
            self._given.append((of, given))
            # Which of two segments ends first is chance.
            self._given.sort(key=lambda each: self._turns[each[0]])

    def forget(self, of: int | str) -> None:
        """Drop the faults of a segment or fold, which runs again."""
        self._given = [(each, given) for each, given in self._given if each != of]

    def count(self) -> int:
        """Count the faults, including repetitions. No fault is read."""
        return sum(done.faults for _, given in self._given for done in given.done.values())

    def oldest(self, places: Mapping[int, PartitionId]) -> dict[PartitionId, int]:
        """Return the least offset of the messages of faults in each partition. ``places`` maps origins to them."""
        found: dict[PartitionId, int] = {}
        for _, given in self._given:
            for done in given.done.values():
                for origin, offset in done.oldest.items():
                    if origin in places:
                        place = places[origin]
                        found[place] = min(found.get(place, offset), offset)
        return found

    def read(self) -> list[Fault]:
        """Bring the faults to the driver, each once, in the order of their rows within each origin."""
        found: dict[tuple[Fault, int, int], None] = {}
        for turn, (_, given) in enumerate(self._given):
            for run in given.done:
                for content in given.cells(CellKind.FAULTS, runs=[run]):
                    for fault in pickle.loads(content):
                        task = (0, 0) if fault.origin in self._sources else (turn, run)
                        found[fault, *task] = None
        return sorted((fault for fault, *_ in found), key=lambda fault: (fault.origin, fault.counter))

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
            frame.where(f"kind = {int(CellKind.FAULTS)}").selectExpr(f"{turn} AS turn", "run", "cell")
            for turn, (_, given) in enumerate(self._given)
            if (frame := self._exchange.frame(given)) is not None
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
    identities = [
        repr((each.relation, each.reason, each.message, each.row, place is None and turn)).encode()
        for each, place in zip(faults, found, strict=True)
    ]
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
