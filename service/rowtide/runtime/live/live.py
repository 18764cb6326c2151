"""The running pipeline: deliveries in, commits out, one thread.

Each turn takes what has arrived, works it off, and commits when a commit is
due. A commit is a barrier: everything before its positions has been processed
as far as its bounds allow. Told to stop, the loop commits what it has worked
off and returns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowtide.checkpoint.ledger import ErrorRow, PartitionId, Record
from rowtide.clock import Clock
from rowtide.runtime.commit.commit import Committer
from rowtide.runtime.commit.crashpoints import CrashPoints
from rowtide.runtime.ingest.backpressure import Backpressure
from rowtide.runtime.ingest.inbox import Inbox
from rowtide.runtime.ingest.intake import Delivery
from rowtide.runtime.inspect.status import Phase, StatusBoard
from rowtide.runtime.live.questions import Questions
from rowtide.runtime.live.read_loop import TAKE_S, ClockDecisions, ReadLoop
from rowtide.runtime.live.tally import Tally
from rowtide.runtime.live.work import CommitBatch, PipelineState
from rowtide.runtime.recovery.seam import Seam

MAX_GATHERED_ROWS = 500_000
"""Output rows that bring a commit forward: bounds the memory that waits for it."""
MAX_COMMIT_BYTES = 128 * 1024 * 1024
"""Bytes of messages that bring a commit forward: until it they are kept, for the raw bytes of error rows."""
TURN_MESSAGES = 50_000
"""Messages of one turn at most, so that commits come on time and stop is obeyed soon."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When to commit and when to snapshot; None: never for that reason.

    ``first_rows_at_once``: those that come out first after a start do not wait for the interval.
    """

    commit_interval_ms: int
    commit_max_rows: int
    snapshot_rows: int | None
    snapshot_interval_s: float | None
    commit_max_bytes: int = MAX_COMMIT_BYTES
    first_rows_at_once: bool = False


class Observer(Protocol):
    """What is notified of the loop's progress: metrics, status pages, tests. It may not raise."""

    def recovered(self, work: PipelineState, seconds: float) -> None:
        """Take note that the flow is at the committed positions; that took ``seconds``."""

    def entered_phase(self, phase: Phase) -> None:
        """Take note of what the pipeline does now; called by any thread."""

    def claimed(self, pipeline: str, record: Record) -> None:
        """Take note of the epoch that this process has taken."""

    def retried(self, dependency: str) -> None:
        """Take note of a step that failed because a dependency is down; called by any thread."""

    def stored_snapshot(self, size_bytes: int, seconds: float) -> None:
        """Take note of a snapshot that was committed."""

    def entered(self, delivery: Delivery) -> None:
        """Take note that a delivery was let into the flow."""

    def committed(
        self, work: PipelineState, cut: CommitBatch, errors: Sequence[ErrorRow], seconds: float
    ) -> None:
        """Take note of a commit that took ``seconds``, and of its error rows."""

    def looked_up(self, topics: Mapping[str, str], ends: Mapping[PartitionId, int]) -> None:
        """Take note of the ends of partitions; called by reading threads."""


class Unobserved:
    """No one looks."""

    def recovered(self, work: PipelineState, seconds: float) -> None:
        """Go on."""

    def entered_phase(self, phase: Phase) -> None:
        """Go on."""

    def claimed(self, pipeline: str, record: Record) -> None:
        """Go on."""

    def retried(self, dependency: str) -> None:
        """Go on."""

    def stored_snapshot(self, size_bytes: int, seconds: float) -> None:
        """Go on."""

    def entered(self, delivery: Delivery) -> None:
        """Go on."""

    def committed(
        self, work: PipelineState, cut: CommitBatch, errors: Sequence[ErrorRow], seconds: float
    ) -> None:
        """Go on."""

    def looked_up(self, topics: Mapping[str, str], ends: Mapping[PartitionId, int]) -> None:
        """Go on."""


class Watching:
    """Keeps the status board up to date, and tells the next observer."""

    def __init__(
        self, board: StatusBoard, observer: Observer, work: PipelineState, created: Sequence[str]
    ) -> None:
        self._board = board
        self._tally = Tally(work, created)
        board.tell(self._tally.summary(work))
        self._next = observer
        self.entered = observer.entered
        self.recovered = observer.recovered
        self.looked_up = observer.looked_up
        self.entered_phase = observer.entered_phase
        self.claimed = observer.claimed
        self.retried = observer.retried
        self.stored_snapshot = observer.stored_snapshot

    def committed(
        self, work: PipelineState, cut: CommitBatch, errors: Sequence[ErrorRow], seconds: float
    ) -> None:
        self._board.committed(cut.standings)
        self._tally.committed(cut, errors)
        self._board.tell(self._tally.summary(work))
        self._next.committed(work, cut, errors, seconds)


class Live(ReadLoop):
    """The loop over one pipeline that is at its committed positions.

    Args:
      work: the flow, recovered.
      inbox: gives deliveries from the work's positions on.
      stopping: tells whether to stop: looked at between turns.
      admit: lets partitions in that have appeared: called between turns.
      seam: says when history is over; None: it is not for this run to say.
      carries_state: every commit has a snapshot: the log may not give the same messages again.
    """

    def __init__(
        self,
        *,
        work: PipelineState,
        inbox: Inbox,
        committer: Committer,
        pace: Pace,
        clock: Clock,
        stopping: Callable[[], bool],
        admit: Callable[[], None],
        carries_state: bool,
        crash_points: CrashPoints,
        backpressure: Backpressure,
        decisions: ClockDecisions,
        observer: Observer,
        questions: Questions,
        seam: Seam | None = None,
    ) -> None:
        super().__init__(work, inbox, backpressure)
        self._committer = committer
        self._pace = pace
        self._clock = clock
        self._stopping = stopping
        self._admit = admit
        self._carries_state = carries_state
        self._crash_points = crash_points
        self._decisions = decisions
        self._seam = seam
        self._observer = observer
        self._questions = questions
        now = clock.monotonic()
        self._last_commit = self._last_snapshot = now
        self._since_snapshot = 0
        self._is_awaited = pace.first_rows_at_once
        self._until: Mapping[PartitionId, int] = {}

    def run(self, until: Mapping[PartitionId, int] | None = None) -> None:
        """Run until a stop is requested, or until every partition has reached its offset in ``until``.

        Raises:
          SupersededError, FaultError, TransientError, StoppedError, GoneError.
        """
        self._until = until or {}
        # Rows of the pipeline's own INSERT statements are there before the first message.
        self.work.drain()
        while not self._stopping() and not (until is not None and self._has_reached_all()):
            self._admit()
            self.turn()
            self._questions.answer(self.work)
            if self._is_commit_due():
                self.commit()
        if self.work.has_moved:
            self.commit()

    def patience_s(self) -> float:
        """Return how long to wait for messages: no longer than until the next commit is due."""
        if not self.work.has_moved:
            return TAKE_S
        return min(max(self._due_at() - self._clock.monotonic(), 0.0), TAKE_S)

    def has_room(self, messages: int) -> bool:
        """Return whether the turn has room for more, and the commit too."""
        turn = min(TURN_MESSAGES, self._pace.commit_max_rows)
        return messages < turn and self.work.raw_bytes < self._pace.commit_max_bytes

    def enter(self, delivery: Delivery) -> None:
        """Let a delivery in, and notify those who watch."""
        super().enter(delivery)
        self._observer.entered(delivery)
        self._decisions.hear(delivery)

    def decide(self) -> None:
        """Obey what the clocks decide."""
        self._decisions.obey(self.work)

    def drain(self) -> None:
        """Process what has entered; then history may be over."""
        if self.work.has_moved:
            self._crash_points.reach("flow.before_drain")
            super().drain()
            self._crash_points.reach("flow.after_drain")
        if self._seam is not None and not self.waiting:
            for decision in self._seam.decide(self.work):
                self.work.obey(decision)

    def reached(self) -> Collection[PartitionId]:
        """Return the partitions that are read as far as wanted."""
        return [place for place, offset in self._until.items() if self.work.positions[place] >= offset]

    def commit(self, *, with_snapshot: bool = False) -> None:
        """Commit everything processed so far; with a snapshot where one is due, or wanted."""
        began = self._clock.monotonic()
        if self.work.gathered:
            self._is_awaited = False
        wanted = with_snapshot or self._carries_state
        cut = self.work.cut(with_snapshot=wanted or self._is_snapshot_due(began))
        taken = self._clock.monotonic()
        errors = self._committer.commit(cut, self.work.recent)
        self.work.recent.forget()
        now = self._clock.monotonic()
        self._last_commit = now
        self._since_snapshot += cut.messages
        if cut.snapshot is not None:
            self._last_snapshot = now
            self._since_snapshot = 0
            stored = self._committer.stored
            self._observer.stored_snapshot(stored.size_bytes, taken - began + stored.seconds)
        self._observer.committed(self.work, cut, errors, now - began)

    def _has_reached_all(self) -> bool:
        return not self.waiting and len(self.reached()) == len(self._until)

    def _due_at(self) -> float:
        return self._last_commit + self._pace.commit_interval_ms / 1000

    def _is_commit_due(self) -> bool:
        if not self.work.has_moved:
            return False
        return (
            self.work.messages >= self._pace.commit_max_rows
            or self.work.raw_bytes >= self._pace.commit_max_bytes
            or self.work.gathered >= (1 if self._is_awaited else MAX_GATHERED_ROWS)
            or self._clock.monotonic() >= self._due_at()
        )

    def _is_snapshot_due(self, now: float) -> bool:
        rows, interval = self._pace.snapshot_rows, self._pace.snapshot_interval_s
        since = self._since_snapshot + self.work.messages
        if rows is not None and since >= rows:
            return True
        return interval is not None and since > 0 and now - self._last_snapshot >= interval
