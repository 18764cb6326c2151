"""What runs inside a Spark task: one segment of the program over Arrow batches.

A task gets its rows in order, runs the segment's operators over them, then lets
the final bounds follow, and gives the rows that leave, the state that remains
and the faults. Rows of all feeding steps share one schema: ``$step`` says which
step gave a row, and its fields are named by its node and number. A row with
``$step`` -1 carries a report in ``$report`` instead, one with -2 some faults.

Imported by workers; never imports pyspark.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as declared

import numpy as np
import pyarrow as pa

from rowtide.engine.loading import look_in
from rowtide.flow.circuit import Arrival, Circuit
from rowtide.flow.program import Program
from rowtide.flow.segments import Segment, segments
from rowtide.operators.contract import Fault, State
from rowtide.plan.nodes import Merge, Node
from rowtide.rows.column import Column, arrow_type
from rowtide.rows.tray import COUNTER, OPCODE, ORIGIN, ROWTIME, Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import NO_BOUND, Bound

STEP, REPORT, PORT, SEQ = "$step", "$report", "$port", "$seq"
"""``$seq`` numbers the rows of one task: it keeps the order of rows that one row has caused."""
REPORT_STEP, FAULTS_STEP = -1, -2
FAULTS_AT_ONCE = 1_000
"""Faults of one row: a task gives them away as they come, so that it holds no more."""
TIMES = ((ROWTIME, pa.int64()), (ORIGIN, pa.int32()), (COUNTER, pa.int64()), (OPCODE, pa.int8()))

Intake = Callable[[str, pa.RecordBatch, Mapping[int, int]], Iterable[tuple[int, "Tray | Bound | Fault"]]]
"""Makes rows of a source's messages: from the relation, a batch of messages of the source (sorted by
partition and offset) and the origins of its partitions, gives trays, explicit bounds and faults
with their partition, in log order."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What every task of a backfill knows: enough to build the program as the live service does."""

    outputs: Mapping[str, Node]
    partitions: Mapping[str, Sequence[int]]
    folders: tuple[str, ...] = declared(default_factory=lambda: tuple(map(os.path.abspath, sys.path)))
    """Where the driver looks for modules: workers look for those of models there too."""

    def program(self) -> Program:
        """Build the program."""
        for folder in self.folders:
            look_in(folder)
        return Program(self.outputs, self.partitions)


@dataclass(frozen=True, slots=True)
class Report:
    """What a task leaves behind besides rows: by position of the step, states and explicit bounds.

    ``messages`` counts what it read of a source.
    """

    states: Mapping[int, State]
    promised: Mapping[int, Bound]
    messages: int


@dataclass(frozen=True, slots=True)
class Stage:
    """The work of one segment: ``bounds`` are the final ones of the ports of its entry."""

    definition: Definition
    number: int
    bounds: Mapping[int, Bound]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work off one task's rows, in time order; each has its port in ``$port``."""
        program = self.definition.program()
        segment = segments(program)[self.number]
        (entry,) = segment.entries
        work = _Work(program, segment)
        if segment.is_merge(program):
            work.let_through(entry)
        row_types = entry_row_types(program, entry)
        for batch in batches:
            yield from work.push({entry: _arrivals(batch, row_types, self.bounds)})
        yield from work.push({entry: [(port, None, bound) for port, bound in self.bounds.items()]})
        yield from work.end()

    def run_source(self, intake: Intake, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work off one task's messages of a source, sorted by partition and offset."""
        program = self.definition.program()
        segment = segments(program)[self.number]
        work = _Work(program, segment)
        relation = program.steps[segment.entries[0]].node.relation
        entries = {program.steps[at].partition or 0: at for at in segment.entries}
        origins = {number: program.steps[at].place.origin for number, at in entries.items()}
        for batch in batches:
            work.messages += batch.num_rows
            for partition, part in intake(relation, batch, origins):
                at = entries[partition]
                if isinstance(part, Fault):
                    work.faults.append(part)
                    yield from work.full_faults()
                elif isinstance(part, Tray):
                    yield from work.push({at: [(0, part, work.promised.get(at, NO_BOUND))]})
                else:
                    work.promise(at, part)
                    yield from work.push({at: [(0, None, work.promised[at])]})
        yield from work.end()


class _Work:
    """A circuit of one segment, and what it has given so far."""

    def __init__(self, program: Program, segment: Segment) -> None:
        self.faults: list[Fault] = []
        self.promised: dict[int, Bound] = {}
        self.messages = 0
        self._given = 0
        self._program = program
        self._segment = segment
        self._circuit = Circuit(program, segment.steps)
        self._touched: set[int] = set()
        self._schema = stage_schema(program, segment)

    def let_through(self, entry: int) -> None:
        """Make the entry pass rows on as they come: what a merge holds back was taken out before."""
        self._circuit.operators[entry] = None

    def promise(self, entry: int, bound: Bound) -> None:
        """Take an explicit bound; one that goes back becomes a fault of the intake before."""
        self.promised[entry] = self.promised.get(entry, NO_BOUND).raised(bound)

    def _touch(self, entry: int) -> None:
        """Note that rows of this entry were seen: only its steps are reported."""
        if entry not in self._touched:
            self._touched |= _behind(self._program, entry, frozenset(self._segment.steps))

    def push(self, arrivals: Mapping[int, Sequence[Arrival]]) -> Iterator[pa.RecordBatch]:
        """Push into the circuit and give the rows that leave."""
        for at in arrivals:
            self._touch(at)
        passed = self._circuit.push(arrivals)
        self.faults += passed.faults
        for at in self._segment.feeders:
            for tray in passed.given.get(at, ()):
                yield _batch(self._schema, at, self._program.steps[at].ordinal, tray, self._given)
                self._given += len(tray)
        yield from self.full_faults()

    def full_faults(self) -> Iterator[pa.RecordBatch]:
        """Give the faults away if there are many."""
        while len(self.faults) >= FAULTS_AT_ONCE:
            yield told(self._schema, FAULTS_STEP, self.faults[:FAULTS_AT_ONCE], FAULTS_AT_ONCE)
            del self.faults[:FAULTS_AT_ONCE]

    def end(self) -> Iterator[pa.RecordBatch]:
        """Give the faults that are left, and the state as the last row."""
        if self.faults:
            yield told(self._schema, FAULTS_STEP, self.faults, len(self.faults))
        states = {
            at: operator.snapshot()
            for at, operator in self._circuit.operators.items()
            if operator is not None and at in self._touched
        }
        yield told(self._schema, REPORT_STEP, Report(states, self.promised, self.messages), 1)


def told(schema: pa.Schema, step: int, content: object, count: int) -> pa.RecordBatch:
    """Give a row that carries ``content``, pickled; ``count`` says in ``$seq`` of how many things."""
    values = {STEP: step, SEQ: count, REPORT: pickle.dumps(content)}
    arrays = [pa.array([values.get(field.name)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def stage_schema(program: Program, segment: Segment) -> pa.Schema:
    """Give the schema of what a stage gives."""
    fields = [pa.field(STEP, pa.int32())]
    fields += [pa.field(name, kind) for name, kind in TIMES]
    fields.append(pa.field(SEQ, pa.int64()))
    nodes = {program.steps[at].ordinal: program.steps[at].node for at in segment.feeders}
    for ordinal, node in nodes.items():
        fields += [
            pa.field(field_name(ordinal, index), arrow_type(field.type))
            for index, field in enumerate(node.row_type)
        ]
    fields.append(pa.field(REPORT, pa.binary()))
    return pa.schema(fields)


def field_name(number: int, index: int) -> str:
    """Name field ``index`` of the rows of a port, or of those that the node of that ordinal gives.

    The steps of one node, one for each partition, share their fields.
    """
    return f"f{number}_{index}"


def entry_row_types(program: Program, entry: int) -> list[RowType]:
    """Give the row type of each port of an entry; a source has one port."""
    node = program.steps[entry].node
    if isinstance(node, Merge):
        return [node.row_type]
    return [each.row_type for each in node.inputs] or [node.row_type]


def tray_of(batch: pa.RecordBatch | pa.Table, row_type: RowType, prefix: int) -> Tray:
    """Read rows out of a batch that has no others; ``prefix`` is the number in the names of their fields."""
    columns = tuple(
        Column.from_arrow(field.type, batch.column(field_name(prefix, index)))
        for index, field in enumerate(row_type)
    )
    times = (np.asarray(batch.column(name)) for name, _ in TIMES)
    return Tray(row_type, columns, *times)


def _arrivals(
    batch: pa.RecordBatch, row_types: Sequence[RowType], final: Mapping[int, Bound]
) -> list[Arrival]:
    """Cut a batch in time order into what each port gets.

    Every port has come as far as the batch, but not further than it will ever come.
    """
    ports = np.asarray(batch.column(PORT))
    rowtimes = np.asarray(batch.column(ROWTIME))
    if not len(ports):
        return []
    reached = int(rowtimes[-1])
    arrivals: list[Arrival] = []
    for port, row_type in enumerate(row_types):
        mine = np.flatnonzero(ports == port)
        tray = None
        if len(mine):
            part = batch if len(mine) == len(ports) else batch.take(pa.array(mine))
            tray = tray_of(part, row_type, port)
        arrivals.append((port, tray, Bound(min(reached, final[port].rowtime))))
    return arrivals


def _batch(schema: pa.Schema, at: int, ordinal: int, tray: Tray, first: int) -> pa.RecordBatch:
    count = len(tray)
    mine = {field_name(ordinal, index): column for index, column in enumerate(tray.columns)}
    times = dict(
        zip((name for name, _ in TIMES), (tray.rowtime, tray.origin, tray.counter, tray.opcode), strict=True)
    )
    arrays = []
    for field in schema:
        if field.name == STEP:
            arrays.append(pa.array(np.full(count, at, dtype=np.int32)))
        elif field.name == SEQ:
            arrays.append(pa.array(np.arange(first, first + count, dtype=np.int64)))
        elif field.name in times:
            arrays.append(pa.array(times[field.name]))
        elif field.name in mine:
            arrays.append(mine[field.name].to_arrow())
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _behind(program: Program, entry: int, inside: frozenset[int]) -> set[int]:
    """Give the steps of a segment that rows of ``entry`` can reach."""
    found = {entry}
    for position, _ in program.steps[entry].targets:
        if position in inside and position not in found:
            found |= _behind(program, position, inside)
    return found
