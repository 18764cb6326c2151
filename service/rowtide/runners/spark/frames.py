"""A program on Spark: one segment after the other. The tasks of each read the output of earlier ones.

Spark selects the messages, places the tasks, repeats failed ones, and brings the
rows from one segment to the next (see ``exchange``). The driver keeps a shadow of the live circuit.
After each segment it takes over the states that the tasks reported and lets the
bounds follow, as the live service would. So in the end the shadow has the state
of a live service that has read just these messages, and the rows never pass
through the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

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
from rowtide.runners.spark.exchange import Exchange, Spread, StageGiven
from rowtide.runners.spark.faults import Faults
from rowtide.runners.spark.folding import Folded, FoldFunction, FoldTasks
from rowtide.runners.spark.given import Layout, TaskBlocks
from rowtide.runners.spark.outputs import OutputTasks, output_schema
from rowtide.runners.spark.runs import (
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
from rowtide.runners.spark.session import MESSAGES_AT_ONCE
from rowtide.runners.spark.slots import feeders_of, only_passes, wanted_slots
from rowtide.runners.spark.stage import (
    DecodeMessages,
    RunDefinition,
    SegmentTask,
    SourceTasks,
    StageTasks,
    TaskReport,
    entry_row_types,
    task_blocks,
)
from rowtide.runners.spark.ties import may_be_split
from rowtide.runners.spark.waiting import RowsAside, WaitingTasks

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
    ) -> None:
        self._session = session
        self._definition = definition
        self._folder = folder
        self._intake = intake
        self._folded = {name: tuple(key) for name, key in (folded or {}).items()}
        self._program = definition.program()
        self._segments = segments(self._program)
        self._home = {at: number for number, each in enumerate(self._segments) for at in each.steps}
        self._kept = frozenset(at for name, at in self._program.outputs.items() if name not in self._folded)
        self._slots = wanted_slots(self._program, self._segments, self._kept, self._folded)
        self._slot_home = {
            slot: self._home[at] for at, splits in self._slots.items() for slot in splits.values()
        }
        self._few = FEW_ROWS if few is None else few
        self._parts = int(session.conf.get("spark.sql.shuffle.partitions") or 1)
        self._exchange = Exchange(session, self._parts)
        self._given: dict[int, list[StageGiven]] = {}
        """What the tasks of each segment gave, then the driver for it."""
        self._rows: dict[int, int] = {}
        self._last: dict[int, int] = {}
        """The number and the greatest rowtime of the rows of each slot."""
        self._passed: dict[tuple[int, Split], list[Piece]] = {}
        """What merges let through whose rows are read from their feeders."""
        self._bits: dict[int, int] = {}
        """The number of bits of ``$seq`` after each stage."""
        self._circuits = {
            number: Circuit(self._program, each.steps) for number, each in enumerate(self._segments)
        }
        self._reached: dict[Port, Bound] = {}
        self._waiting: dict[int, RowsAside] = {}
        """The rows that wait in each merge."""
        self._promised: dict[tuple[str, int], Bound] = {}
        self.faults = Faults(session, self._exchange)
        """The faults of late and rejected rows, which stay with Spark."""
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
            for key in [key for key in self._passed if key[0] in segment.steps]:
                del self._passed[key]
            for at in segment.steps:
                self._waiting.pop(at, None)
                for slot in self._slots.get(at, {}).values():
                    self._rows.pop(slot, None)
                    self._last.pop(slot, None)
            self.faults.forget(number)
            self._exchange.drop(self._given.pop(number, ()))

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
        row_type = self._program.steps[at].node.row_type
        schema = from_arrow_schema(output_schema(row_type))
        if not (pieces := self._pieces(at, ())):
            return self._session.createDataFrame([], schema)
        (piece,) = pieces
        return self._exchange.blocks(self._holding(pieces)).mapInArrow(OutputTasks(row_type, piece), schema)

    def rows(self, name: str) -> Tray:
        """Collect the rows of an output on the driver, in the order of the live flow."""
        at = self._program.outputs[name]
        step = self._program.steps[at]
        parts = [
            rows
            for piece in self._pieces(at, ())
            for given in self._given[self._home[at]]
            for batch in given.batches(piece.slot)
            if (rows := piece.rows(step.node.row_type, batch)) is not None
        ]
        if not parts:
            return Tray.empty(step.node.row_type)
        return Numbered.concat(parts).in_time(Ranks(step.origins)).tray

    def fold(self, name: str, row_type: RowType, fold: FoldFunction, *, in_any_order: bool = False) -> Folded:
        """Fold the rows of an output, each key's in one task and in order of time; keep the remaining rows.

        ``row_type`` names the fields; the output must have been named in ``folded``. Rows that are
        late or rejected during the fold are added to ``faults``. ``in_any_order``: rows without a key
        need not come in order of time, so several tasks fold them; else one does.
        """
        at, split = self._program.outputs[name], self._folded[name]
        self._session.sparkContext.setJobDescription(f"rows of {name}, by key")
        pieces = self._pieces(at, split)
        inputs = TaskInputs({0: pieces}, [row_type], self._origins([at]))
        if not pieces:
            return Folded([], row_type, [])
        spread = self._spread(pieces, split)
        if in_any_order and not split and _row_count(pieces) > self._few:
            spread = Spread.ANY
        given = self._exchange.run(self._blocks(pieces, spread), FoldTasks(fold, inputs))
        self.faults.add(given)
        notes = [note for run in given.done for note in pickle.loads(given.report(run))]
        return Folded([given], row_type, notes)

    def close(self) -> None:
        """Remove what Spark keeps."""
        self._exchange.close()

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
        """Return the snapshot of the live flow. The rows that wait in merges are in files, not in memory."""
        merges = {self._program.steps[at].key: self._merge_state(at) for at in self._waiting}
        return self.shadow().snapshot() | merges

    def ahead(self) -> dict[int, tuple[int, Sequence[Want]]]:
        """Return the merges where rows wait, by position: their number, and what the first of them needs."""
        found = {}
        for at, waiting in self._waiting.items():
            merge = self._merge_of(self._circuits[self._home[at]], at)
            first = min(rows.first_place(port, merge.ranks) for port, rows in waiting.counts.items())
            found[at] = sum(rows.rows for rows in waiting.counts.values()), merge.wants_at(first)
        return found

    def _merge_of(self, circuit: Circuit, at: int) -> MergeOperator:
        return cast("MergeOperator", circuit.operators[at])

    def _merge_state(self, at: int) -> State:
        merge = self._merge_of(self._circuits[self._home[at]], at)
        waiting = self._waiting[at]
        held = sum(rows.rows for rows in waiting.counts.values())
        account = replace(merge.account, rows_in=merge.account.rows_in + held)
        queues = {f"queue {port}": waiting.table(port) for port in waiting.counts}
        return {**merge.snapshot(), "account": account.to_arrow(), **queues}

    def _run_source(
        self, number: int, segment: Segment, messages: Mapping[str, DataFrame], in_order: bool
    ) -> None:
        relation = self._program.steps[segment.entries[0]].node.relation
        frame = messages[relation]
        if not in_order:
            frame = frame.repartition("partition").sortWithinPartitions("partition", "offset")
        stage = SegmentTask(self._definition, number, {})
        work = SourceTasks(stage, self._layout(number), self._intake)
        self._take_over(number, self._exchange.run(frame, work, MESSAGES_AT_ONCE))
        arrivals = {at: [(0, None, self._entrance_bound(at))] for at in segment.entries}
        self._settle(number, arrivals)

    def _run_initial(self, number: int, segment: Segment, node: TableSource) -> None:
        """Process a table's INSERT statements on the driver, because they are few."""
        (entry,) = segment.entries
        _, tray, bound = initial(node, self._program.steps[entry])
        stage = SegmentTask(self._definition, number, {0: bound})
        self._run_here(stage, [] if tray is None else [StageInput([(0, tray, bound)])])
        self._settle(number, {entry: [(0, None, bound)]})

    def _run_operator(self, number: int, segment: Segment) -> None:
        (entry,) = segment.entries
        feeders = feeders_of(self._program, entry)
        row_types = entry_row_types(self._program, entry)
        bounds = {port: self._reached[entry, port] for port in feeders}
        splits = segment.keys or ((),) * len(feeders)
        pieces = {port: self._pieces(at, splits[port]) for port, at in feeders.items()}
        inputs = TaskInputs(pieces, row_types, self._origins(feeders.values()))
        every = [each for held in pieces.values() for each in held]
        spread = Spread.ONE if self._goes_together(segment, every) else self._spread(every, splits[0])
        self._run_stage(number, bounds, inputs, spread)
        self._settle(number, {entry: [(port, None, bound) for port, bound in bounds.items()]})

    def _run_merge(self, number: int, segment: Segment) -> None:
        """Pass the rows that the final bounds allow. The rest is the state of the merge."""
        (entry,) = segment.entries
        merge = cast("MergeOperator", self._circuits[number].operators[entry])
        feeders = feeders_of(self._program, entry)
        for port in feeders:
            merge.offer(port, None, self._reached[entry, port])
        limits = {port: MergeLimit(place, port, merge.ranks) for port, place in enumerate(merge.limits())}
        origins = tuple(sorted(merge.ranks, key=merge.ranks.__getitem__))
        row_type = self._program.steps[entry].node.row_type
        waiting = self._set_aside(feeders, limits, row_type, origins)
        counts = waiting.counts if waiting else {}
        for port, rows in counts.items():
            merge.offer(port, None, rows.bound)
        if waiting and counts:
            self._waiting[entry] = waiting
        bound = merge.release().bound
        if only_passes(self._program, segment, self._kept):
            for split in self._slots.get(entry, ()):
                self._passed[entry, split] = self._passing(feeders, limits, [split] * len(feeders))
        else:
            splits = segment.keys or ((),) * len(feeders)
            pieces = self._passing(feeders, limits, splits)
            if segment.is_row_wise and not _must_count(segment, pieces):
                spread = Spread.ANY if _row_count(pieces) > self._few else Spread.ONE
            else:
                spread = (
                    Spread.ONE if self._goes_together(segment, pieces) else self._spread(pieces, splits[0])
                )
            self._run_stage(number, {0: bound}, TaskInputs({0: pieces}, [row_type], origins), spread)
        came = sum(self._account(at).rows_out for at in feeders.values())
        passed = came - sum(each.rows for each in counts.values())
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
                for piece in self._pieces(at, splits[port])
            ]
        )

    def _set_aside(
        self,
        feeders: Mapping[int, int],
        limits: Mapping[int, MergeLimit],
        row_type: RowType,
        origins: tuple[int, ...],
    ) -> RowsAside | None:
        """Set the rows that wait in a merge aside; None: there are none."""
        pieces: dict[int, list[Piece]] = {}
        for port, at in feeders.items():
            splits = [*self._slots.get(at, ())]
            if limits[port].place >= END or not splits:
                continue
            # The same rows are in each slot. Without a split they are fewer blocks.
            found = [piece.waiting(limits[port]) for piece in self._pieces(at, min(splits, key=len))]
            if held := [piece for piece in found if piece is not None]:
                pieces[port] = held
        every = [piece for held in pieces.values() for piece in held]
        if not every:
            return None
        spread = Spread.SLOT if _row_count(every) > self._few else Spread.ONE
        since = min(limits[port].place[0] for port in pieces)
        work = WaitingTasks(TaskInputs(pieces, [row_type] * len(feeders), origins))
        given = self._exchange.run(self._blocks(every, spread, since), work)
        return RowsAside(given, row_type, self._folder)

    def _pieces(self, at: int, split: Split) -> list[Piece]:
        """Return the rows of a step, split in a way that is wanted."""
        if (at, split) in self._passed:
            return self._passed[at, split]
        slot = self._slots[at][split]
        if slot not in self._rows:
            return []
        number = self._home[at]
        bits, has_seq = self._bits.get(number, SEQ_BITS), self._layout(number).has_seq
        return [Piece(slot, self._rows[slot], self._last[slot], has_seq, bits, bits=bits)]

    def _blocks(self, pieces: Iterable[Piece], spread: Spread, since: int | None = None) -> DataFrame:
        """Return the blocks of these pieces, each once, as the input of tasks."""
        return self._exchange.read(self._exchange.blocks(self._holding(pieces), since), spread)

    def _holding(self, pieces: Iterable[Piece]) -> list[tuple[StageGiven, set[int]]]:
        """Return what has the blocks of these pieces, and their slots there."""
        slots: dict[int, set[int]] = {}
        for piece in pieces:
            slots.setdefault(self._slot_home[piece.slot], set()).add(piece.slot)
        return [(each, slots[number]) for number in sorted(slots) for each in self._given[number]]

    def _spread(self, pieces: Sequence[Piece], split: Split) -> Spread:
        """Return how a stage's input is spread: by key, unless it is not split or has few rows."""
        is_split = split and self._parts > 1 and _row_count(pieces) > self._few
        return Spread.PART if is_split else Spread.ONE

    def _goes_together(self, segment: Segment, pieces: Sequence[Piece]) -> bool:
        """Return whether one task must process a segment."""
        return _must_count(segment, pieces) or not may_be_split(self._program, segment, self._folded)

    def _origins(self, steps: Iterable[int]) -> tuple[int, ...]:
        """Return the origins of the rows of some steps, in their order at one rowtime."""
        return tuple(dict.fromkeys(origin for at in steps for origin in self._program.steps[at].origins))

    def _run_stage(
        self, number: int, bounds: Mapping[int, Bound], inputs: TaskInputs, spread: Spread
    ) -> None:
        pieces = [piece for held in inputs.ports.values() for piece in held]
        segment = self._segments[number]
        self._bits[number] = bits_behind(pieces, is_one_to_one=segment.is_one_to_one)
        stage = SegmentTask(
            self._definition,
            number,
            bounds,
            in_parts=spread is not Spread.ONE,
            counts=_must_count(segment, pieces),
        )
        if not pieces:
            self._run_here(stage, [])
            return
        work = StageTasks(stage, self._layout(number), inputs)
        self._take_over(number, self._exchange.run(self._blocks(pieces, spread), work))

    def _run_here(self, stage: SegmentTask, cuts: Iterable[StageInput]) -> None:
        """Process a few rows on the driver."""
        given = task_blocks(stage, self._layout(stage.number))
        self._put(stage.number, given, stage.run(cuts, given))

    def _put(self, number: int, given: TaskBlocks, report: TaskReport) -> None:
        """Take what the driver has made for a segment."""
        turn = len(self._given.get(number, ()))
        self._take_over(number, self._exchange.put(given.close(report), turn))

    def _layout(self, number: int) -> Layout:
        segment = self._segments[number]
        is_source = isinstance(self._program.steps[segment.entries[0]].node, Source)
        return Layout(
            self._parts,
            {
                at: [(slot, split) for split, slot in self._slots.get(at, {}).items()]
                for at in segment.feeders
            },
            # T-sorts and most row-wise steps never make two rows of one.
            has_seq=not is_source or segment.multiplies,
        )

    def _take_over(self, number: int, given: StageGiven) -> None:
        """Note what a segment's tasks gave, and take over the reported states."""
        self._given.setdefault(number, []).append(given)
        self.faults.add(given, number)
        states: dict[int, list[State]] = {}
        for run, done in given.done.items():
            for slot, rows in done.rows.items():
                self._rows[slot] = self._rows.get(slot, 0) + rows
                self._last[slot] = max(self._last.get(slot, done.last[slot]), done.last[slot])
            report: TaskReport = pickle.loads(given.report(run))
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
            given = task_blocks(SegmentTask(self._definition, number, {}), self._layout(number))
            for at in self._segments[number].feeders:
                for tray in passed.given.get(at, ()):
                    given.rows(at, numbered(tray, None))
            given.faults(passed.faults)
            self._put(number, given, TaskReport({}, {}, 0))
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

    def _entrance_bound(self, at: int) -> Bound:
        step = self._program.steps[at]
        return self._promised.get((step.node.relation, step.partition or 0), NO_BOUND)


def _must_count(segment: Segment, pieces: Sequence[Piece]) -> bool:
    """Return whether one task must process a segment and count its rows: see ``runs.is_full``."""
    return is_full(pieces) and not segment.is_one_to_one


def _row_count(pieces: Sequence[Piece]) -> int:
    return sum(each.count for each in pieces)
