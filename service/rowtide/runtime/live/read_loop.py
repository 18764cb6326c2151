"""One turn of reading: take deliveries, let them enter, obey what is decided, drain, balance.

A running pipeline, a recovery and a switch between two plans read in the same way. What differs is how a
delivery enters, who decides, and what becomes of the output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from rowtide.checkpoint.ledger import PartitionId
from rowtide.runtime.ingest.append_times import AppendTimes
from rowtide.runtime.ingest.backpressure import Backpressure
from rowtide.runtime.ingest.idle import IdleWatch
from rowtide.runtime.ingest.inbox import Inbox, Pausable
from rowtide.runtime.ingest.intake import Delivery
from rowtide.runtime.live.work import PipelineState

TAKE_S = 0.1
"""Longest wait for messages, so that a loop looks often enough at the clock and whether to stop."""


class ReadLoop:
    """Reads an inbox into a pipeline, turn by turn."""

    def __init__(self, work: PipelineState, inbox: Inbox, backpressure: Backpressure) -> None:
        self.work = work
        self.inbox = inbox
        self.backpressure = backpressure
        self.waiting: deque[Delivery] = deque()
        """What was taken and has not entered: there was no room for it in the turn."""

    def turn(self) -> None:
        """Take and process what has arrived."""
        if not self.waiting:
            self.waiting.extend(self.inbox.take(self.patience_s()))
        messages = 0
        while self.waiting and self.has_room(messages):
            delivery = self.waiting.popleft()
            messages += len(delivery)
            self.enter(delivery)
        self.decide()
        self.drain()
        self.backpressure.balance(self.work, self.pausable(), self.reached())

    def patience_s(self) -> float:
        """Return how long to wait for messages."""
        return TAKE_S

    def has_room(self, messages: int) -> bool:
        """Return whether more may enter in this turn, after so many messages."""
        return True

    def enter(self, delivery: Delivery) -> None:
        """Let a delivery into the pipeline."""
        self.work.enter(delivery)

    def decide(self) -> None:
        """Let decisions take effect that are due after what has entered."""

    def drain(self) -> None:
        """Process what has entered."""
        self.work.drain()

    def pausable(self) -> Pausable:
        """Return what pauses partitions."""
        return self.inbox

    def reached(self) -> Collection[PartitionId]:
        """Return the partitions of which nothing more is wanted."""
        return ()


class ClockDecisions:
    """The decisions of the wall clock and the broker's: silent partitions and append times.

    A replay does not ask them: it obeys the log.
    """

    def __init__(self, idle: IdleWatch, append_times: AppendTimes) -> None:
        self._idle = idle
        self._append_times = append_times

    def hear(self, delivery: Delivery) -> None:
        """Note the messages of a delivery, if it has any."""
        if len(delivery):
            self._idle.hear((delivery.relation, delivery.partition))
            self._append_times.hear(delivery.relation, delivery.messages.timestamps)

    def obey(self, work: PipelineState) -> None:
        """Let what is decided now take effect in ``work``."""
        positions, flow = work.positions, work.flow
        for decision in self._append_times.decide(positions, flow.bounds()):
            work.obey(decision)
        for decision in self._idle.decide(positions, flow.bounds(), flow.met):
            work.obey(decision)
