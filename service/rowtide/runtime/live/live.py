"""The running pipeline: deliveries in, commits out, one thread.

Each turn takes what has arrived, processes it, and commits when a commit is
due. A commit is a barrier: everything before its positions has been processed
as far as its bounds allow. When asked to stop, the loop commits what it has
processed and returns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from rowtide.checkpoint.ledger import PartitionId
from rowtide.runtime.commit.commit import Committer
from rowtide.runtime.ingest.inbox import Inbox
from rowtide.runtime.ingest.intake import Delivery
from rowtide.runtime.live.backpressure import Backpressure
from rowtide.runtime.live.end_of_history import EndOfHistory
from rowtide.runtime.live.read_loop import TAKE_S, ClockDecisions, ReadLoop
from rowtide.runtime.outbox.outboxes import Outboxes
from rowtide.runtime.pace import SnapshotsDue
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.observer import Observer
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.state.questions import Questions

MAX_GATHERED_ROWS = 500_000
"""Output rows that bring a commit forward: bounds the memory that waits for it."""
TURN_MESSAGES = 50_000
"""Maximum messages of one turn, so that commits are on time and a stop is obeyed soon."""


class Looks(Protocol):
    """Looks at the first messages of a new pipeline. Its methods may not raise."""

    def entered(self, delivery: Delivery) -> None:
        """Note a delivery that has entered the flow."""

    def committed(self) -> None:
        """Note a commit."""

    def ended(self) -> None:
        """Note that no more messages follow."""


@dataclass(frozen=True, slots=True)
class Inflow:
    """The input of a running pipeline, and the sources of its decisions.

    Args:
      inbox: returns deliveries from the pipeline's positions on.
      backpressure: balances the partitions.
      clocks: makes the decisions that do not follow from the messages.
      look: looks at the first messages of a new pipeline.
      end_of_history: decides when history is over; None: this run does not decide it.
    """

    inbox: Inbox
    backpressure: Backpressure
    clocks: ClockDecisions
    look: Looks
    end_of_history: EndOfHistory | None = None


@dataclass(frozen=True, slots=True)
class BetweenTurns:
    """The work of the loop between two turns.

    Args:
      stopping: returns true once the loop must stop.
      admit: adds partitions that have appeared, and executes statements that were sent.
      rested: notes for how many seconds the loop has only waited.
      questions: requests of other threads.
      outboxes: the senders of what is committed for topics.
    """

    stopping: Callable[[], bool]
    admit: Callable[[], None]
    rested: Callable[[float], None]
    questions: Questions
    outboxes: Outboxes


class Live(ReadLoop):
    """The loop over one pipeline that is at its committed positions.

    Args:
      context: the pace, the clock and the crash points of the pipeline.
      work: the flow, recovered.
      carries_state: every commit has a snapshot, because the log may not return the same messages again.
    """

    def __init__(
        self,
        context: PipelineContext,
        state: PipelineState,
        inflow: Inflow,
        committer: Committer,
        *,
        between: BetweenTurns,
        observer: Observer,
        carries_state: bool,
    ) -> None:
        super().__init__(state, inflow.inbox, inflow.backpressure)
        self._pace = context.pace
        self._clock = context.clock
        self._crash_points = context.crash_points
        self._clocks = inflow.clocks
        self._end_of_history = inflow.end_of_history
        self._committer = committer
        self._between = between
        self._observer = observer
        self._look = inflow.look
        self._carries_state = carries_state
        now = self._clock.monotonic()
        self._last_commit = now
        self._cut_seconds = 0.0
        self._snapshots = SnapshotsDue(self._pace, now)
        self._is_awaited = self._pace.first_rows_at_once
        self._until: Mapping[PartitionId, int] = {}

    def run(self, until: Mapping[PartitionId, int] | None = None) -> None:
        """Run until a stop is requested, or until every partition has reached its offset in ``until``.

        Raises:
          SupersededError, FaultError, TransientError, StoppedError, GoneError.
        """
        self._until = until or {}
        # Rows of the pipeline's own INSERT statements are there before the first message.
        self.work.drain()
        while not self._between.stopping() and not (until is not None and self._has_reached_all()):
            self._between.admit()
            self._between.outboxes.work()
            if self._between.outboxes.are_full():
                self._clock.sleep(TAKE_S)
                self._between.rested(TAKE_S)
            else:
                self.turn()
            self._between.questions.answer(self.work)
            if self._is_commit_due():
                self.commit()
        while self.work.has_moved or self._committer.is_storing:
            self.commit()
        self._look.ended()

    def take(self) -> list[Delivery]:
        """Return what has arrived, and note how long it was waited for."""
        began = self._clock.monotonic()
        found = super().take()
        self._between.rested(self._clock.monotonic() - began)
        return found

    def patience_s(self) -> float:
        """Return how long to wait for messages: at most until the next commit is due."""
        if not self.work.has_moved:
            return TAKE_S
        return min(max(self._due_at() - self._clock.monotonic(), 0.0), TAKE_S)

    def has_room(self, messages: int) -> bool:
        """Return whether the turn and the commit have room for more."""
        turn = min(TURN_MESSAGES, self._pace.commit_max_rows)
        return messages < turn and self.work.raw_bytes < self._pace.commit_max_bytes

    def enter(self, delivery: Delivery) -> None:
        """Pass a delivery to the flow, and notify the observers."""
        super().enter(delivery)
        self._observer.entered(delivery)
        self._look.entered(delivery)
        self._clocks.note_arrival(delivery)

    def decide(self) -> None:
        """Obey what the clocks decide."""
        self._clocks.obey(self.work)

    def drain(self) -> None:
        """Process what has entered, and detect the end of history."""
        if self.work.has_moved:
            self._crash_points.reach("flow.before_drain")
            super().drain()
            self._crash_points.reach("flow.after_drain")
        if self._end_of_history is not None and not self.waiting:
            for decision in self._end_of_history.decide(self.work):
                self.work.obey(decision)

    def reached(self) -> Collection[PartitionId]:
        """Return the partitions that have reached their last wanted offset."""
        return [place for place, offset in self._until.items() if self.work.positions[place] >= offset]

    def commit(self, *, with_snapshot: bool = False) -> None:
        """Commit everything processed so far, with a snapshot if one is due or requested.

        A snapshot that is due is stored in parts, with this commit and the next ones; a requested one is stored whole.
        """
        began = self._clock.monotonic()
        if self.work.gathered:
            self._is_awaited = False
        whole = with_snapshot or self._carries_state
        is_due = not self._committer.is_storing and self._snapshots.is_due(began, self.work.messages)
        cut = self.work.cut(with_snapshot=whole or is_due)
        if cut.snapshot is not None:
            self._cut_seconds = self._clock.monotonic() - began
        before = self._committer.stored
        part_bytes = None if whole else self._pace.snapshot_part_bytes
        errors = self._committer.commit(cut, self.work.recent, part_bytes=part_bytes)
        self._between.outboxes.committed(cut)
        self.work.recent.forget()
        now = self._clock.monotonic()
        self._last_commit = now
        self._snapshots.committed(now, cut.messages, with_snapshot=cut.snapshot is not None)
        stored = self._committer.stored
        if stored is not before:
            self._observer.stored_snapshot(stored.size_bytes, self._cut_seconds + stored.seconds)
        self._observer.committed(self.work, cut, errors, now - began)
        self._look.committed()

    def _has_reached_all(self) -> bool:
        return not self.waiting and len(self.reached()) == len(self._until)

    def _due_at(self) -> float:
        return self._last_commit + self._pace.commit_interval_ms / 1000

    def _is_commit_due(self) -> bool:
        if not self.work.has_moved:
            return self._committer.is_storing and self._clock.monotonic() >= self._due_at()
        return (
            self.work.is_awaited
            or self.work.messages >= self._pace.commit_max_rows
            or self.work.raw_bytes >= self._pace.commit_max_bytes
            or self.work.gathered >= (1 if self._is_awaited else MAX_GATHERED_ROWS)
            or self._clock.monotonic() >= self._due_at()
        )
