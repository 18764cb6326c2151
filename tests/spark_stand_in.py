"""A stand-in for a Spark session: the runner's tasks, one after the other, in this process and without a JVM.

It shows what becomes of rows that are split into parts: which task reads which
files, how runs are woven together, what tasks report. It shows nothing of Spark
itself: scheduling, repetition of tasks, workers of their own, Kafka, Parquet.
``tests/integration/spark`` does. Tasks are pickled and loaded as for a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_ORDER = {"models/replaced.yaml"}
"""Scenarios in which rows of one ROWTIME and different keys have an order that parts do not keep: rows of a
replaced model leave in the order of its state, and that is put together from the states of parts."""

Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _Frame:
    """Rows, by the task that gets them."""

    def __init__(self, session: StandIn, tasks: Sequence[pa.Table]) -> None:
        self._session = session
        self._tasks = tasks

    def repartition(self, column: str) -> _Frame:
        """Put equal values into one task; as with a hash some tasks get several values and some none."""
        whole = pa.concat_tables(self._tasks)
        task = np.asarray(whole.column(column)) % self._session.parts
        tasks = [whole.filter(pa.array(task == each)) for each in range(self._session.parts)]
        return _Frame(self._session, tasks)

    def sortWithinPartitions(self, *columns: str) -> _Frame:
        """Sort the rows of each task."""
        order = [(column, "ascending") for column in columns]
        return _Frame(self._session, [each.sort_by(order) for each in self._tasks])

    def mapInArrow(self, work: Work, _: str) -> _Frame:
        """Run every task."""
        content: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        self._session.closures.append(len(content))
        given = []
        for each in self._tasks:
            batches = list(cloudpickle.loads(content)(iter(each.to_batches())))
            if batches:
                given.append(pa.Table.from_batches(batches))
        self._session.jobs.append(len(self._tasks))
        return _Frame(self._session, given)

    def collect(self) -> list[tuple[object, ...]]:
        """Return all rows."""
        return [tuple(row.values()) for each in self._tasks for row in each.to_pylist()]


class StandIn:
    """What the Spark runner asks of a session; rows are split into ``parts``.

    ``jobs`` has the number of tasks of each job that was run, ``closures`` the bytes that each of its tasks
    loads, ``descriptions`` what was said of jobs.
    """

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.jobs: list[int] = []
        self.closures: list[int] = []
        self.descriptions: list[str] = []
        self.sparkContext = SimpleNamespace(
            defaultParallelism=parts, setJobDescription=self.descriptions.append, uiWebUrl=None
        )
        self.conf = SimpleNamespace(get={"spark.sql.shuffle.partitions": str(parts)}.get)

    def range(self, start: int, end: int, step: int, tasks: int) -> _Frame:
        """Return numbers, in tasks of equal size."""
        shares = np.array_split(np.arange(start, end, step), tasks)
        return _Frame(self, [pa.table({"id": pa.array(each, pa.int64())}) for each in shares])

    def createDataFrame(self, rows: pa.Table) -> _Frame:
        """Return rows, in one task."""
        return _Frame(self, [rows])

    def as_session(self) -> SparkSession:
        """Return this, as what it is in for."""
        return cast("SparkSession", self)
