"""A program on Spark: one segment after the other. The tasks of each read the output of earlier ones.

Spark selects the messages, places the tasks and repeats failed ones; the rows
are in files (see ``runs``). The driver keeps a shadow of the live circuit.
After each segment it takes over the states that the tasks reported and lets the
bounds follow, as the live service would. So in the end the shadow has the state
of a live service that has read just these messages, and the rows never pass
through the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rowtide.errors import FaultError
from rowtide.flow.circuit import Arrival, Circuit
from rowtide.flow.flow import Flow, initial
from rowtide.flow.program import Port
from rowtide.flow.segments import Segment, segments
from rowtide.operators.contract import Account, State, Want
from rowtide.operators.merge.merge import END, MergeOperator
from rowtide.operators.merge.ranks import Ranks
from rowtide.operators.registry import operator_type
from rowtide.operators.sort.sort import TAKEN
from rowtide.plan.nodes import Source, TableSource
from rowtide.rows.tray import Tray
from rowtide.rows.types import RowType
from rowtide.rowtime.bound import EARLIEST, NO_BOUND, Bound
from rowtide.runners.spark.faults import FaultFiles
from rowtide.runners.spark.folding import Folded, FoldFunction, FoldTasks
from rowtide.runners.spark.given import Layout, output_schema
from rowtide.runners.spark.runs import (
    SEQ,
    SEQ_BITS,
    MergeLimit,
    Numbered,
    Piece,
    Split,
    StageInput,
    TaskInputs,
    bits_behind,
    is_full,
    numbered,
    ranked,
)
from rowtide.runners.spark.stage import (
    DONE,
    DecodeMessages,
    Done,
    RunDefinition,
    SegmentTask,
    SourceTasks,
    StageTasks,
    TaskReport,
    entry_row_types,
    task_files,
    told,
)
from rowtide.runners.spark.ties import may_be_split
from rowtide.runners.spark.waiting import WaitingFile, WaitingTasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW_ROWS = 20_000
"""Number of rows that one task processes faster than Spark starts another task."""

TaskFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

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
      staging: a folder for the output of the stages, which the workers and this process share.
      intake: decodes messages. Pickled to the workers.
      folded: outputs that ``fold`` folds, with their key fields. The others are kept as Parquet.
      few: up to this number of rows of an operator go to one task, whatever their keys; default ``FEW_ROWS``.
    """

    def __init__(
        self,
        session: SparkSession,
        definition: RunDefinition,
        staging: str,
        intake: DecodeMessages,
        folded: Mapping[str, Sequence[int]] | None = None,
        few: int | None = None,
    ) -> None:
        self._session = session
        self._definition = definition
        self._staging = staging
        self._intake = intake
        self._folded = {name: tuple(key) for name, key in (folded or {}).items()}
        self._program = definition.program()
        self._segments = segments(self._program)
        self._home = {at: number for number, each in enumerate(self._segments) for at in each.steps}
        self._kept = frozenset(at for name, at in self._program.outputs.items() if name not in self._folded)
        self._splits = self._wanted_splits()
        self._few = FEW_ROWS if few is None else few
        self._parts = int(session.conf.get("spark.sql.shuffle.partitions") or 1)
        self._pieces: dict[tuple[int, Split], list[Piece]] = {}
        self._bits: dict[int, int] = {}
        """The number of bits of ``$seq`` after each stage."""
        self._outputs: dict[int, list[str]] = {}
        self._circuits = {
            number: Circuit(self._program, each.steps) for number, each in enumerate(self._segments)
        }
        self._reached: dict[Port, Bound] = {}
        self._waiting: dict[int, dict[int, WaitingFile]] = {}
        """The rows that wait in each merge, by port."""
        self._promised: dict[tuple[str, int], Bound] = {}
        self.faults = FaultFiles(session)
        """The faults of late and rejected rows, on disk."""
        self.messages = 0
        """The number of messages that were read."""
        self._latest: dict[str, int] = {}

    def read(
        self,
        messages: Mapping[str, DataFrame],
        *,
        in_order: bool = False,
        silent: SilentPartitions | None = None,
        progress: Callable[[str, int], None] = lambda _segment, _rows: None,
    ) -> None:
        """Run every segment. ``messages`` has the selected messages of each source relation.

        ``in_order``: each partition's messages are already in one task, in the order of their offsets, as
        Spark reads them from Kafka. Otherwise they are shuffled, which costs more than everything else.

        An engine table in ``messages`` is filled by its messages, otherwise by its INSERT
        statements. A frame of messages has the columns topic, partition, offset, timestamp (ms),
        key, value and headers.

        ``silent`` decides after the sources are read, and again after the rest, which bounds silent
        partitions take. What is behind a partition that takes one then runs again. ``progress`` is called
        after each segment, with its description and the number of rows that it has given.
        """
        sources = [number for number in range(len(self._segments)) if self._is_source(number)]
        for number in sources:
            progress(*self._run(number, messages, in_order=in_order))
        while self._follow(silent):
            pass
        left = [number for number in range(len(self._segments)) if number not in sources]
        while left:
            for number in left:
                progress(*self._run(number, messages, in_order=in_order))
            # A stream that is idle as a whole follows others only when these have come to where they meet.
            left = self._behind(self._follow(silent))
            self._forget(left)

    def _is_source(self, number: int) -> bool:
        node = self._program.steps[self._segments[number].entries[0]].node
        return isinstance(node, Source | TableSource)

    def _run(self, number: int, messages: Mapping[str, DataFrame], *, in_order: bool) -> tuple[str, int]:
        """Run one segment; return its description and the number of rows that it has given."""
        described = self._describe(number)
        segment = self._segments[number]
        source = self._program.steps[segment.entries[0]].node
        if isinstance(source, Source | TableSource) and source.relation in messages:
            self._run_source(number, segment, messages, in_order)
        elif isinstance(source, TableSource):
            self._run_initial(number, segment, source)
        elif segment.is_merge(self._program):
            self._run_merge(number, segment)
        else:
            self._run_operator(number, segment)
        operators = map(self._circuits[number].operators.get, segment.feeders)
        return described, sum(each.account.rows_out for each in operators if each is not None)

    def _follow(self, silent: SilentPartitions | None) -> list[int]:
        """Let silent partitions take bounds; return the segments of their sources."""
        found: dict[int, None] = {}
        taken, is_explicit = silent(self.shadow(), self._latest) if silent else ({}, False)
        for place, bound in taken.items():
            at = self._program.entrances[place]
            number = self._home[at]
            if is_explicit:
                self._promised[place] = self._promised.get(place, NO_BOUND).raised(bound)
                self._settle(number, {at: [(0, None, self._promised[place])]})
            else:
                judges = self._program.first_judges(at)
                self._settle(number, {judge: [(TAKEN, None, bound)] for judge in judges})
            found[number] = None
        return list(found)

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
            self._circuits[number] = Circuit(self._program, segment.steps)
            for key in [key for key in self._pieces if key[0] in segment.steps]:
                del self._pieces[key]
            for at in segment.steps:
                self._outputs.pop(at, None)
                self._waiting.pop(at, None)
            self.faults.forget(number)

    def _describe(self, number: int) -> str:
        """Set the description of later jobs in Spark's web UI, and return it."""
        node = self._program.steps[self._segments[number].entries[0]].node
        what = " ".join([type(node).__name__, *filter(None, [getattr(node, "relation", None)])])
        described = f"segment {number + 1} of {len(self._segments)}: {what}"
        self._session.sparkContext.setJobDescription(described)
        return described

    def output(self, name: str) -> DataFrame:
        """Return the rows of an output: its fields by name, the time columns, ``$seq``."""
        from pyspark.sql.pandas.types import from_arrow_schema

        at = self._program.outputs[name]
        schema = from_arrow_schema(output_schema(self._program.steps[at].node.row_type))
        paths = self._outputs.get(at, [])
        return self._session.read.schema(schema).parquet(*paths) if paths else self._nothing(schema)

    def rows(self, name: str) -> Tray:
        """Collect the rows of an output on the driver, in the order of the live flow."""
        at = self._program.outputs[name]
        step = self._program.steps[at]
        tables = [pq.ParquetFile(path).read() for path in self._outputs.get(at, ())]
        if not tables:
            return Tray.empty(step.node.row_type)
        held = pa.concat_tables(tables)
        found = Numbered(Tray.from_arrow(step.node.row_type, held), np.asarray(held.column(SEQ)))
        return found.in_time(Ranks(step.origins)).tray

    def fold(
        self, name: str, row_type: RowType, fold: FoldFunction, folder: str, *, in_any_order: bool = False
    ) -> Folded:
        """Fold the rows of an output, each key's in one task and in order of time; keep the remaining rows.

        ``row_type`` names the fields; the output must have been named in ``folded``. Rows that are
        late or rejected during the fold are added to ``faults``. ``in_any_order``: rows without a key
        need not come in order of time, so several tasks fold them; else one does.
        """
        at, split = self._program.outputs[name], self._folded[name]
        self._session.sparkContext.setJobDescription(f"rows of {name}, by key")
        pieces, origins = self._pieces.get((at, split), []), self._origins([at])
        if in_any_order and not split and _row_count(pieces) > self._few:
            inputs = self._shares(pieces, row_type, origins)
        else:
            inputs = self._inputs({0: pieces}, [row_type], split, origins)
        work = FoldTasks(fold, f"{self._staging}/{folder}", inputs)
        done = [pickle.loads(each) for each in self._told_by(self._numbers(len(inputs)), work)]
        self.faults.add(each.faults for each in done)
        return Folded(
            [each.rows for each in done if each.rows], [note for each in done for note in each.notes]
        )

    def shadow(self) -> Flow:
        """Return the live flow after exactly these messages, without the rows that wait in merges."""
        flow = Flow(self._definition.outputs, self._definition.partitions)
        flow.take_over(self._circuits.values(), self._promised)
        return flow

    def flow(self) -> Flow:
        """Return the live flow after exactly these messages, with the rows that wait in memory."""
        flow, restored = self.shadow(), []
        for at in self._waiting:
            circuit = Circuit(self._program, [at])
            circuit.bounds[at] = self._circuits[self._home[at]].bounds[at]
            self._merge_of(circuit, at).restore(self._merge_state(at))
            restored.append(circuit)
        flow.take_over(restored, self._promised)
        return flow

    def state(self) -> dict[str, State]:
        """Return the snapshot of the live flow. The rows that wait in merges lie in files, not in memory."""
        merges = {self._program.steps[at].key: self._merge_state(at) for at in self._waiting}
        return self.shadow().snapshot() | merges

    def ahead(self) -> dict[int, tuple[int, Sequence[Want]]]:
        """Return the merges where rows wait, by position: their number, and what the first of them needs."""
        found = {}
        for at, ports in self._waiting.items():
            merge = self._merge_of(self._circuits[self._home[at]], at)
            first = min(rows.first_place(port, merge.ranks) for port, rows in ports.items())
            found[at] = sum(rows.rows for rows in ports.values()), merge.wants_at(first)
        return found

    def _merge_of(self, circuit: Circuit, at: int) -> MergeOperator:
        return cast("MergeOperator", circuit.operators[at])

    def _merge_state(self, at: int) -> State:
        merge = self._merge_of(self._circuits[self._home[at]], at)
        ports = self._waiting[at]
        held = sum(rows.rows for rows in ports.values())
        account = replace(merge.account, rows_in=merge.account.rows_in + held)
        queues = {f"queue {port}": each.table() for port, each in ports.items()}
        return {**merge.snapshot(), "account": account.to_arrow(), **queues}

    def _wanted_splits(self) -> dict[int, tuple[Split, ...]]:
        """Return, for each step whose rows are read later, the ways in which they are split.

        Works from the outputs backwards: rows that only pass a merge are split when they are written.
        """
        found: dict[int, dict[Split, None]] = {}
        for name, key in self._folded.items():
            # Outputs with the same rows are one step, and may have different keys.
            found.setdefault(self._program.outputs[name], {})[key] = None
        for segment in reversed(self._segments):
            (entry, *_) = segment.entries
            for port, at in self._feeders(entry).items():
                if self._only_passes(segment):
                    wanted = found.get(entry, {})
                else:
                    wanted = {segment.keys[port] if segment.keys else (): None}
                found.setdefault(at, {}).update(wanted)
        return {at: tuple(wanted) for at, wanted in found.items()}

    def _only_passes(self, segment: Segment) -> bool:
        """Return whether a segment is only a merge, whose rows are read from their files."""
        return (
            len(segment.steps) == 1
            and segment.is_merge(self._program)
            and segment.entries[0] not in self._kept
        )

    def _run_source(
        self, number: int, segment: Segment, messages: Mapping[str, DataFrame], in_order: bool
    ) -> None:
        relation = self._program.steps[segment.entries[0]].node.relation
        frame = messages[relation]
        if not in_order:
            frame = frame.repartition("partition").sortWithinPartitions("partition", "offset")
        stage = SegmentTask(self._definition, number, {})
        self._take_over(number, self._told_by(frame, SourceTasks(stage, self._layout(number), self._intake)))
        arrivals = {at: [(0, None, self._entrance_bound(at))] for at in segment.entries}
        self._settle(number, arrivals)

    def _run_initial(self, number: int, segment: Segment, node: TableSource) -> None:
        """Process a table's INSERT statements on the driver, because they are few."""
        (entry,) = segment.entries
        _, tray, bound = initial(node, self._program.steps[entry])
        stage = SegmentTask(self._definition, number, {0: bound})
        files = task_files(stage, self._layout(number))
        report = stage.run([] if tray is None else [StageInput([(0, tray, bound)])], files)
        self._take_over(number, [told(files, report)])
        self._settle(number, {entry: [(0, None, bound)]})

    def _run_operator(self, number: int, segment: Segment) -> None:
        (entry,) = segment.entries
        feeders = self._feeders(entry)
        row_types = entry_row_types(self._program, entry)
        bounds = {port: self._reached[entry, port] for port in feeders}
        splits = segment.keys or ((),) * len(feeders)
        pieces = {port: self._pieces.get((at, splits[port]), []) for port, at in feeders.items()}
        origins = self._origins(feeders.values())
        together = self._goes_together(segment, [each for held in pieces.values() for each in held])
        inputs = self._inputs(pieces, row_types, splits[0], origins, together=together)
        self._run_stage(number, bounds, inputs)
        self._settle(number, {entry: [(port, None, bound) for port, bound in bounds.items()]})

    def _run_merge(self, number: int, segment: Segment) -> None:
        """Pass the rows that the final bounds allow. The rest is the state of the merge."""
        (entry,) = segment.entries
        merge = cast("MergeOperator", self._circuits[number].operators[entry])
        feeders = self._feeders(entry)
        for port in feeders:
            merge.offer(port, None, self._reached[entry, port])
        limits = {port: MergeLimit(place, port, merge.ranks) for port, place in enumerate(merge.limits())}
        origins = tuple(sorted(merge.ranks, key=merge.ranks.__getitem__))
        row_type = self._program.steps[entry].node.row_type
        waiting = self._set_aside(number, feeders, limits, row_type, origins)
        for port, rows in waiting.items():
            merge.offer(port, None, rows.bound)
        if waiting:
            self._waiting[entry] = waiting
        bound = merge.release().bound
        if self._only_passes(segment):
            for split in self._splits.get(entry, ()):
                self._pieces[entry, split] = self._passing(feeders, limits, [split] * len(feeders))
        else:
            splits = segment.keys or ((),) * len(feeders)
            pieces = self._passing(feeders, limits, splits)
            if segment.is_row_wise:
                inputs = self._shares(pieces, row_type, origins)
            else:
                together = self._goes_together(segment, pieces)
                inputs = self._inputs({0: pieces}, [row_type], splits[0], origins, together=together)
            self._run_stage(number, {0: bound}, inputs)
        came = sum(self._account(at).rows_out for at in feeders.values())
        passed = came - sum(each.rows for each in waiting.values())
        merge.account.rows_in += passed
        merge.account.done += passed
        merge.account.rows_out += passed
        self._settle(number, {entry: [(port, None, self._reached[entry, port]) for port in feeders]})

    def _passing(
        self, feeders: Mapping[int, int], limits: Mapping[int, MergeLimit], splits: Sequence[Split]
    ) -> list[Piece]:
        origins = [origin for at in feeders.values() for origin in self._program.steps[at].origins]
        meets_itself = len(set(origins)) < len(origins)
        return ranked(
            [
                piece.behind(limits[port], meets_itself=meets_itself)
                for port, at in feeders.items()
                for piece in self._pieces.get((at, splits[port]), [])
            ]
        )

    def _set_aside(
        self,
        number: int,
        feeders: Mapping[int, int],
        limits: Mapping[int, MergeLimit],
        row_type: RowType,
        origins: tuple[int, ...],
    ) -> dict[int, WaitingFile]:
        """Write the rows that wait in a merge to a file for each port, and return those that there are."""
        inputs: dict[int, TaskInputs] = {}
        most = 0
        for port, at in feeders.items():
            splits = self._splits.get(at, ())
            if limits[port].place >= END or not splits:
                continue
            # All rows are in the files, split in some way. Prefer no split: then they are in order.
            split = min(splits, key=len)
            pieces = [piece.waiting(limits[port]) for piece in self._pieces.get((at, split), [])]
            pieces = [piece for piece in pieces if piece.most_rows()]
            if pieces:
                parts = range(self._parts if split else 1)
                inputs[port] = TaskInputs({0: pieces}, [row_type], parts, origins)
                most += _row_count(pieces)
        work = WaitingTasks(f"{self._staging}/segment-{number}", list(inputs.values()), row_type)
        if most <= self._few:
            found = list(enumerate(map(work.written, range(len(inputs)))))
        else:
            found = [pickle.loads(each) for each in self._told_by(self._numbers(len(inputs)), work)]
        ports = list(inputs)
        return {ports[at]: rows for at, rows in sorted(found) if rows is not None}

    def _shares(
        self, pieces: Sequence[Piece], row_type: RowType, origins: tuple[int, ...]
    ) -> list[TaskInputs]:
        """Return what each task reads if any split will do: some of the files."""
        shares = [pieces[first :: self._parts] for first in range(min(self._parts, len(pieces)))]
        return [TaskInputs({0: share}, [row_type], (0,), origins) for share in shares]

    def _inputs(
        self,
        pieces: Mapping[int, Sequence[Piece]],
        row_types: Sequence[RowType],
        split: Split,
        origins: tuple[int, ...],
        *,
        together: bool = False,
    ) -> list[TaskInputs]:
        """Return the input of each task: its part, or all rows if they are few, not split or go together."""
        parts = range(self._parts if split else 1)
        if together or sum(map(_row_count, pieces.values())) <= self._few:
            return [TaskInputs(pieces, row_types, parts, origins)]
        return [TaskInputs(pieces, row_types, (part,), origins) for part in parts]

    def _goes_together(self, segment: Segment, pieces: Sequence[Piece]) -> bool:
        """Return whether one task must process a segment."""
        counts = is_full(pieces) and not segment.is_row_wise
        return counts or not may_be_split(self._program, segment, self._folded)

    def _origins(self, steps: Iterable[int]) -> tuple[int, ...]:
        """Return the origins of the rows of some steps, in their order at one rowtime."""
        return tuple(dict.fromkeys(origin for at in steps for origin in self._program.steps[at].origins))

    def _run_stage(self, number: int, bounds: Mapping[int, Bound], inputs: Sequence[TaskInputs]) -> None:
        pieces = [piece for each in inputs for held in each.ports.values() for piece in held]
        is_row_wise = self._segments[number].is_row_wise
        self._bits[number] = bits_behind(pieces, is_row_wise=is_row_wise)
        counts = is_full(pieces) and not is_row_wise
        stage = SegmentTask(self._definition, number, bounds, in_parts=len(inputs) > 1, counts=counts)
        work = StageTasks(stage, self._layout(number), inputs)
        self._take_over(number, self._told_by(self._numbers(len(inputs)), work))

    def _layout(self, number: int) -> Layout:
        segment = self._segments[number]
        is_source = isinstance(self._program.steps[segment.entries[0]].node, Source)
        return Layout(
            f"{self._staging}/segment-{number}",
            self._parts,
            {at: self._splits[at] for at in segment.feeders if at in self._splits},
            self._kept.intersection(segment.steps),
            # Row-wise steps and t-sorts never make two rows of one.
            has_seq=not is_source,
        )

    def _numbers(self, count: int) -> DataFrame:
        """Return numbers, each for a separate task."""
        return self._session.range(0, count, 1, max(count, 1))

    def _nothing(self, schema: object) -> DataFrame:
        return self._session.createDataFrame([], schema)  # type: ignore[call-overload, no-any-return]

    def _told_by(self, frame: DataFrame, work: TaskFunction) -> list[bytes]:
        """Run tasks, and return their reports: places of files, no rows."""
        return [bytes(row[0]) for row in frame.mapInArrow(work, DONE).collect()]

    def _take_over(self, number: int, told_: Iterable[bytes]) -> None:
        """Note the files of a stage's tasks, and take over the reported states."""
        states: dict[int, list[State]] = {}
        bits = self._bits.get(number, SEQ_BITS)
        for content in told_:
            done: Done = pickle.loads(content)
            for (at, split), run in done.files.runs.items():
                self._pieces.setdefault((at, split), []).append(Piece(run, bits, bits=bits))
            for at, path in done.files.outputs.items():
                self._outputs.setdefault(at, []).append(path)
            self.faults.add([done.files.faults], number)
            report: TaskReport = pickle.loads(Path(done.report).read_bytes())
            self.messages += report.messages
            relation = self._program.steps[self._segments[number].entries[0]].node.relation
            self._latest[relation] = max(self._latest.get(relation, EARLIEST), report.latest)
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
        """Pass the final bounds through a segment whose states have been taken over.

        Rows may leave only now: a task with some keys does not know whether other keys hold them back.
        """
        passed = self._circuits[number].push(arrivals)
        if passed.given or passed.faults:
            files = task_files(SegmentTask(self._definition, number, {}), self._layout(number))
            for at in self._segments[number].feeders:
                for tray in passed.given.get(at, ()):
                    files.rows(at, numbered(tray, None))
            files.faults(passed.faults)
            self._take_over(number, [told(files, TaskReport({}, {}, 0))])
        for port, _, bound in passed.leaving:
            self._reached[port] = bound

    def _account(self, at: int) -> Account:
        operator = self._circuits[self._home[at]].operators[at]
        node = self._program.steps[at].node
        if operator is None and isinstance(node, TableSource) and node.loaded_once:
            # Rows of its INSERT statements, which are never late.
            return Account(rows_out=len(node.rows))
        if operator is None:
            raise FaultError(f"step {at} is a source: it judges no rows and cannot feed a merge")
        return operator.account

    def _feeders(self, entry: int) -> dict[int, int]:
        """Return the step that feeds each port of an entry, port by port."""
        found = {
            port: at
            for at, step in enumerate(self._program.steps)
            for position, port in step.targets
            if position == entry
        }
        return dict(sorted(found.items()))

    def _entrance_bound(self, at: int) -> Bound:
        step = self._program.steps[at]
        return self._promised.get((step.node.relation, step.partition or 0), NO_BOUND)


def _row_count(pieces: Sequence[Piece]) -> int:
    return sum(each.most_rows() for each in pieces)
