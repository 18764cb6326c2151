"""The work of a Spark task: one segment of the program over the rows of one part.

A task receives its rows in order, runs the segment's operators over them, then
passes the final bounds, and returns the output rows, the remaining state and
the faults.

Imported by workers; never imports pyspark.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as declared

import numpy as np
import pyarrow as pa

from rowtide.errors import BoundRegressionError, Reason
from rowtide.expr.python.loading import look_in
from rowtide.flow.circuit import Arrival, Circuit
from rowtide.flow.program import Program
from rowtide.flow.segments import Segment, segments
from rowtide.operators.contract import Fault, State
from rowtide.operators.registry import operator_type
from rowtide.plan.nodes import Node
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import EARLIEST, NO_BOUND, Bound
from rowtide.runners.spark.parts.keeping import WHOLE, Begins, Keeping, KeptState, PartKeeper
from rowtide.runners.spark.shuffle.blocks import begun_in, blocks_of
from rowtide.runners.spark.shuffle.given import Layout, TaskBlocks, TaskOutput
from rowtide.runners.spark.shuffle.runs import Causes, Numbered, StageInput, TaskInputs, numbered


@dataclass(frozen=True, slots=True)
class BoundRecord:
    """A message that promises a bound, and its place in the log."""

    bound: Bound
    offset: int
    timestamp: int


Built = tuple[Program, Segment]
"""The program of a definition, and the segment of a task."""

DecodeMessages = Callable[
    [str, pa.RecordBatch, Mapping[int, int]], Iterable[tuple[int, Tray | Bound | BoundRecord | Fault]]
]
"""Decodes a source's messages: takes the relation, a batch of messages of the source (sorted by
partition and offset) and the origins of its partitions; returns trays, explicit bounds and faults
with their partition, in log order."""


@dataclass(frozen=True, slots=True)
class RunDefinition:
    """The definition from which every task of a backfill builds the program of the live service."""

    outputs: Mapping[str, Node]
    partitions: Mapping[str, Sequence[int]]
    folders: tuple[str, ...] = declared(default_factory=lambda: tuple(map(os.path.abspath, sys.path)))
    """The module path of the driver, where workers also search for models."""

    def program(self) -> Program:
        """Build the program."""
        for folder in self.folders:
            look_in(folder)
        return Program(self.outputs, self.partitions)


@dataclass(slots=True)
class Entered:
    """What has become of messages of a source: rows, explicit bounds, and faults."""

    messages: int = 0
    rows: int = 0
    bounds: int = 0
    rejected: int = 0

    def add(self, other: Entered) -> None:
        """Add what has become of other messages."""
        self.messages += other.messages
        self.rows += other.rows
        self.bounds += other.bounds
        self.rejected += other.rejected


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The report of a task besides rows: by position of the step, states and explicit bounds.

    ``entered`` counts the messages that it read of a source, ``latest`` is their latest timestamp (ms). Of a segment
    that is kept in parts, ``kept`` has the steps whose state the task has put into the store, which are not in
    ``states``, and ``bounds`` the bound that each step has reached.
    """

    states: Mapping[int, State]
    promised: Mapping[int, Bound]
    entered: Entered = declared(default_factory=Entered)
    latest: int = EARLIEST
    kept: Mapping[int, KeptState] = declared(default_factory=dict)
    bounds: Mapping[int, Bound] = declared(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """The work of one segment: ``bounds`` are the final ones of the ports of its entry.

    ``in_parts``: each task processes some keys. ``counts``: it is one task, which counts its rows: see
    ``runs.is_full``. ``promised`` are the explicit bounds that the entries have from an earlier run. With a
    ``keeper`` its tasks keep the state of the steps ``kept`` there.
    """

    definition: RunDefinition
    number: int
    bounds: Mapping[int, Bound]
    in_parts: bool = False
    counts: bool = False
    promised: Mapping[int, Bound] = declared(default_factory=dict)
    keeper: PartKeeper | None = None
    kept: frozenset[int] = frozenset()

    def run(self, cuts: Iterable[StageInput], given: TaskOutput) -> TaskReport:
        """Process one task's rows, in time order."""
        work = self.begin(given)
        for cut in cuts:
            work.push_cut(cut)
        return work.end(self.bounds)

    def built(self) -> Built:
        """Build the program, which each task does once, and find the segment."""
        program = self.definition.program()
        return program, segments(program)[self.number]

    def begin(
        self, given: TaskOutput, states: Sequence[bytes] = (), built: Built | None = None
    ) -> SegmentWork:
        """Begin a task that processes rows. ``states`` are those of its parts, from an earlier run."""
        program, segment = built or self.built()
        (entry,) = segment.entries
        if self.in_parts:
            for step in (program.steps[at] for at in segment.steps):
                step.place = replace(step.place, is_part=True)
        work = SegmentWork(program, segment, given, counts=self.counts)
        if segment.is_merge(program):
            work.let_through(entry)
        found = [pickle.loads(each) for each in states]
        if self.keeper is not None and found:
            begins: list[Begins] = found
            found = [each.load(program, self.keeper.store) for each in begins]
            work.keeping = Keeping(self.keeper, self.kept, begins)
        if found:
            work.go_on(joined(found, program))
        return work

    def begin_source(
        self, given: TaskOutput, left: Mapping[int, bytes] | None = None, built: Built | None = None
    ) -> SegmentWork:
        """Begin a task that processes messages of a source, sorted by partition and offset.

        ``left`` has, by entry, the states of the steps behind it that an earlier run left.
        """
        work = SegmentWork(*(built or self.built()), given, left=left)
        work.promised |= self.promised
        if self.keeper is not None:
            work.keeping = Keeping(self.keeper, self.kept, [WHOLE])
        return work


@dataclass(frozen=True, slots=True)
class StageTasks:
    """The tasks of a stage: each reads the blocks of its part. Pickled to the workers."""

    stage: SegmentTask
    layout: Layout
    inputs: TaskInputs

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process one task's blocks, and report it."""
        built = self.stage.built()
        given = task_blocks(*built, self.layout)
        states, blocks = begun_in(blocks_of(batches))
        work = self.stage.begin(given, states, built)
        for cut in self.inputs.in_order(blocks, self.stage.bounds):
            work.push_cut(cut)
            yield from given.taken()
        yield from given.close(work.end(self.stage.bounds))


@dataclass(frozen=True, slots=True)
class SourceTasks:
    """The tasks of a source: each reads messages. Pickled to the workers."""

    stage: SegmentTask
    layout: Layout
    intake: DecodeMessages
    states: Mapping[int, bytes] = declared(default_factory=dict)
    """What an earlier run left, by entry; a task loads that of its partitions."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process one task's messages, and report it."""
        built = self.stage.built()
        given = task_blocks(*built, self.layout)
        work = self.stage.begin_source(given, self.states, built)
        for batch in batches:
            for _ in work.push_messages(self.intake, batch):
                yield from given.taken()
        yield from given.close(work.report())


@dataclass(frozen=True, slots=True)
class SilentTasks:
    """The tasks that let silent partitions of a source take bounds, where state is in parts. Pickled to the workers.

    A task gets, for some partitions, what each begins with, and the bounds that come to its steps.
    """

    stage: SegmentTask
    layout: Layout

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the bounds of one task, and report it."""
        built = self.stage.built()
        given = task_blocks(*built, self.layout)
        work = self.stage.begin_source(given, built=built)
        contents, _ = begun_in(blocks_of(batches))
        for content in contents:
            taken: Sequence[tuple[Begins, Mapping[int, Sequence[Arrival]]]] = pickle.loads(content)
            for begins, arrivals in taken:
                work.begin_from(begins)
                work.push(arrivals)
                yield from given.taken()
        yield from given.close(work.report())


def joined(states: Sequence[Mapping[int, State]], program: Program) -> Mapping[int, State]:
    """Return the states of several parts, by step, as one."""
    if len(states) == 1:
        return states[0]
    found = {}
    for at in states[0]:
        kind: type = type(program.steps[at].node)
        found[at] = operator_type(kind).merge([each[at] for each in states])
    return found


def task_blocks(program: Program, segment: Segment, layout: Layout) -> TaskBlocks:
    """Begin the blocks of a task of a segment."""
    return TaskBlocks(layout, {at: program.steps[at].node.row_type for at in segment.feeders})


class SegmentWork:
    """The running circuit of one segment."""

    def __init__(
        self,
        program: Program,
        segment: Segment,
        given: TaskOutput,
        *,
        counts: bool = False,
        left: Mapping[int, bytes] | None = None,
    ) -> None:
        self.promised: dict[int, Bound] = {}
        self.entered = Entered()
        self.latest = EARLIEST
        self.keeping: Keeping | None = None
        self._left = dict(left or {})
        self._given = given
        self._program = program
        self._segment = segment
        self._circuit = Circuit(program, segment.steps)
        self._touched: set[int] = set()
        self._entries = {program.steps[at].partition or 0: at for at in segment.entries}
        self._origins = {number: program.steps[at].place.origin for number, at in self._entries.items()}
        self._counted = dict.fromkeys(segment.feeders, 0) if counts else None

    def let_through(self, entry: int) -> None:
        """Make the entry pass rows on as they come: rows that a merge holds back were left out before."""
        self._circuit.operators[entry] = None

    def begin_from(self, left: Mapping[int, State] | Begins) -> None:
        """Restore what an earlier run left, reading what it has kept in parts."""
        if isinstance(left, Begins):
            assert self.keeping is not None
            left = left.load(self._program, self.keeping.keeper.store)
        self.go_on(left)

    def go_on(self, states: Mapping[int, State]) -> None:
        """Restore what an earlier run left. These states are reported even if no row comes."""
        for at, state in states.items():
            operator = self._circuit.operators[at]
            if operator is not None:
                operator.restore(state)
        self._touched |= states.keys()

    def promise(self, entry: int, bound: Bound, record: BoundRecord | None = None) -> None:
        """Take an explicit bound, or reject the record whose bound goes back, as ``Flow.bound`` does."""
        held = self.promised.get(entry, NO_BOUND)
        if record is None or bound.rowtime >= held.rowtime:
            self.entered.bounds += 1
        else:
            self.entered.rejected += 1
            step = self._program.steps[entry]
            relation, partition = step.node.relation, step.partition or 0
            error = BoundRegressionError(relation, partition, held=held.rowtime, offered=bound.rowtime)
            self._given.faults(
                [
                    Fault(
                        relation,
                        Reason.BOUND,
                        error.message,
                        record.timestamp,
                        self._origins[partition],
                        record.offset,
                        bound=held.rowtime,
                    )
                ]
            )
        self.promised[entry] = held.raised(bound)

    def push_cut(self, cut: StageInput) -> None:
        """Process rows that come to the entry."""
        (entry,) = self._segment.entries
        self.push({entry: cut.arrivals}, cut.causes)

    def push_messages(self, intake: DecodeMessages, batch: pa.RecordBatch) -> Iterator[None]:
        """Process messages of the source, tray by tray."""
        relation = self._program.steps[self._segment.entries[0]].node.relation
        self.entered.messages += batch.num_rows
        self.latest = max(self.latest, _latest(batch))
        for partition, part in intake(relation, batch, self._origins):
            at = self._entries[partition]
            if at in self._left:
                self.begin_from(pickle.loads(self._left.pop(at)))
                # The steps report the bound that they had, also if none of the messages is a row or a bound.
                self.push({at: [(0, None, self.promised.get(at, NO_BOUND))]})
            if isinstance(part, Fault):
                self._given.faults([part])
                self.entered.rejected += 1
            elif isinstance(part, Tray):
                self.entered.rows += len(part)
                self.push({at: [(0, part, self.promised.get(at, NO_BOUND))]})
            else:
                record = part if isinstance(part, BoundRecord) else None
                self.promise(at, part.bound if isinstance(part, BoundRecord) else part, record)
                self.push({at: [(0, None, self.promised[at])]})
            yield

    def end(self, bounds: Mapping[int, Bound]) -> TaskReport:
        """Let the entry take its final bounds, and return the remaining state."""
        (entry,) = self._segment.entries
        self.push({entry: [(port, None, bound) for port, bound in bounds.items()]})
        return self.report()

    def push(self, arrivals: Mapping[int, Sequence[Arrival]], causes: Causes | None = None) -> None:
        """Push into the circuit and return the rows that leave."""
        for at in arrivals:
            # Only the steps after entries with rows are reported.
            if at not in self._touched:
                self._touched |= steps_behind(self._program, at, frozenset(self._segment.steps))
        passed = self._circuit.push(arrivals)
        for at in self._segment.feeders:
            for tray in passed.given.get(at, ()):
                self._given.rows(at, self._numbered(at, tray, causes))
        if passed.faults:
            self._given.faults(passed.faults)

    def _numbered(self, at: int, tray: Tray, causes: Causes | None) -> Numbered:
        if self._counted is None:
            return numbered(tray, causes, is_one_to_one=self._segment.is_one_to_one)
        first = self._counted[at]
        self._counted[at] += len(tray)
        return Numbered(tray, np.arange(first, self._counted[at], dtype=np.int64))

    def report(self) -> TaskReport:
        """Return the remaining state, or the name under which it is kept."""
        left = {
            at: operator
            for at, operator in self._circuit.operators.items()
            if operator is not None and at in self._touched
        }
        kept: dict[int, KeptState] = {}
        bounds: dict[int, Bound] = {}
        if self.keeping is not None:
            steps = self.keeping.steps
            kept = {
                at: self.keeping.kept(self._program, at, left.pop(at)) for at in sorted(left.keys() & steps)
            }
            bounds = {at: self._circuit.bounds[at] for at in self._touched}
        states = {at: operator.snapshot() for at, operator in left.items()}
        return TaskReport(states, self.promised, self.entered, self.latest, kept, bounds)


def _latest(messages: pa.RecordBatch) -> int:
    """Return the latest timestamp of messages, of which those of scenarios have none."""
    at = messages.schema.get_field_index("timestamp")
    return EARLIEST if at < 0 or not messages.num_rows else int(np.asarray(messages.column(at)).max())


def entry_row_types(program: Program, entry: int) -> list[RowType]:
    """Return the row type of each port of an entry that is not a merge."""
    return [each.row_type for each in program.steps[entry].node.inputs]


def steps_behind(program: Program, entry: int, inside: frozenset[int]) -> set[int]:
    """Return the steps of a segment that rows of ``entry`` can reach."""
    found = {entry}
    for position, _ in program.steps[entry].targets:
        if position in inside and position not in found:
            found |= steps_behind(program, position, inside)
    return found
