"""The loop of live processing on Spark: look up the ends, run a batch up to them, commit, wait for the next one.

A batch is a slice (``backfill.slice_work``). Between two batches the driver has the flow of the pipeline, in
the state of the last commit, and does with it what no message brings: partitions join, silent ones follow others,
models leave history, questions are answered. This is the code of the live service, and so are these commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import structlog

from rowtide.checkpoint.ledger import PartitionId, PartitionPosition, Record
from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.plan.outputs import table_nodes
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.stage import RunDefinition
from rowtide.runtime.admission.partitions import Admission
from rowtide.runtime.backfill.messages import MessageIntake
from rowtide.runtime.backfill.slice_work import OnSpark, Slice, SliceDone, SliceWork
from rowtide.runtime.backfill.slices import SliceCuts
from rowtide.runtime.batches.limits import WaitingStatements
from rowtide.runtime.batches.silence import SilenceInBatch
from rowtide.runtime.commit.commit import Committer
from rowtide.runtime.live.end_of_history import EndOfHistory
from rowtide.runtime.live.partition_watch import ends_of
from rowtide.runtime.live.read_loop import TAKE_S, ClockDecisions
from rowtide.runtime.live.resubmission import topic_places
from rowtide.runtime.pace import SnapshotsDue
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.recovery.recovery import check_ranges, partitions_of
from rowtide.runtime.state.observer import Observer
from rowtide.runtime.state.pipeline_state import CommitBatch, PipelineState
from rowtide.runtime.state.questions import Questions
from rowtide_connectors.api import OffsetRange

MESSAGES_A_PART = 1_000_000
"""Messages of a batch for each part by default: seconds of work, beside which the start of the stages costs little."""

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class BatchPace:
    """When batches begin, and how long they are.

    ``trigger_s``: the least time from the beginning of one to that of the next. ``messages``: their greatest number
    in a batch, counted as offsets; None: ``MESSAGES_A_PART`` for each part.
    """

    trigger_s: float
    messages: int | None = None

    def most(self, parts: int) -> int:
        """Return the greatest number of messages of a batch."""
        return MESSAGES_A_PART * parts if self.messages is None else self.messages


@dataclass(frozen=True, slots=True)
class BatchParts:
    """What the loop works with: all parts of the live service but its readers.

    ``end_of_history`` decides when history is over; None: this run does not decide it. ``carries_state``: every commit
    has a snapshot, because the log may not return the same messages again.
    """

    spark: OnSpark
    pace: BatchPace
    committer: Committer
    clocks: ClockDecisions
    questions: Questions
    observer: Observer
    end_of_history: EndOfHistory | None
    carries_state: bool


class BatchLoop:
    """The loop over one pipeline that is at its committed positions.

    Args:
      io: the sources and the database.
      record: what the claim of the epoch returned.
      work: the flow, recovered.
      intake: decodes messages in tasks.
      parts: what the loop works with.
    """

    def __init__(
        self, io: PipelineIO, record: Record, state: PipelineState, intake: MessageIntake, parts: BatchParts
    ) -> None:
        self.work = state
        self._io = io
        self._record = record
        self._intake = intake
        self._parts = parts
        self._clock = io.context.clock
        self._admission = Admission(io, state)
        self._waiting = WaitingStatements(io)
        self._slices = SliceWork(
            io.context, parts.spark, parts.committer, broker=io.broker, database=io.database
        )
        session = parts.spark.session
        self._most = parts.pace.most(int(session.conf.get("spark.sql.shuffle.partitions") or 1))
        self._suspected = False
        self._snapshots = SnapshotsDue(io.context.pace, self._clock.monotonic())

    def run(self, until: Mapping[PartitionId, int] | None = None) -> None:
        """Run until a stop is requested, or until every partition has reached its offset in ``until``.

        Raises:
          SupersededError, FaultError, TransientError, StoppedError, StatementError.
        """
        # Rows of the pipeline's own INSERT statements are there before the first message.
        self.work.drain()
        self.commit_own()
        while not self._is_over(until):
            due = self._clock.monotonic() + self._parts.pace.trigger_s
            is_behind = self._turn(until or {})
            self._parts.questions.answer(self.work)
            while not is_behind and self._clock.monotonic() < due and not self._is_over(until):
                self._clock.sleep(max(min(due - self._clock.monotonic(), TAKE_S), 0.0))
                self._parts.questions.answer(self.work)
        # The next process need not read again what Spark has read: it would do so by itself.
        if self._snapshots.has_passed:
            self.commit_own(with_snapshot=True)

    def commit_own(self, *, with_snapshot: bool = False) -> None:
        """Commit what the driver itself has processed and decided, if there is anything."""
        if not self.work.has_moved and not with_snapshot:
            return
        began = self._clock.monotonic()
        cut = self.work.cut(with_snapshot=with_snapshot or self._parts.carries_state)
        errors = self._parts.committer.commit(cut, self.work.recent)
        self.work.recent.forget()
        seconds = self._clock.monotonic() - began
        self._note_snapshot(cut.messages, with_snapshot=cut.snapshot is not None)
        self._parts.observer.committed(self.work, cut, errors, seconds)

    def _turn(self, until: Mapping[PartitionId, int]) -> bool:
        """Process what there is, up to the limit of a batch; return whether there is more."""
        ends = self._ends(until)
        if ends is None:
            return False
        self._admission.join()
        self._waiting.say()
        self.commit_own()
        positions = {place: self.work.positions[place] for place in topic_places(self.work.positions)}
        ends = {place: max(ends.get(place, position), position) for place, position in positions.items()}
        if ends == positions:
            self._parts.clocks.obey(self.work)
            self.work.drain()
            self._leave_history()
            self.commit_own()
            return False
        cuts = SliceCuts(ends, self._clock.now_ms(), None, self._most, self._offsets_at)
        cut = cuts.after(positions)
        self._batch(cut)
        if cut != ends:
            return True
        self._leave_history()
        self.commit_own()
        return False

    def _leave_history(self) -> None:
        if self._parts.end_of_history is not None:
            for decision in self._parts.end_of_history.decide(self.work):
                self.work.obey(decision)
            self.work.drain()

    def _ends(self, until: Mapping[PartitionId, int]) -> dict[PartitionId, int] | None:
        """Look up the ends of all partitions, at most ``until``; None: a topic is doubtful, look again."""
        ranges: dict[str, Mapping[int, OffsetRange]] = {}
        for relation, source in sorted(self._io.context.sources.items()):
            ranges[relation] = self._io.broker.call(source.ranges)
        positions = self.work.partition_positions()
        try:
            check_ranges(replace(self._record, partition_positions=positions), self.work.positions, ranges)
        except StatementError:
            # Twice in a row, because a broker that has just taken over partitions may not know all of them yet.
            if self._suspected:
                raise
            self._suspected = True
            return None
        self._suspected = False
        for relation, held in ranges.items():
            self._io.broker.call(partial(self._io.looked_up, relation, held))
        return {place: min(end, until.get(place, end)) for place, end in ends_of(ranges).items()}

    def _offsets_at(self, timestamp_ms: int) -> dict[PartitionId, int]:
        found = {}
        for relation, source in sorted(self._io.context.sources.items()):
            for partition, offset in self._io.broker.call(partial(source.offsets_at, timestamp_ms)).items():
                found[relation, partition] = offset
        return found

    def _batch(self, cut: Mapping[PartitionId, int]) -> None:
        """Process and commit the messages up to ``cut``, and continue from the state after them."""
        io, work, began = self._io, self.work, self._clock.monotonic()
        positions = {each.place: each for each in work.partition_positions()}
        heard = [place for place, offset in cut.items() if offset > positions[place].next_offset]
        flow: Flow | None = None

        def look(run: SparkRun) -> None:
            nonlocal flow
            flow = run.flow()

        def progress(_segment: str, _rows: int) -> None:
            # A batch is finished even if the process is to stop. The call shows that its loop makes progress.
            io.is_stopping()

        definition = RunDefinition(table_nodes(io.context.plan), partitions_of(positions))
        silence = SilenceInBatch(io, cut, heard)
        messages = sum(cut[place] - positions[place].next_offset for place in heard)
        given = Slice(
            definition,
            self._intake,
            positions,
            cut,
            work.flow.snapshot(),
            silence,
            with_snapshot=self._parts.carries_state or self._snapshots.is_due(began, messages),
            accounts=work.kept_accounts(),
        )
        done = self._slices.run(given, look, progress)
        assert flow is not None
        work.go_on(flow, done.positions.values(), done.accounts)
        self._note_snapshot(messages, with_snapshot=done.state is not None)
        self._tell(positions, done, self._clock.monotonic() - began)

    def _tell(self, before: Mapping[PartitionId, PartitionPosition], done: SliceDone, seconds: float) -> None:
        """Notify the observers of a batch that is committed."""
        moved = [each for place, each in done.positions.items() if each != before[place]]
        for each in moved:
            messages = each.next_offset - before[each.place].next_offset
            self._parts.observer.read(each.topic, each.partition, messages)
        report = CommitBatch((), (), tuple(moved), None, done.messages, done.decisions, moved_rows=done.rows)
        self._parts.observer.committed(self.work, report, done.error_rows, seconds)
        _log.debug(
            "batch",
            pipeline=self._io.context.name,
            messages=done.messages,
            rows=sum(done.rows.values()),
            errors=done.errors,
            seconds=round(seconds, 3),
        )

    def _note_snapshot(self, messages: int, *, with_snapshot: bool) -> None:
        self._snapshots.committed(self._clock.monotonic(), messages, with_snapshot=with_snapshot)
        if with_snapshot:
            stored = self._parts.committer.stored
            self._parts.observer.stored_snapshot(stored.size_bytes, stored.seconds)

    def _is_over(self, until: Mapping[PartitionId, int] | None) -> bool:
        """Return whether to stop, or whether everything wanted is read."""
        if self._io.is_stopping():
            return True
        return until is not None and all(
            self.work.positions[place] >= offset for place, offset in until.items()
        )
