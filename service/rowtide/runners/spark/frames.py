"""A program on Spark: one segment after the other. The tasks of each read the output of earlier ones.

Spark selects the messages, places the tasks, repeats failed ones, and brings the
rows from one segment to the next (see ``shuffle.exchange``). The driver keeps a shadow of the live circuit.
After each segment it takes over the states that the tasks reported and lets the
bounds follow, as the live service would. So in the end the shadow has the state
of a live service that has read just these messages, and the rows never pass
through the driver. Of state that tasks keep in parts it has the names (``parts``).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from rowtide.errors import FaultError
from rowtide.flow.circuit import Arrival, Circuit
from rowtide.flow.flow import Flow
from rowtide.flow.program import Port
from rowtide.flow.segments import Segment, segments
from rowtide.flow.table_changes import initial
from rowtide.operators.contract import Account, State
from rowtide.operators.merge.merge import MergeOperator
from rowtide.operators.merge.ranks import Ranks
from rowtide.operators.registry import operator_type
from rowtide.operators.sort.sort import TAKEN
from rowtide.plan.nodes import Source, TableSource
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import EARLIEST, NO_BOUND, Bound
from rowtide.runners.spark.faults import Faults
from rowtide.runners.spark.folding import FoldCount, Folded, FoldFunction, FoldTasks
from rowtide.runners.spark.parts.kept_segments import KeptSegments
from rowtide.runners.spark.rows import BEFORE, SegmentRows
from rowtide.runners.spark.session import MESSAGES_AT_ONCE
from rowtide.runners.spark.shuffle.exchange import Exchange, Spread, TaskFunction, batch_rows
from rowtide.runners.spark.shuffle.given import TaskBlocks
from rowtide.runners.spark.shuffle.held import StageBlocks, StageGiven
from rowtide.runners.spark.shuffle.runs import (
    MergeLimit,
    Piece,
    Split,
    StageInput,
    TaskInputs,
    numbered,
    row_count,
)
from rowtide.runners.spark.slots import feeders_of, only_passes
from rowtide.runners.spark.spreading import Spreading, must_count
from rowtide.runners.spark.stage import (
    DecodeMessages,
    Entered,
    RunDefinition,
    SegmentTask,
    SilentTasks,
    SourceTasks,
    StageTasks,
    TaskReport,
    entry_row_types,
    task_blocks,
)
from rowtide.runners.spark.start import Beginning, Start
from rowtide.runners.spark.together import Job, Stage, StageWork, run_together
from rowtide.runners.spark.waiting import RowsAside, WaitingInMerges, WaitingTasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW_ROWS = 20_000
"""Number of rows that one task processes faster than Spark starts another task."""

SilentPartitions = Callable[[Flow, Mapping[str, int]], tuple[Mapping[tuple[str, int], Bound], bool]]
"""Returns the bounds that silent partitions take, beyond those that they have, in the state of a flow.

The second argument has the latest timestamp of each source relation's messages (ms). The second result tells
whether the bounds are explicit ones of the partitions; else they only follow: see ``Flow.follow``.
"""


class SparkRun:
    """One run of a program over messages that are already chosen.

    Args:
      session: the Spark session.
      definition: outputs and partitions, as in the live flow.
      folder: a folder of this process, for the state of rows that wait.
      intake: decodes messages. Pickled to the workers.
      folded: outputs that ``fold`` folds, with their key fields. The others are kept as they are.
      few: up to this number of rows of an operator go to one task, whatever their keys; default ``FEW_ROWS``.
      start: what it begins from; None: the first state.

    What Spark keeps of it is removed by ``close``.
    """

    def __init__(
        self,
        session: SparkSession,
        definition: RunDefinition,
        folder: str,
        intake: DecodeMessages,
        folded: Mapping[str, Sequence[int]] | None = None,
        few: int | None = None,
        start: Beginning | None = None,
    ) -> None:
        self._session = session
        self._definition = definition
        self._folder = folder
        self._intake = intake
        self._folded = {name: tuple(key) for name, key in (folded or {}).items()}
        self._program = definition.program()
        begins = start or Beginning()
        self._start = Start(self._program, begins)
        self._segments = segments(self._program)
        self._home = {at: number for number, each in enumerate(self._segments) for at in each.steps}
        self._kept = frozenset(at for name, at in self._program.outputs.items() if name not in self._folded)
        parts = int(session.conf.get("spark.sql.shuffle.partitions") or 1)
        self._exchange = Exchange(session, parts)
        self._spreading = Spreading(self._program, self._folded, parts, FEW_ROWS if few is None else few)
        self._rows = SegmentRows(
            self._program, self._segments, self._exchange, self._kept, self._folded, self._start
        )
        self._circuits = {
            number: self._start.circuit(segment) for number, segment in enumerate(self._segments)
        }
        self._in_parts = KeptSegments(
            self._program, self._segments, begins.keeper, self._start, self._spreading
        )
        self._reached: dict[Port, Bound] = {}
        self.waiting = WaitingInMerges(self._program, self._merge_at)
        self._promised = dict(self._start.promised)
        self._while_waiting: Callable[[], None] = lambda: None
        sources = [self._program.steps[at].place.origin for at in self._program.entrances.values()]
        of_sources = [number for number in range(len(self._segments)) if self._is_source(number)]
        others = [number for number in range(len(self._segments)) if number not in of_sources]
        self.faults = Faults(session, self._exchange, sources, [*of_sources, *others, *self._folded])
        """The faults of late and rejected rows, which stay with Spark."""
        self.entered: dict[str, Entered] = {}
        """What has become of the messages of each source relation that has brought some."""
        self.folds: dict[str, FoldCount] = {}
        """The rows of each output that was folded."""
        self.latest: dict[str, int] = {}
        """The latest timestamp of the messages of each source relation (ms)."""

    def read(
        self,
        messages: Mapping[str, DataFrame | None],
        *,
        in_order: bool = False,
        silent: SilentPartitions | None = None,
        progress: Callable[[str, int], None] = lambda _segment, _rows: None,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """Run every segment. ``messages`` has the selected messages of each source relation; None: there are none.

        ``in_order``: each partition's messages are already in one task, in the order of their offsets, as
        Spark reads them from Kafka. Otherwise they are shuffled, which costs more than everything else.

        An engine table in ``messages`` is filled by its messages, otherwise by its INSERT
        statements. A frame of messages has the columns topic, partition, offset, timestamp (ms),
        key, value and headers.

        ``silent`` decides after the sources are read, and again after the rest, which bounds silent
        partitions take. What is behind a partition that takes one then runs again. ``progress`` is called
        after each segment, with its description and the number of rows that it has given, and ``waiting`` again
        and again while jobs run, also those of later folds. Segments whose rows do not depend on each other run at
        the same time.
        """
        self._while_waiting = waiting
        self._bring_back_waiting()
        sources = [number for number in range(len(self._segments)) if self._is_source(number)]
        works = {number: partial(self._source_work, number, messages, in_order) for number in sources}
        with batch_rows(self._session, MESSAGES_AT_ONCE):
            self._run_all(works, progress)
        while self._follow(silent):
            pass
        left = [number for number in range(len(self._segments)) if number not in sources]
        while left:
            self._run_all({number: partial(self._stage_work, number) for number in left}, progress)
            # A stream that is idle as a whole follows others only when these have come to where they meet.
            left = self._behind(self._follow(silent))
            self._forget(left)

    def _bring_back_waiting(self) -> None:
        """Let tasks make blocks of the rows that wait in merges and are kept in parts."""
        ports = list(self._start.kept_waiting)
        if ports:
            work = self._in_parts.queue_tasks(ports, self._rows.layout_of_waiting(ports))
            cells = self._in_parts.queues(ports, self._exchange.parts)
            self._rows.take(BEFORE, self._run_cells("rows that wait in merges", cells, work))

    def _is_source(self, number: int) -> bool:
        return isinstance(self._program.steps[self._segments[number].entries[0]].node, Source | TableSource)

    def _run_all(
        self, works: Mapping[int, Callable[[], StageWork]], progress: Callable[[str, int], None]
    ) -> None:
        """Run segments, each after those of these that it reads."""
        after: dict[int, set[int]] = {number: set() for number in works}
        for number in works:
            for _, (at, _) in self._segments[number].exits:
                if self._home[at] in after:
                    after[self._home[at]].add(number)
        stages = {
            number: Stage(self._describe(number), work, after[number]) for number, work in works.items()
        }

        def ended(number: int) -> None:
            operators, feeders = self._circuits[number].operators, self._segments[number].feeders
            rows = sum(self._came(at) for at in feeders if operators[at] is not None)
            progress(stages[number].description, rows)

        run_together(self._session, stages, ended, self._while_waiting)

    def _source_work(
        self, number: int, messages: Mapping[str, DataFrame | None], in_order: bool
    ) -> StageWork:
        segment = self._segments[number]
        source = self._program.steps[segment.entries[0]].node
        if source.relation in messages:
            yield from self._run_source(number, segment, messages[source.relation], in_order)
        elif isinstance(source, TableSource):
            self._run_initial(number, segment, source)

    def _stage_work(self, number: int) -> StageWork:
        segment = self._segments[number]
        run = self._run_merge if segment.is_merge(self._program) else self._run_operator
        return run(number, segment)

    def _follow(self, silent: SilentPartitions | None) -> list[int]:
        """Let silent partitions take bounds; return the segments of their sources."""
        found: dict[int, dict[int, list[Arrival]]] = {}
        taken, is_explicit = silent(self.shadow(), self.latest) if silent else ({}, False)
        for place, bound in taken.items():
            at = self._program.entrances[place]
            arrivals = found.setdefault(self._home[at], {})
            if is_explicit:
                self._promised[place] = self._promised.get(place, NO_BOUND).raised(bound)
                arrivals[at] = [(0, None, self._promised[place])]
            else:
                for judge in self._program.first_judges(at):
                    arrivals[judge] = [(TAKEN, None, bound)]
        for number, arrivals in found.items():
            self._take_bounds(number, arrivals)
            self._settle(number, arrivals)
        return list(found)

    def _take_bounds(self, number: int, arrivals: Mapping[int, Sequence[Arrival]]) -> None:
        """Let tasks pass the bounds that come to steps whose state is in parts."""
        cells = self._in_parts.taken(number, self._circuits[number], arrivals, self._exchange.parts)
        if cells:
            stage = self._kept_stage(number, SegmentTask(self._definition, number, {}))
            work = SilentTasks(stage, self._rows.layout(number))
            description = f"{self._describe(number)}, silent partitions"
            self._take_over(number, self._run_cells(description, cells, work, self._rows.turn(number)))

    def _behind(self, numbers: Iterable[int]) -> list[int]:
        """Return the segments that rows of these reach, in their order; not these themselves."""
        found: set[int] = set()
        pending = list(numbers)
        while pending:
            targets = {self._home[at] for _, (at, _) in self._segments[pending.pop()].exits}
            pending += targets - found
            found |= targets
        return sorted(found)

    def _forget(self, numbers: Iterable[int]) -> None:
        """Drop what segments gave: they run again, because what they read has come further."""
        for number in numbers:
            segment = self._segments[number]
            self._circuits[number] = self._start.circuit(segment)
            for at in segment.steps:
                self.waiting.forget(at)
            self.faults.forget(number)
            self._rows.forget(number)

    def _describe(self, number: int) -> str:
        """Return the description of a segment's jobs in Spark's web UI."""
        node = self._program.steps[self._segments[number].entries[0]].node
        what = " ".join([type(node).__name__, *filter(None, [getattr(node, "relation", None)])])
        return f"segment {number + 1} of {len(self._segments)}: {what}"

    def output(self, name: str) -> DataFrame:
        """Return the rows of an output: its fields by name, the time columns, ``$seq``."""
        return self._rows.output(self._program.outputs[name])

    def rows(self, name: str) -> Tray:
        """Collect the rows of an output on the driver, in the order of the live flow."""
        at = self._program.outputs[name]
        return self._rows.collected(at, Ranks(self._program.steps[at].origins))

    def count(self, name: str) -> int:
        """Return the number of rows of an output that was named in ``folded``. No row is read."""
        return row_count(self._rows.pieces(self._program.outputs[name], self._folded[name]))

    def fold(self, name: str, row_type: RowType, fold: FoldFunction, *, in_any_order: bool = False) -> Folded:
        """Fold the rows of an output, each key's in one task and in order of time; keep the remaining rows.

        ``row_type`` names the fields; the output must have been named in ``folded``. Rows that are
        late or rejected during the fold are added to ``faults``. ``in_any_order``: rows without a key
        need not come in order of time, so several tasks fold them; else one does.
        """
        at, split = self._program.outputs[name], self._folded[name]
        pieces = self._rows.pieces(at, split)
        inputs = TaskInputs({0: pieces}, [row_type], self._origins([at]))
        self.folds[name] = FoldCount(row_count(pieces), 0)
        if not pieces:
            return Folded([], row_type, [])
        spread = self._spreading.by_key(pieces, split)
        if in_any_order and not split and not self._spreading.are_few(pieces):
            spread = Spread.ANY
        work = self._run_blocks(self._rows.blocks(pieces), spread, FoldTasks(fold, inputs), pieces)
        given = self._run_alone(f"rows of {name}, by key", work)
        self.faults.forget(name)
        self.faults.add(given, name)
        self.folds[name] = FoldCount(row_count(pieces), sum(done.faults for done in given.done.values()))
        notes = [note for run in given.done for note in pickle.loads(given.report(run))]
        return Folded([given], row_type, notes)

    def close(self) -> None:
        """Remove what Spark keeps."""
        self._exchange.close()

    def shadow(self) -> Flow:
        """Return the live flow after exactly these messages, without the rows that wait in merges."""
        flow = Flow(self._definition.outputs, self._definition.partitions)
        if self._start.snapshot is not None:
            flow.restore_bounds(self._start.snapshot)
        flow.take_over(self._circuits.values(), self._promised)
        return flow

    def flow(self) -> Flow:
        """Return the live flow after exactly these messages, with all state in memory."""
        flow, restored = self.shadow(), []
        states = {at: self.waiting.state(at) for at in self.waiting.positions()}
        for at, state in (states | self._in_parts.elsewhere(self._circuits.values())).items():
            circuit = Circuit(self._program, [at])
            circuit.bounds[at] = self._circuits[self._home[at]].bounds[at]
            circuit.renew(at).restore(self._in_parts.all_of(state))
            restored.append(circuit)
        flow.take_over(restored, self._promised)
        return flow

    def state(self) -> dict[str, State]:
        """Return the snapshot of the live flow: of steps that are kept in parts, the names of the parts."""
        merges = {self._program.steps[at].key: self.waiting.state(at) for at in self.waiting.positions()}
        return self.shadow().snapshot() | merges

    def _merge_at(self, at: int) -> MergeOperator:
        return cast("MergeOperator", self._circuits[self._home[at]].operators[at])

    def _run_source(
        self, number: int, segment: Segment, frame: DataFrame | None, in_order: bool
    ) -> StageWork:
        if frame is not None:
            if not in_order:
                frame = frame.repartition("partition").sortWithinPartitions("partition", "offset")
            promised = {
                at: bound for at in segment.entries if (bound := self._entrance_bound(at)) != NO_BOUND
            }
            stage = self._kept_stage(number, SegmentTask(self._definition, number, {}, promised=promised))
            states = self._start.partitions(segment, is_kept=stage.keeper is not None)
            work = SourceTasks(stage, self._rows.layout(number), self._intake, states)
            self._take_over(number, (yield partial(self._exchange.run, frame, work)))
        arrivals = {at: [(0, None, self._entrance_bound(at))] for at in segment.entries}
        self._settle(number, arrivals)

    def _run_initial(self, number: int, segment: Segment, node: TableSource) -> None:
        """Process a table's INSERT statements on the driver, because they are few."""
        (entry,) = segment.entries
        if self._start:
            # An earlier run has processed them.
            bound = self._circuits[number].bounds[entry]
        else:
            _, tray, bound = initial(node, self._program.steps[entry])
            stage = SegmentTask(self._definition, number, {0: bound})
            given = task_blocks(self._program, segment, self._rows.layout(number))
            report = stage.run([] if tray is None else [StageInput([(0, tray, bound)])], given)
            self._put(number, given, report)
        self._settle(number, {entry: [(0, None, bound)]})

    def _run_operator(self, number: int, segment: Segment) -> StageWork:
        (entry,) = segment.entries
        feeders = feeders_of(self._program, entry)
        row_types = entry_row_types(self._program, entry)
        bounds = {port: self._reached[entry, port] for port in feeders}
        splits = segment.keys or ((),) * len(feeders)
        pieces = {port: self._rows.pieces(at, splits[port]) for port, at in feeders.items()}
        inputs = TaskInputs(pieces, row_types, self._origins(feeders.values()))
        every = [each for held in pieces.values() for each in held]
        spread = self._spread(number, every, splits[0])
        yield from self._run_stage(number, bounds, inputs, spread, feeders)
        self._settle(number, {entry: [(port, None, bound) for port, bound in bounds.items()]})

    def _run_merge(self, number: int, segment: Segment) -> StageWork:
        """Pass the rows that the final bounds allow. The rest is the state of the merge."""
        (entry,) = segment.entries
        merge = cast("MergeOperator", self._circuits[number].operators[entry])
        feeders = feeders_of(self._program, entry)
        for port in feeders:
            merge.offer(port, None, self._reached[entry, port])
        limits = {port: MergeLimit(place, port, merge.ranks) for port, place in enumerate(merge.limits())}
        origins = tuple(sorted(merge.ranks, key=merge.ranks.__getitem__))
        row_type = self._program.steps[entry].node.row_type
        waiting = yield from self._set_aside(entry, feeders, limits, origins)
        counts = waiting.counts if waiting else {}
        for port, rows in counts.items():
            merge.offer(port, None, rows.bound)
        if waiting and counts:
            self.waiting.put(entry, waiting)
        bound = self._circuits[number].bounds[entry] = merge.release().bound
        if only_passes(self._program, segment, self._kept):
            for split in self._rows.splits(entry):
                passing = self._rows.passing(entry, feeders, limits, [split] * len(feeders))
                self._rows.pass_on(entry, split, passing)
        else:
            splits = segment.keys or ((),) * len(feeders)
            pieces = self._rows.passing(entry, feeders, limits, splits)
            spread = self._spread(number, pieces, splits[0])
            inputs = TaskInputs({0: pieces}, [row_type], origins)
            yield from self._run_stage(number, {0: bound}, inputs, spread, {0: entry})
        came = sum(self._came(at) for at in feeders.values())
        came += self._start.waiting_rows(entry)
        passed = came - (waiting.rows if waiting else 0)
        merge.account.rows_in += passed
        merge.account.done += passed
        merge.account.rows_out += passed
        self._settle(number, {entry: [(port, None, self._reached[entry, port]) for port in feeders]})

    def _set_aside(
        self,
        entry: int,
        feeders: Mapping[int, int],
        limits: Mapping[int, MergeLimit],
        origins: tuple[int, ...],
    ) -> Generator[Job, StageGiven, RowsAside | None]:
        """Set the rows that wait in a merge aside; None: there are none."""
        pieces = self._rows.waiting(entry, feeders, limits)
        every = [piece for held in pieces.values() for piece in held]
        if not every:
            return None
        # A slot is a port, unless rows have waited there before.
        is_split = not self._spreading.are_few(every) and len(every) == len(pieces)
        row_type = self._program.steps[entry].node.row_type
        since = min(limits[port].place[0] for port in pieces)
        work = WaitingTasks(TaskInputs(pieces, [row_type] * len(feeders), origins), self._in_parts.keeper)
        blocks = self._rows.blocks(every, since=since)
        spread = Spread.SLOT if is_split else Spread.ONE
        given = yield from self._run_blocks(blocks, spread, work, every)
        return RowsAside(given, row_type, self._folder)

    def _origins(self, steps: Iterable[int]) -> tuple[int, ...]:
        """Return the origins of the rows of some steps, in their order at one rowtime."""
        return tuple(dict.fromkeys(origin for at in steps for origin in self._program.steps[at].origins))

    def _spread(self, number: int, pieces: Sequence[Piece], split: Split) -> Spread:
        if self._in_parts.steps(number):
            return self._in_parts.spread(number, pieces, split)
        return self._spreading.of(self._segments[number], pieces, split)

    def _run_stage(
        self,
        number: int,
        bounds: Mapping[int, Bound],
        inputs: TaskInputs,
        spread: Spread,
        feeders: Mapping[int, int],
    ) -> StageWork:
        pieces = [piece for held in inputs.ports.values() for piece in held]
        segment = self._segments[number]
        self._rows.note_bits(number, pieces)
        kept = self._in_parts.steps(number)
        if not pieces and not self._in_parts.must_run(number, bounds, feeders):
            # The bounds are all that it gets: see ``_settle``.
            return
        stage = SegmentTask(
            self._definition,
            number,
            bounds,
            in_parts=spread is not Spread.ONE,
            counts=must_count(segment, pieces),
        )
        work = StageTasks(self._kept_stage(number, stage), self._rows.layout(number), inputs)
        # Tasks that read any rows keep nothing but accounts.
        has_parts = spread is not Spread.ANY
        parts = self._exchange.parts if spread is Spread.PART else 1
        if kept:
            blocks = self._rows.blocks(pieces, states=self._start.begins(segment, parts))
            given = yield partial(self._exchange.run_stage, blocks, spread, work)
        else:
            blocks = self._rows.blocks(pieces, states=self._start.parts(segment, parts) if has_parts else ())
            given = yield from self._run_blocks(blocks, spread, work, pieces)
        self._take_over(number, given, counts_on=bool(self._start) and not has_parts)

    def _kept_stage(self, number: int, stage: SegmentTask) -> SegmentTask:
        kept = self._in_parts.steps(number)
        return replace(stage, keeper=self._in_parts.keeper, kept=kept) if kept else stage

    def _run_blocks(
        self, blocks: StageBlocks, spread: Spread, work: TaskFunction, pieces: Sequence[Piece]
    ) -> Generator[Job, StageGiven, StageGiven]:
        """Let tasks process blocks; the driver itself does the work of the one task of a few rows."""
        run = self._exchange.run_few if self._spreading.are_few(pieces) else self._exchange.run_stage
        return (yield partial(run, blocks, spread, work))

    def _run_alone(self, description: str, work: Generator[Job, StageGiven, StageGiven]) -> StageGiven:
        """Run one stage; return what it has given."""
        found: list[StageGiven] = []

        def alone() -> StageWork:
            found.append((yield from work))

        run_together(self._session, {0: Stage(description, alone)}, waiting=self._while_waiting)
        return found[0]

    def _run_cells(
        self, description: str, cells: Sequence[bytes], work: TaskFunction, turn: int = 0
    ) -> StageGiven:
        """Run one stage whose tasks get nothing but what they begin with; ``turn`` counts those of a segment."""

        def alone() -> Generator[Job, StageGiven, StageGiven]:
            return (yield partial(self._exchange.run_cells, cells, work, turn))

        return self._run_alone(description, alone())

    def _put(self, number: int, given: TaskBlocks, report: TaskReport) -> None:
        """Take what the driver has made for a segment."""
        self._take_over(number, self._exchange.put(given.close(report), self._rows.turn(number)))

    def _take_over(self, number: int, given: StageGiven, *, counts_on: bool = False) -> None:
        """Note what a segment's tasks gave, and take over the reported states.

        ``counts_on``: the tasks did not begin from the state of an earlier run, so theirs is added to it.
        """
        self._rows.take(number, given)
        self.faults.add(given, number)
        states: dict[int, list[State]] = {}
        reports: list[TaskReport] = [pickle.loads(given.report(run)) for run in given.done]
        for report in reports:
            relation = self._program.steps[self._segments[number].entries[0]].node.relation
            if report.entered.messages:
                self.entered.setdefault(relation, Entered()).add(report.entered)
            self.latest[relation] = max(self.latest.get(relation, EARLIEST), report.latest)
            for at, bound in report.promised.items():
                step = self._program.steps[at]
                place = step.node.relation, step.partition or 0
                # A task also reports the bounds of partitions of which it has read nothing.
                self._promised[place] = self._promised.get(place, NO_BOUND).raised(bound)
            for at, state in report.states.items():
                states.setdefault(at, [self._start.state(at)] if counts_on else []).append(state)
        circuit = self._circuits[number]
        for at, parts in states.items():
            if circuit.operators[at] is not None:
                kind: type = type(self._program.steps[at].node)
                # It may have the state of an earlier run.
                circuit.renew(at).restore(operator_type(kind).merge(parts))
        self._in_parts.settle(number, circuit, reports)

    def _settle(self, number: int, arrivals: Mapping[int, Sequence[Arrival]]) -> None:
        """Pass the final bounds through a segment whose states have been taken over.

        Rows may leave only now: a task with some keys does not know whether other keys hold them back. Tasks that
        keep their states have passed the bounds themselves.
        """
        circuit = self._circuits[number]
        for at in [at for at in arrivals if self._in_parts.is_elsewhere(number, circuit, at)]:
            self._reached |= self._in_parts.leaving(number, circuit, at)
            arrivals = {each: arrived for each, arrived in arrivals.items() if each != at}
        passed = circuit.push(arrivals)
        if passed.given or passed.faults:
            segment = self._segments[number]
            given = task_blocks(self._program, segment, self._rows.layout(number))
            for at in segment.feeders:
                for tray in passed.given.get(at, ()):
                    given.rows(at, numbered(tray, None))
            given.faults(passed.faults)
            self._put(number, given, TaskReport({}, {}))
        for port, _, bound in passed.leaving:
            self._reached[port] = bound

    def _came(self, at: int) -> int:
        """Return the number of rows that a step has given in this run."""
        return self._account(at).rows_out - self._start.rows_out(at)

    def _account(self, at: int) -> Account:
        operator = self._circuits[self._home[at]].operators[at]
        node = self._program.steps[at].node
        if operator is None and isinstance(node, TableSource) and node.loaded_once:
            # Rows of its INSERT statements, which are never late.
            return Account(rows_out=0 if self._start else len(node.rows))
        if operator is None:
            raise FaultError(f"step {at} is a source: it judges no rows and cannot feed a merge")
        return operator.account

    def _entrance_bound(self, at: int) -> Bound:
        step = self._program.steps[at]
        return self._promised.get((step.node.relation, step.partition or 0), NO_BOUND)
