"""Metrics of a running pipeline, updated by its deliveries and commits."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from rowtide.checkpoint.ledger import ErrorRow, PartitionId, PartitionPosition, Record, is_resubmission
from rowtide.clock import Clock
from rowtide.flow.counts import Counts
from rowtide.metrics import AccountCounts, Metrics
from rowtide.operators.contract import RowCounts
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST
from rowtide.runtime.ingest.intake import Delivery
from rowtide.runtime.state.pipeline_state import CommitBatch, PipelineState
from rowtide.runtime.state.status import Phase, ReplicaStatus, Role
from rowtide_connectors.several import place_of


class MetricsObserver:
    """Updates the metrics of one pipeline. Called by its main thread."""

    def __init__(self, metrics: Metrics, clock: Clock, version: str) -> None:
        self._metrics = metrics
        self._clock = clock
        self._version = version
        self._accounts = AccountCounts(metrics)
        self._ends: Mapping[PartitionId, int] = {}
        self._positions: Mapping[PartitionId, int] = {}
        self._revived: Mapping[str, int] = {}
        self._takeovers = 0

    def entered_phase(self, phase: Phase) -> None:
        """Show the phase; called by any thread."""
        for each in get_args(Phase):
            self._metrics.phase.labels(each).set(each == phase)
        self._metrics.up.set(phase in ("running", "following"))

    def claimed(self, pipeline: str, record: Record) -> None:
        """Show the pipeline and its epoch."""
        digest = hashlib.sha256(record.digest.encode()).hexdigest()[:16]
        self._metrics.pipeline.labels(pipeline, digest, self._version).set(1)
        self._metrics.epoch.set(record.epoch)
        if record.committed_at_ms is not None:
            self._metrics.last_commit.set(record.committed_at_ms / 1000)
        self._show_positions(record.partition_positions)

    def retried(self, dependency: str) -> None:
        """Count a failure; called by any thread."""
        self._metrics.retries.labels(dependency).inc()

    def sent(self, relation: str, messages: int, pending: int) -> None:
        """Count messages that were sent, and show how many wait; called by sending threads."""
        self._metrics.messages_sent.labels(relation).inc(messages)
        self._metrics.messages_pending.labels(relation).set(pending)

    def replicates(self, replica: ReplicaStatus) -> None:
        """Show the role of a replica, and how far a follower is behind."""
        for role in get_args(Role):
            self._metrics.role.labels(role).set(role == replica.role)
        self._metrics.takeovers.inc(replica.takeovers - self._takeovers)
        self._takeovers = replica.takeovers
        self._metrics.standby_lag_commits.set(replica.lag_commits)
        self._metrics.standby_lag_seconds.set(replica.lag_s)
        if replica.role == "follower" and self._positions:
            # The lag of the topics is that of the leader.
            self._positions = {}
            self._metrics.lag.clear()

    def stored_snapshot(self, size_bytes: int, seconds: float) -> None:
        """Count a snapshot."""
        self._metrics.snapshots.inc()
        self._metrics.snapshot_bytes.set(size_bytes)
        self._metrics.snapshot_seconds.observe(seconds)

    def recovered(self, state: PipelineState, seconds: float) -> None:
        """Take the counts so far as the base line, and show all positions."""
        self._metrics.recovery_seconds.set(seconds)
        for relation, counts in _counts(state, state.flow.counts()).items():
            self._accounts.start_at(relation, counts)
        self._show_positions(state.partition_positions())
        self._show_bounds(state)
        self._revived = state.flow.revived()

    def entered(self, delivery: Delivery) -> None:
        """Count what was read."""
        labels = _labels(delivery.messages.topic, delivery.partition)
        self._metrics.messages_read.labels(*labels).inc(len(delivery))
        self._metrics.message_bytes_read.labels(*labels).inc(delivery.raw_bytes)
        for part in delivery.parts:
            if isinstance(part, Tray):
                self._metrics.tray_rows.observe(len(part))

    def read(self, topic: str, partition: int, messages: int) -> None:
        """Count messages that Spark has read."""
        self._metrics.messages_read.labels(*_labels(topic, partition)).inc(messages)

    def committed(
        self, state: PipelineState, batch: CommitBatch, errors: Sequence[ErrorRow], seconds: float
    ) -> None:
        """Count a commit, and follow accounts, positions and bounds."""
        metrics = self._metrics
        metrics.commits.inc()
        metrics.commit_seconds.observe(seconds)
        metrics.commit_rows.observe(
            sum(len(writes.tray) for writes in batch.writes)
            + sum(len(each.messages) for each in batch.sends)
            + sum(batch.moved_rows.values())
        )
        metrics.last_commit.set(self._clock.now_ms() / 1000)
        for (kind, reason), rows in Counter(
            (row.kind, row.reason.split(":", 1)[0]) for row in errors
        ).items():
            metrics.error_rows.labels(kind, reason).inc(rows)
        for relation, counts in _counts(state, state.counts).items():
            self._accounts.follow(relation, counts)
        revived = state.flow.revived()
        for relation, rows in revived.items():
            metrics.rows_revived.labels(relation).inc(rows - self._revived.get(relation, 0))
        self._revived = revived
        self._show_positions(batch.partition_positions)
        self._show_bounds(state)

    def _show_positions(self, partition_positions: Iterable[PartitionPosition]) -> None:
        """Show the positions of partitions. Each has all its samples from then on."""
        metrics = self._metrics
        shown = [each for each in partition_positions if not is_resubmission(each.place)]
        self._positions = {**self._positions, **{each.place: each.next_offset for each in shown}}
        for position in shown:
            labels = _labels(position.topic, position.partition)
            metrics.position.labels(*labels).set(position.next_offset)
            metrics.messages_read.labels(*labels)
            metrics.message_bytes_read.labels(*labels)
            self._show_lag(position.place, position.topic)
            if position.bound is not None:
                bound = metrics.partition_bound.labels(position.relation, *labels)
                bound.set(position.bound / 1000)

    def _show_lag(self, partition: PartitionId, topic: str) -> None:
        position, end = self._positions.get(partition), self._ends.get(partition)
        if position is not None and end is not None:
            self._metrics.lag.labels(*_labels(topic, partition[1])).set(max(0, end - position))

    def _show_bounds(self, state: PipelineState) -> None:
        metrics = self._metrics
        least: dict[str, int] = {}
        for (relation, _), bound_ms in state.flow.bounds().items():
            least[relation] = min(least.get(relation, LATEST), bound_ms)
        for relation, bound_ms in least.items():
            if bound_ms != EARLIEST:
                metrics.bound.labels(relation).set(bound_ms / 1000)

    def looked_up(self, topics: Mapping[str, str], ends: Mapping[PartitionId, int]) -> None:
        """Note the ends of partitions; may be called by another thread."""
        self._ends = {**self._ends, **ends}
        for (relation, partition), end in ends.items():
            self._metrics.end_offset.labels(*_labels(topics[relation], partition)).set(end)
            self._show_lag((relation, partition), topics[relation])


def _counts(state: PipelineState, counts: Counts) -> dict[str, RowCounts]:
    """Return the counts of each relation, and of each table and stream that is written.

    A target that several pumps fill, or that waits for another by a foreign key, has a union of its name before it:
    rows enter there, and may be held.
    """
    found = counts.by_relation
    written = {name: output.account.counts() for name, output in state.outputs.items()}
    joined = {
        name: own._replace(rows_in=found[name].rows_in, held=found[name].held) if name in found else own
        for name, own in written.items()
    }
    return found | joined


def _labels(topic: str, partition: int) -> tuple[str, str]:
    name, own = place_of(topic, partition)
    return name, str(own)
