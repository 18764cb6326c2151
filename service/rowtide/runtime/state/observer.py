"""Observers of a running pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rowtide.checkpoint.ledger import ErrorRow, PartitionId, Record
from rowtide.runtime.ingest.bound_origins import BoundOrigins
from rowtide.runtime.ingest.intake import Delivery
from rowtide.runtime.state.pipeline_state import CommitBatch, PipelineState
from rowtide.runtime.state.status import Phase, ReplicaStatus, StatusBoard
from rowtide.runtime.state.tally import Tally


class Observer(Protocol):
    """Receives the events of the main loop: metrics, status pages, tests. Its methods may not raise."""

    def recovered(self, state: PipelineState, seconds: float) -> None:
        """Note that recovery has brought the flow to the committed positions in ``seconds``."""

    def entered_phase(self, phase: Phase) -> None:
        """Note the phase that begins; called by any thread."""

    def claimed(self, pipeline: str, record: Record) -> None:
        """Note the epoch that this process has taken."""

    def retried(self, dependency: str) -> None:
        """Note a step that failed because a dependency is down; called by any thread."""

    def stored_snapshot(self, size_bytes: int, seconds: float) -> None:
        """Note a committed snapshot."""

    def entered(self, delivery: Delivery) -> None:
        """Note a delivery that has entered the flow."""

    def read(self, topic: str, partition: int, messages: int) -> None:
        """Note messages that Spark has read of a partition and that are committed, counted as offsets."""

    def committed(
        self, state: PipelineState, batch: CommitBatch, errors: Sequence[ErrorRow], seconds: float
    ) -> None:
        """Note a commit that took ``seconds``, and its error rows."""

    def looked_up(self, topics: Mapping[str, str], ends: Mapping[PartitionId, int]) -> None:
        """Note the end offsets of partitions; called by reading threads."""

    def sent(self, relation: str, messages: int, pending: int) -> None:
        """Note messages that were sent for a foreign stream, and how many wait; called by sending threads."""

    def replicates(self, replica: ReplicaStatus) -> None:
        """Note the role of a replica, and how far a follower is behind."""


class Unobserved:
    """Null observer: ignores every event."""

    def recovered(self, state: PipelineState, seconds: float) -> None:
        """Ignore the event."""

    def entered_phase(self, phase: Phase) -> None:
        """Ignore the event."""

    def claimed(self, pipeline: str, record: Record) -> None:
        """Ignore the event."""

    def retried(self, dependency: str) -> None:
        """Ignore the event."""

    def stored_snapshot(self, size_bytes: int, seconds: float) -> None:
        """Ignore the event."""

    def entered(self, delivery: Delivery) -> None:
        """Ignore the event."""

    def read(self, topic: str, partition: int, messages: int) -> None:
        """Ignore the event."""

    def committed(
        self, state: PipelineState, batch: CommitBatch, errors: Sequence[ErrorRow], seconds: float
    ) -> None:
        """Ignore the event."""

    def looked_up(self, topics: Mapping[str, str], ends: Mapping[PartitionId, int]) -> None:
        """Ignore the event."""

    def sent(self, relation: str, messages: int, pending: int) -> None:
        """Ignore the event."""

    def replicates(self, replica: ReplicaStatus) -> None:
        """Ignore the event."""


Committed = Callable[[PipelineState, CommitBatch, Sequence[ErrorRow], float, int | None], None]
"""Notes a commit, as ``Observer.committed`` does, with the size of the snapshot that is complete with it."""


class Watching:
    """Keeps the status board up to date, and notifies ``progress`` and then the next observer.

    ``origins`` have the decisions that were committed before.
    """

    def __init__(
        self,
        board: StatusBoard,
        progress: Committed,
        observer: Observer,
        state: PipelineState,
        created: Sequence[str],
        origins: BoundOrigins,
    ) -> None:
        self._board = board
        self._origins = origins
        self._snapshot_bytes: int | None = None
        self._tally = Tally(state, created)
        board.tell(self._tally.summary(state, state.held()))
        self._progress = progress
        self._next = observer
        self.entered = observer.entered
        self.read = observer.read
        self.recovered = observer.recovered
        self.looked_up = observer.looked_up
        self.entered_phase = observer.entered_phase
        self.claimed = observer.claimed
        self.retried = observer.retried
        self.sent = observer.sent
        self.replicates = observer.replicates

    def stored_snapshot(self, size_bytes: int, seconds: float) -> None:
        self._snapshot_bytes = size_bytes
        self._next.stored_snapshot(size_bytes, seconds)

    def committed(
        self, state: PipelineState, batch: CommitBatch, errors: Sequence[ErrorRow], seconds: float
    ) -> None:
        self._origins.note(batch.decisions)
        self._board.committed(batch.partition_positions, lambda each: self._origins.of(each, state.flow))
        self._tally.committed(batch, errors)
        self._board.tell(self._tally.summary(state, state.counts.held))
        self._progress(state, batch, errors, seconds, self._snapshot_bytes)
        self._snapshot_bytes = None
        self._next.committed(state, batch, errors, seconds)
