"""A program on DataFrames: segment after segment, each written once, read by those behind it.

The driver keeps a shadow of the live circuit. After each segment it takes over
the states that the tasks reported and lets the bounds follow, as the live
service would; so in the end the shadow is what a live service would remember
that had read just these messages, and the rows never pass through the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset

from rowtide.errors import FaultError
from rowtide.flow.circuit import Arrival, Circuit
from rowtide.flow.flow import Flow, initial
from rowtide.flow.program import Port
from rowtide.flow.segments import Segment, segments
from rowtide.operators.contract import Account, Fault, State
from rowtide.operators.merge import END, MergeOperator
from rowtide.operators.registry import operator_type
from rowtide.plan.nodes import PartitionKey, Source, TableSource
from rowtide.rows.column import arrow_type
from rowtide.rows.tray import COUNTER, ORIGIN, ROWTIME, Tray, tray_schema
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import NO_BOUND, Bound
from rowtide.runners.spark.faults import FaultFiles
from rowtide.runners.spark.stage import (
    FAULTS_AT_ONCE,
    FAULTS_STEP,
    PORT,
    REPORT,
    REPORT_STEP,
    SEQ,
    STEP,
    TIMES,
    Definition,
    Intake,
    Report,
    Stage,
    entry_row_types,
    field_name,
    stage_schema,
    told,
    tray_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a fold tells the driver."""

    content: object


Fold = Callable[[Iterable[Tray]], Iterable["Tray | Fault | Note"]]
"""Works off the rows of one task; pickled to the workers."""


class SparkRun:
    """One run of a program over messages that are already chosen.

    Args:
      session: the Spark session.
      definition: outputs and partitions, as the live flow has them.
      staging: a folder for what the stages give; the workers and this process must both reach it.
      intake: makes rows of messages; pickled to the workers.
    """

    def __init__(self, session: SparkSession, definition: Definition, staging: str, intake: Intake) -> None:
        self._session = session
        self._definition = definition
        self._staging = staging
        self._intake = intake
        self._program = definition.program()
        self._segments = segments(self._program)
        self._home = {at: number for number, each in enumerate(self._segments) for at in each.steps}
        self._given: dict[int, DataFrame] = {}
        self._circuits = {
            number: Circuit(self._program, each.steps) for number, each in enumerate(self._segments)
        }
        self._reached: dict[Port, Bound] = {}
        self._promised: dict[tuple[str, int], Bound] = {}
        self.faults = FaultFiles(session)
        """What was late or rejected; on disk."""
        self.messages = 0
        """How many messages of sources have been read."""

    def read(self, messages: Mapping[str, DataFrame], *, in_order: bool = False) -> None:
        """Run every segment; ``messages`` gives each source relation's chosen messages.

        ``in_order``: each partition's messages lie in one task already, in the order of their offsets, as
        Spark reads them from Kafka; else they are brought there, which costs more than all else.

        An engine table that is named there is filled by its messages, else by its INSERT statements.
        A frame of messages has the columns topic, partition, offset, timestamp (ms), key, value and
        headers.
        """
        for number, segment in enumerate(self._segments):
            source = self._program.steps[segment.entries[0]].node
            if isinstance(source, Source | TableSource) and source.relation in messages:
                self._run_source(number, segment, messages, in_order)
            elif segment.is_merge(self._program):
                self._run_merge(number, segment)
            else:
                self._run_operator(number, segment)

    def output(self, name: str) -> DataFrame:
        """Give the rows of an output: its fields by name, the time columns, ``$seq``."""
        at = self._program.outputs[name]
        ordinal = self._program.steps[at].ordinal
        return self._rows_of(at).select(
            *(name for name, _ in TIMES),
            SEQ,
            *(
                _column(field_name(ordinal, index)).alias(field.name)
                for index, field in enumerate(self._program.steps[at].node.row_type)
            ),
        )

    def rows(self, name: str) -> Tray:
        """Bring the rows of an output to the driver, in the order in which the live flow gives them."""
        at = self._program.outputs[name]
        step = self._program.steps[at]
        ranks = {origin: rank for rank, origin in enumerate(step.origins)}
        held = self._rows_of(at).toArrow()
        return tray_of(held.take(_in_order(held, ranks)), step.node.row_type, step.ordinal)

    def fold(
        self, name: str, row_type: RowType, key: Sequence[int], fold: Fold, folder: str
    ) -> tuple[str, list[object]]:
        """Bring the rows of an output together by key, fold each key's, and keep what is left.

        ``row_type`` names the fields that are kept; ``fold`` works off one task's rows, in order of
        time. Gives where its trays are, as Parquet, and its notes; its faults are among ``faults``.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        path = f"{self._staging}/{folder}"
        frame = self.output(name).toDF(*(each for each, _ in TIMES), SEQ, *row_type.names)
        keys = [_column(row_type[index].name) for index in key]
        if keys:
            frame = frame.repartition(*keys)
        frame = frame.sortWithinPartitions(*(_column(name) for name in (ROWTIME, ORIGIN, COUNTER, SEQ)))
        schema = pa.schema([field.with_nullable(True) for field in tray_schema(row_type)])
        for name_, kind in ((STEP, pa.int32()), (SEQ, pa.int64()), (REPORT, pa.binary())):
            schema = schema.append(pa.field(name_, kind))
        work = _folding(row_type, fold, schema)
        frame.mapInArrow(work, from_arrow_schema(schema)).write.mode("overwrite").parquet(path)
        self.faults.add(path)
        return path, [pickle.loads(each) for each in _reports(path, REPORT_STEP)]

    def flow(self) -> Flow:
        """Give the live flow that has read just these messages."""
        flow = Flow(self._definition.outputs, self._definition.partitions)
        flow.take_over(self._circuits.values(), self._promised)
        return flow

    def _run_source(
        self, number: int, segment: Segment, messages: Mapping[str, DataFrame], in_order: bool
    ) -> None:
        relation = self._program.steps[segment.entries[0]].node.relation
        stage, intake = Stage(self._definition, number, {}), self._intake
        frame = messages[relation]
        if not in_order:
            frame = frame.repartition("partition").sortWithinPartitions("partition", "offset")
        self._write(number, segment, frame, lambda batches: stage.run_source(intake, batches))
        arrivals = {at: [(0, None, self._entrance_bound(at))] for at in segment.entries}
        self._settle(number, arrivals)

    def _run_operator(self, number: int, segment: Segment) -> None:
        (entry,) = segment.entries
        row_types = entry_row_types(self._program, entry)
        node = self._program.steps[entry].node
        if isinstance(node, TableSource):
            _, tray, bound = initial(node, self._program.steps[entry])
            bounds = {0: bound}
            frame = self._session.createDataFrame(_initial_rows(tray or Tray.empty(node.row_type)))
        else:
            bounds = {port: self._reached[entry, port] for port in range(len(row_types))}
            frame = self._brought_together(entry, row_types, segment.keys)
        stage = Stage(self._definition, number, bounds)
        self._write(number, segment, frame, stage.run)
        self._settle(number, {entry: [(port, None, bound) for port, bound in bounds.items()]})

    def _run_merge(self, number: int, segment: Segment) -> None:
        """Let through what the final bounds allow; the rest is what the merge remembers."""
        (entry,) = segment.entries
        circuit = self._circuits[number]
        merge = cast("MergeOperator", circuit.operators[entry])
        feeders = self._feeders(entry)
        for port in feeders:
            merge.offer(port, None, self._reached[entry, port])
        limits = merge.limits()
        row_type = self._program.steps[entry].node.row_type
        parts, waiting = [], []
        for ports in self._of_one_node(feeders):
            rows = self._rows_of(*ports)
            if any(limits[port] < END for port in ports.values()):
                leaves = reduce(
                    or_,
                    (
                        (_column(STEP) == at) & self._before(limits[port], merge.ranks, port)
                        for at, port in ports.items()
                    ),
                )
                # What waits is not before any limit: so whole files and pages need not be read.
                least = min(limits[port][0] for port in ports.values())
                waits = rows.where((_column(ROWTIME) >= least) & ~leaves)
                waiting.append(self._port_rows(waits, ports, [row_type], 0))
                rows = rows.where(leaves)
            parts.append(self._port_rows(rows, dict.fromkeys(ports, 0), [row_type], 0))
        for port, tray in self._collected(waiting, row_type, merge.ranks).items():
            merge.offer(port, tray, self._reached[entry, port])
        frame = _union(parts)
        if len(segment.steps) > 1:
            stage = Stage(self._definition, number, {0: self._reached[entry, 0]})
            self._write(number, segment, frame, stage.run)
        else:
            # What is let through is read where it lies: nothing is computed here.
            self._given[number] = self._as_given(frame, entry)
        came = sum(self._account(at).rows_out for at in feeders.values())
        released = came - merge.held()
        merge.account.rows_in += released
        merge.account.done += released
        merge.account.rows_out += released
        self._settle(number, {entry: [(port, None, self._reached[entry, port]) for port in feeders]})

    def _of_one_node(self, feeders: Mapping[int, int]) -> list[dict[int, int]]:
        """Give the steps that feed a merge with their ports, those together whose rows lie together."""
        found: dict[tuple[int, int, int], dict[int, int]] = {}
        for port, at in feeders.items():
            place = (self._home[at], self._program.steps[at].ordinal)
            # One step may feed several ports: its rows are read for each.
            turn = 0
            while at in found.get((*place, turn), {}):
                turn += 1
            found.setdefault((*place, turn), {})[at] = port
        return list(found.values())

    def _collected(
        self, rows: Sequence[DataFrame], row_type: RowType, ranks: Mapping[int, int]
    ) -> dict[int, Tray]:
        """Bring rows of several ports to the driver in one job, those of each port in its order."""
        if not rows:
            return {}
        held = _union(rows).toArrow()
        held = held.take(_in_order(held, ranks))
        ports = np.asarray(held.column(PORT))
        return {
            int(port): tray_of(held.filter(pa.array(ports == port)), row_type, 0) for port in np.unique(ports)
        }

    def _account(self, at: int) -> Account:
        operator = self._circuits[self._home[at]].operators[at]
        if operator is None:
            raise FaultError(f"step {at} is a source: it judges no rows and cannot feed a merge")
        return operator.account

    def _as_given(self, rows: DataFrame, at: int) -> DataFrame:
        """Give rows of port 0 as those that step ``at`` gave."""
        from pyspark.sql import functions

        step = self._program.steps[at]
        fields = [
            (field_name(0, index), field_name(step.ordinal, index))
            for index in range(len(step.node.row_type))
        ]
        return rows.select(
            functions.lit(at).cast("int").alias(STEP),
            *(_column(name) for name, _ in TIMES),
            _column(SEQ),
            *(_column(name).alias(given) for name, given in fields),
        )

    def _write(
        self,
        number: int,
        segment: Segment,
        frame: DataFrame,
        work: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    ) -> None:
        """Run a stage, keep what it gives, and take over what its tasks report."""
        from pyspark.sql.pandas.types import from_arrow_schema

        path = f"{self._staging}/segment-{number}"
        schema = from_arrow_schema(stage_schema(self._program, segment))
        frame.mapInArrow(work, schema).write.mode("overwrite").parquet(path)
        given = self._session.read.schema(schema).parquet(path)
        self._given[number] = given
        self.faults.add(path)
        states: dict[int, list[State]] = {}
        for content in _reports(path, REPORT_STEP):
            report: Report = pickle.loads(content)
            self.messages += report.messages
            for at, bound in report.promised.items():
                step = self._program.steps[at]
                self._promised[step.node.relation, step.partition or 0] = bound
            for at, state in report.states.items():
                states.setdefault(at, []).append(state)
        for at, parts in states.items():
            operator = self._circuits[number].operators[at]
            if operator is not None:
                kind: type = type(self._program.steps[at].node)
                operator.restore(operator_type(kind).merge(parts))

    def _settle(self, number: int, arrivals: Mapping[int, Sequence[Arrival]]) -> None:
        """Let the final bounds follow through a segment whose states have been taken over."""
        passed = self._circuits[number].push(arrivals)
        if passed.given or passed.faults:
            raise FaultError(f"segment {number} gave rows after its tasks had worked everything off")
        for port, _, bound in passed.leaving:
            self._reached[port] = bound

    def _brought_together(
        self, entry: int, row_types: Sequence[RowType], keys: PartitionKey | None
    ) -> DataFrame:
        """Give an entry's rows of all ports, those of one key in one task, in order of time."""
        feeders = self._feeders(entry)
        rows = _union(
            self._port_rows(self._rows_of(at), {at: port}, row_types, port) for port, at in feeders.items()
        )
        leaving = (self._program.steps[at].origins for at in feeders.values())
        origins = tuple(dict.fromkeys(origin for each in leaving for origin in each))
        return brought_together(rows, row_types, keys, origins)

    def _port_rows(
        self, rows: DataFrame, ports: Mapping[int, int], row_types: Sequence[RowType], into: int
    ) -> DataFrame:
        """Give rows of steps of one node as those of a port; fields of the other ports are NULL.

        ``ports`` says what ``$port`` is by step; ``row_types`` and ``into`` which fields there are.
        """
        from pyspark.sql import functions
        from pyspark.sql.pandas.types import from_arrow_type

        (ordinal,) = {self._program.steps[at].ordinal for at in ports}
        columns = [_chosen(STEP, ports).cast("int").alias(PORT)]
        columns += [_column(name) for name, _ in TIMES]
        columns.append(_column(SEQ))
        for number, row_type in enumerate(row_types):
            for index, field in enumerate(row_type):
                name = field_name(number, index)
                if number == into:
                    columns.append(_column(field_name(ordinal, index)).alias(name))
                else:
                    kind = from_arrow_type(arrow_type(field.type))
                    columns.append(functions.lit(None).cast(kind).alias(name))
        return rows.select(*columns)

    def _rows_of(self, *steps: int) -> DataFrame:
        """Give the rows of steps that lie together."""
        (home,) = {self._home[at] for at in steps}
        return self._given[home].where(_column(STEP).isin(*steps))

    def _feeders(self, entry: int) -> dict[int, int]:
        """Give the step that feeds each port of an entry."""
        return {
            port: at
            for at, step in enumerate(self._program.steps)
            for position, port in step.targets
            if position == entry
        }

    def _entrance_bound(self, at: int) -> Bound:
        step = self._program.steps[at]
        return self._promised.get((step.node.relation, step.partition or 0), NO_BOUND)

    def _before(self, limit: tuple[int, int, int, int], ranks: Mapping[int, int], port: int) -> SparkColumn:
        """Give the condition that a row's place in consistent time comes before ``limit``."""
        rowtime, rank, counter = _column(ROWTIME), _rank(ranks), _column(COUNTER)
        ends = counter < limit[2]
        if port < limit[3]:
            ends = ends | (counter == limit[2])
        return (rowtime < limit[0]) | (
            (rowtime == limit[0]) & ((rank < limit[1]) | ((rank == limit[1]) & ends))
        )


def brought_together(
    rows: DataFrame, row_types: Sequence[RowType], keys: PartitionKey | None, origins: Sequence[int]
) -> DataFrame:
    """Give an entry's rows of all ports, those of one key in one task, in order of time.

    Args:
      rows: with the columns ``$port``, the time columns, ``$seq``, and the fields of every port.
      row_types: those of the ports.
      keys: the fields of each port by which rows are split; None: they all go to one task.
      origins: in the order in which rows of one rowtime come.
    """
    names = []
    for index in range(len(keys[0]) if keys else 0):
        names.append(f"$key{index}")
        rows = rows.withColumn(names[-1], _key_column(row_types, [port[index] for port in keys or ()]))
    together = rows.repartition(*map(_column, names)) if names else rows.repartition(1)
    ranks = {origin: rank for rank, origin in enumerate(origins)}
    by_rank = [_rank(ranks)] if len(ranks) > 1 else []
    in_order = together.sortWithinPartitions(_column(ROWTIME), *by_rank, _column(COUNTER), _column(SEQ))
    return in_order.drop(*names)


def _key_column(row_types: Sequence[RowType], fields: Sequence[int]) -> SparkColumn:
    """Give one field of the key: of each port its own."""
    from pyspark.sql import functions

    columns = []
    for port, (row_type, field) in enumerate(zip(row_types, fields, strict=True)):
        column = _column(field_name(port, field))
        # Adding zero makes one of the two zeros of floating point.
        column = column + 0.0 if row_type[field].type.is_float else column
        columns.append(functions.when(_column(PORT) == port, column))
    return functions.coalesce(*columns)


def _rank(ranks: Mapping[int, int]) -> SparkColumn:
    return _chosen(ORIGIN, ranks)


def _chosen(name: str, values: Mapping[int, int]) -> SparkColumn:
    """Give the value that goes with what a column holds."""
    from pyspark.sql import functions

    if len(set(values.values())) == 1:
        return functions.lit(next(iter(values.values())))
    # Not a map: that would be built and searched for every row.
    chosen = functions.when(functions.lit(False), functions.lit(0))
    for held, value in values.items():
        chosen = chosen.when(_column(name) == held, functions.lit(value))
    return chosen


def _column(name: str) -> SparkColumn:
    from pyspark.sql import functions

    return functions.col(f"`{name}`")


def _union(parts: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionByName(right), parts)


def _in_order(rows: pa.Table, ranks: Mapping[int, int]) -> pa.Array:
    """Give the indices that put rows of one step into consistent time."""
    rank = np.array([ranks[origin] for origin in rows.column(ORIGIN).to_pylist()], dtype=np.int64)
    rowtime, counter, seq = (np.asarray(rows.column(name)) for name in (ROWTIME, COUNTER, SEQ))
    return pa.array(np.lexsort((seq, counter, rank, rowtime)))


def _reports(path: str, step: int) -> list[bytes]:
    """Give what the tasks of a stage have reported; read here, since a job for it costs more."""
    schema = pa.schema([(STEP, pa.int32()), (REPORT, pa.binary())])
    parts = pyarrow.dataset.dataset(path, schema=schema, format="parquet")
    rows = parts.to_table(columns=[REPORT], filter=pyarrow.dataset.field(STEP) == step)
    return list(rows.column(REPORT).to_pylist())


def _folding(
    row_type: RowType, fold: Fold, schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        faults = []
        for each in fold(Tray.from_arrow(row_type, batch) for batch in batches):
            if isinstance(each, Tray):
                yield from _padded(each.to_arrow(), schema).to_batches()
            elif isinstance(each, Fault):
                faults.append(each)
            else:
                yield told(schema, REPORT_STEP, each.content, 1)
            if len(faults) == FAULTS_AT_ONCE:
                yield told(schema, FAULTS_STEP, faults, len(faults))
                faults = []
        if faults:
            yield told(schema, FAULTS_STEP, faults, len(faults))

    return work


def _padded(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    for field in list(schema)[rows.num_columns :]:
        rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.cast(schema)


def _initial_rows(tray: Tray) -> pa.Table:
    """Give the rows of a table's INSERT statements as a stage's input."""
    columns: dict[str, Any] = {PORT: pa.array([0] * len(tray), type=pa.int32())}
    times = (tray.rowtime, tray.origin, tray.counter, tray.opcode)
    columns |= {name: pa.array(values) for (name, _), values in zip(TIMES, times, strict=True)}
    columns[SEQ] = pa.array(range(len(tray)), type=pa.int64())
    columns |= {field_name(0, index): column.to_arrow() for index, column in enumerate(tray.columns)}
    return pa.table(columns)
