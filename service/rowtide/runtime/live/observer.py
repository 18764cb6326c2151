"""What listens to a running pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rowtide.checkpoint.ledger import ErrorRow, PartitionId, Record
from rowtide.runtime.ingest.intake import Delivery
from rowtide.runtime.inspect.status import Phase, StatusBoard
from rowtide.runtime.live.tally import Tally
from rowtide.runtime.live.work import CommitBatch, PipelineState


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
