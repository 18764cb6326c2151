"""A stand-in for a Spark session: the runner's tasks, one after the other, in this process and without a JVM.

It shows what becomes of rows that are split into parts: which task reads which
blocks, how they are woven together, what tasks report. It shows nothing of Spark
itself: scheduling, repetition of tasks, workers of their own, Kafka, Parquet.
``tests/integration/spark`` does. Tasks are pickled and loaded as for a worker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

from rowtide.runners.spark.shuffle.exchange import murmur3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_ORDER = {"models/replaced.yaml"}
"""Scenarios in which rows of one ROWTIME and different keys have an order that parts do not keep: rows of a
replaced model leave in the order of its state, and that is put together from the states of parts."""


class Way(Enum):
    """How a scenario is played here. Each way splits its rows into parts."""

    AT_ONCE = "at once"
    SLICES = "in slices, each from the state of the one before"
    KEPT = "in slices whose state tasks keep in parts"


def way_of(name: str) -> Way:
    """Return how each run of the tests plays a scenario: in one way, by a hash of its name; the long run in all."""
    turn = crc32(name.encode())
    if turn % 3 == 0:
        return Way.SLICES
    return Way.KEPT if turn % 9 == 1 else Way.AT_ONCE


Work = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
KINDS = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary(), "string": pa.string()}
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
COMPARED = {"=": pc.equal, ">=": pc.greater_equal, "<=": pc.less_equal, "<": pc.less}


class _Frame:
    """Rows, by the task that gets them."""

    def __init__(self, session: StandIn, tasks: Sequence[pa.Table]) -> None:
        self._session = session
        self._tasks = tasks

    def repartition(self, *given: str | int) -> _Frame:
        """Put equal values into one task; as with Spark's hash some tasks get several values and some none."""
        parts = given[0] if isinstance(given[0], int) else self._session.parts
        whole = pa.concat_tables(self._tasks)
        numbers = np.asarray(whole.column(given[-1])).astype(np.uint32)
        task = murmur3(numbers).astype(np.int64) % parts
        return _Frame(self._session, [whole.filter(pa.array(task == each)) for each in range(parts)])

    def coalesce(self, tasks: int) -> _Frame:
        """Put all rows into one task."""
        assert tasks == 1
        return _Frame(self._session, [pa.concat_tables(self._tasks)])

    def sortWithinPartitions(self, *columns: str) -> _Frame:
        """Sort the rows of each task."""
        order = [(column, "ascending") for column in columns]
        return _Frame(self._session, [each.sort_by(order) for each in self._tasks])

    def where(self, condition: str) -> _Frame:
        """Filter rows by comparisons with numbers, joined by AND."""
        tasks = []
        for each in self._tasks:
            passing = np.ones(len(each), dtype=np.bool_)
            for part in condition.split(" AND "):
                name, comparison, value = part.split(" ", 2)
                if comparison == "IN":
                    found = pc.is_in(each.column(name), pa.array(map(int, value.strip("()").split(", "))))
                else:
                    found = COMPARED[comparison](each.column(name), int(value))
                passing &= np.asarray(found)
            tasks.append(each.filter(pa.array(passing)))
        return _Frame(self._session, tasks)

    def select(self, *names: str) -> _Frame:
        """Take columns."""
        return _Frame(self._session, [each.select(names) for each in self._tasks])

    def selectExpr(self, *expressions: str) -> _Frame:
        """Take columns; make the number of the task, a number, or one of a list by an expression of columns."""
        return _Frame(
            self._session,
            [_selected(each, number, expressions) for number, each in enumerate(self._tasks)],
        )

    def unionAll(self, other: _Frame) -> _Frame:
        """Put the tasks of another frame behind these."""
        return _Frame(self._session, [*self._tasks, *other._tasks])

    def persist(self, _: object) -> _Frame:
        """Keep the rows; they are kept anyway."""
        self._session.persisted.append(self)
        return self

    def unpersist(self) -> None:
        """Let them go."""
        self._session.persisted.remove(self)

    def mapInArrow(self, work: Work, schema: str) -> _Frame:
        """Run every task."""
        content: bytes = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        self._session.closures.append(len(content))
        columns = pa.schema([(name, KINDS[kind]) for name, kind in map(str.split, schema.split(", "))])
        size = int(self._session.settings[BATCH_ROWS])
        given = [
            pa.Table.from_batches(cloudpickle.loads(content)(iter(each.to_batches(size))), columns)
            for each in self._tasks
        ]
        self._session.jobs.append(len(self._tasks))
        self._session.read.append(self._tasks)
        self._session.given.append(pa.concat_tables(given))
        return _Frame(self._session, given)

    def each_alone(self) -> _Frame:
        """Put each row into a task of its own."""
        whole = pa.concat_tables(self._tasks)
        return _Frame(self._session, [whole.slice(at, 1) for at in range(len(whole))])

    def collect(self) -> list[tuple[object, ...]]:
        """Return all rows."""
        self._session.collected.append(sum(map(len, self._tasks)))
        return [tuple(row.values()) for each in self._tasks for row in each.to_pylist()]


def _selected(table: pa.Table, task: int, expressions: Sequence[str]) -> pa.Table:
    columns: dict[str, object] = {}
    for expression in expressions:
        value, _, name = expression.partition(" AS ")
        if value == "*":
            columns |= {each: table.column(each) for each in table.column_names}
        elif not name:
            columns[value] = table.column(value)
        elif value.startswith("spark_partition_id()"):
            number = task + int(value.partition(" + ")[2] or 0)
            columns[name] = pa.array([number] * len(table), pa.int32())
        elif value.isdigit():
            columns[name] = pa.array([int(value)] * len(table), pa.int32())
        else:
            numbers, index, parts = re.fullmatch(r"array\((.*)\)\[\((.*)\) % (\d+)\]", value).groups()  # type: ignore[union-attr]
            which = sum(np.asarray(table.column(each)) for each in index.split(" + ")) % int(parts)
            columns[name] = pa.array(np.array(numbers.split(", "), dtype=np.int32)[which])
    return pa.table(columns)


class StandIn:
    """What the Spark runner asks of a session; rows are split into ``parts``.

    ``jobs`` has the number of tasks of each job that was run, ``closures`` the bytes that each of its tasks
    loads, ``read`` what each of them got, ``given`` what all gave, ``collected`` the number of rows that the driver
    got at once, ``descriptions`` what was said of jobs, ``persisted`` what is kept.
    """

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.jobs: list[int] = []
        self.closures: list[int] = []
        self.descriptions: list[str] = []
        self.cancelled: list[str] = []
        self.persisted: list[_Frame] = []
        self.collected: list[int] = []
        self.read: list[Sequence[pa.Table]] = []
        self.given: list[pa.Table] = []
        self.settings = {"spark.sql.shuffle.partitions": str(parts), BATCH_ROWS: "16"}
        self.sparkContext = SimpleNamespace(
            defaultParallelism=parts,
            setJobGroup=lambda _group, description: self.descriptions.append(description),
            cancelJobGroup=self.cancelled.append,
            uiWebUrl=None,
        )
        self.conf = SimpleNamespace(get=self.settings.get, set=self.settings.__setitem__)

    def createDataFrame(self, rows: pa.Table) -> _Frame:
        """Return rows, in one task."""
        return _Frame(self, [rows])

    def as_session(self) -> SparkSession:
        """Return this, as what it is in for."""
        return cast("SparkSession", self)
