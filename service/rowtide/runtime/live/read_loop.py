"""One turn of reading: take deliveries, let them enter, apply decisions, drain, balance.

A running pipeline, a recovery and a switch between two plans read in the same way. They differ in how a
delivery enters, who decides, and how the output is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from rowtide.checkpoint.ledger import PartitionId
from rowtide.runtime.ingest.append_times import AppendTimes
from rowtide.runtime.ingest.idle import IdleWatch
from rowtide.runtime.ingest.inbox import Inbox, Pausable
from rowtide.runtime.ingest.intake import Delivery
from rowtide.runtime.live.backpressure import Backpressure
from rowtide.runtime.live.bound_watch import LOOK_S, BoundWatch
from rowtide.runtime.state.pipeline_state import PipelineState

TAKE_S = 0.1
"""Longest wait for messages, so that a loop checks the clock and whether to stop often enough."""


class ReadLoop:
    """Reads an inbox into a pipeline, turn by turn."""

    def __init__(self, state: PipelineState, inbox: Inbox, backpressure: Backpressure) -> None:
        self.work = state
        self.inbox = inbox
        self.backpressure = backpressure
        self.waiting: deque[Delivery] = deque()
        """Deliveries that were taken but have not entered, because the turn had no room."""

    def turn(self) -> None:
        """Take and process what has arrived."""
        if not self.waiting:
            self.waiting.extend(self.take())
        messages = 0
        while self.waiting and self.has_room(messages):
            delivery = self.waiting.popleft()
            messages += len(delivery)
            self.enter(delivery)
        self.decide()
        self.drain()
        self.backpressure.balance(self.work, self.pausable(), self.reached())

    def take(self) -> list[Delivery]:
        """Return what has arrived; wait if it is nothing."""
        return self.inbox.take(self.patience_s())

    def patience_s(self) -> float:
        """Return how long to wait for messages."""
        return TAKE_S

    def has_room(self, messages: int) -> bool:
        """Return whether more may enter in this turn, after this number of messages."""
        return True

    def enter(self, delivery: Delivery) -> None:
        """Let a delivery into the pipeline."""
        self.work.enter(delivery)

    def decide(self) -> None:
        """Apply the decisions that are due after what has entered."""

    def drain(self) -> None:
        """Process what has entered."""
        self.work.drain()

    def pausable(self) -> Pausable:
        """Return the part that pauses partitions."""
        return self.inbox

    def reached(self) -> Collection[PartitionId]:
        """Return the partitions that are read as far as wanted."""
        return ()


class ClockDecisions:
    """The decisions of the wall clock and the broker's clock: silent partitions and append times.

    A replay does not use them: it obeys the log. ``bounds`` decides nothing: it notes what has moved.
    """

    def __init__(self, idle: IdleWatch, append_times: AppendTimes, bounds: BoundWatch) -> None:
        self._idle = idle
        self._append_times = append_times
        self._bounds = bounds

    def note_arrival(self, delivery: Delivery) -> None:
        """Note the messages of a delivery, if it has any."""
        if len(delivery):
            self._idle.note_arrival((delivery.relation, delivery.partition))
            self._append_times.note_arrival(delivery.relation, delivery.messages.timestamps)

    def obey(self, state: PipelineState) -> None:
        """Apply the current decisions to ``work``."""
        positions, flow = state.positions, state.flow
        self._bounds.look(state, LOOK_S)
        for decision in self._append_times.decide(positions, flow.bounds()):
            state.obey(decision)
        for decision in self._idle.decide(positions, flow.bounds(), flow.met):
            state.obey(decision)
