"""The running pipeline: deliveries in, commits out, one thread.

Each turn takes what has arrived, works it off, and commits when a commit is
due. A commit is a barrier: everything before its positions has been processed
as far as its bounds allow. Told to stop, the loop commits what it has worked
off and returns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowtide.checkpoint.ledger import ErrorRow, PartitionId, Record
from rowtide.clock import Clock
from rowtide.runtime.commit.commit import Committer
from rowtide.runtime.commit.crashpoints import CrashPoints
from rowtide.runtime.ingest.append_times import AppendTimes
from rowtide.runtime.ingest.backpressure import Backpressure
from rowtide.runtime.ingest.idle import IdleWatch
from rowtide.runtime.ingest.inbox import Inbox
from rowtide.runtime.ingest.intake import Delivery
from rowtide.runtime.inspect.status import Phase, StatusBoard
from rowtide.runtime.live.questions import Questions
from rowtide.runtime.live.tally import Tally
from rowtide.runtime.live.work import CommitBatch, PipelineState
from rowtide.runtime.recovery.seam import Seam

MAX_GATHERED_ROWS = 500_000
"""Output rows that bring a commit forward: bounds the memory that waits for it."""
MAX_COMMIT_BYTES = 128 * 1024 * 1024
"""Bytes of messages that bring a commit forward: until it they are kept, for the raw bytes of error rows."""
TURN_MESSAGES = 50_000
"""Messages of one turn at most, so that commits come on time and stop is obeyed soon."""
_TAKE_S = 0.1
"""Longest wait for messages, so that the loop looks often enough at the clock and whether to stop."""


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


class Live:
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
        idle: IdleWatch,
        observer: Observer,
        questions: Questions | None = None,
        append_times: AppendTimes | None = None,
        seam: Seam | None = None,
    ) -> None:
        self._work = work
        self._inbox = inbox
        self._committer = committer
        self._pace = pace
        self._clock = clock
        self._stopping = stopping
        self._admit = admit
        self._carries_state = carries_state
        self._crash_points = crash_points
        self._backpressure = backpressure
        self._idle = idle
        self._append_times = AppendTimes(()) if append_times is None else append_times
        self._seam = seam
        self._observer = observer
        self._questions = Questions() if questions is None else questions
        self._waiting: deque[Delivery] = deque()
        now = clock.monotonic()
        self._last_commit = self._last_snapshot = now
        self._since_snapshot = 0
        self._is_awaited = pace.first_rows_at_once
        self._until: Mapping[PartitionId, int] = {}

    def run(self, until: Mapping[PartitionId, int] | None = None) -> None:
        """Go on until told to stop, or until every partition has reached its offset in ``until``.

        Raises:
          SupersededError, FaultError, TransientError, StoppedError, GoneError.
        """
        self._until = until or {}
        # Rows of the pipeline's own INSERT statements are there before the first message.
        self._work.drain()
        while not self._stopping() and not (until is not None and self._has_reached_all()):
            self.turn()
        if self._work.has_moved:
            self.commit()

    def turn(self) -> None:
        """Take and process what has arrived; commit if it is time."""
        self._admit()
        if not self._waiting:
            self._waiting.extend(self._inbox.take(self._patience()))
        messages = 0
        turn = min(TURN_MESSAGES, self._pace.commit_max_rows)
        while self._waiting and messages < turn and self._work.raw_bytes < self._pace.commit_max_bytes:
            delivery = self._waiting.popleft()
            messages += len(delivery)
            self._work.enter(delivery)
            self._observer.entered(delivery)
            if len(delivery):
                self._idle.hear((delivery.relation, delivery.partition))
                self._append_times.hear(delivery.relation, delivery.messages.timestamps)
        positions, flow = self._work.positions, self._work.flow
        for decision in self._append_times.decide(positions, flow.bounds()):
            self._work.obey(decision)
        for decision in self._idle.decide(positions, flow.bounds(), flow.met):
            self._work.obey(decision)
        if self._work.has_moved:
            self._crash_points.reach("flow.before_drain")
            self._work.drain()
            self._crash_points.reach("flow.after_drain")
        if self._seam is not None and not self._waiting:
            for decision in self._seam.decide(self._work):
                self._work.obey(decision)
        self._backpressure.balance(self._work, self._inbox, self._reached())
        self._questions.answer(self._work)
        if self._is_commit_due():
            self.commit()

    def commit(self, *, with_snapshot: bool = False) -> None:
        """Commit everything processed so far; with a snapshot where one is due, or wanted."""
        began = self._clock.monotonic()
        if self._work.gathered:
            self._is_awaited = False
        wanted = with_snapshot or self._carries_state
        cut = self._work.cut(with_snapshot=wanted or self._is_snapshot_due(began))
        taken = self._clock.monotonic()
        errors = self._committer.commit(cut, self._work.recent)
        self._work.recent.forget()
        now = self._clock.monotonic()
        self._last_commit = now
        self._since_snapshot += cut.messages
        if cut.snapshot is not None:
            self._last_snapshot = now
            self._since_snapshot = 0
            stored = self._committer.stored
            self._observer.stored_snapshot(stored.size_bytes, taken - began + stored.seconds)
        self._observer.committed(self._work, cut, errors, now - began)

    def _has_reached_all(self) -> bool:
        return not self._waiting and len(self._reached()) == len(self._until)

    def _reached(self) -> list[PartitionId]:
        """Return the partitions that are read as far as wanted."""
        return [place for place, offset in self._until.items() if self._work.positions[place] >= offset]

    def _patience(self) -> float:
        """Return how long to wait for messages: no longer than until the next commit is due."""
        if not self._work.has_moved:
            return _TAKE_S
        return min(max(self._due_at() - self._clock.monotonic(), 0.0), _TAKE_S)

    def _due_at(self) -> float:
        return self._last_commit + self._pace.commit_interval_ms / 1000

    def _is_commit_due(self) -> bool:
        if not self._work.has_moved:
            return False
        return (
            self._work.messages >= self._pace.commit_max_rows
            or self._work.raw_bytes >= self._pace.commit_max_bytes
            or self._work.gathered >= (1 if self._is_awaited else MAX_GATHERED_ROWS)
            or self._clock.monotonic() >= self._due_at()
        )

    def _is_snapshot_due(self, now: float) -> bool:
        rows, interval = self._pace.snapshot_rows, self._pace.snapshot_interval_s
        since = self._since_snapshot + self._work.messages
        if rows is not None and since >= rows:
            return True
        return interval is not None and since > 0 and now - self._last_snapshot >= interval
