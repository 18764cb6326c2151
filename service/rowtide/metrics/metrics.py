"""The metrics of one service process, on a registry of their own.

``Metrics.__init__`` declares and creates every metric. docs/reference/metrics.md
and its test read these declarations. Names
follow Prometheus: base units (seconds, bytes) last, counters end in ``_total``,
points in time are ``_timestamp_seconds``. Rowtimes are seconds here, as all
times in Prometheus, and milliseconds everywhere else in Rowtide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.process_collector import ProcessCollector

SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""A commit of positions alone takes about 1 ms, one of 1,000 rows about 10; 30 s is a stuck database."""

ROWS_BUCKETS = (0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0)
"""Trays are best at about 10,000 rows; a commit folds many of them."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The declaration of a metric. ``kind`` is counter, gauge or histogram."""

    name: str
    kind: str
    unit: str
    meaning: str
    labels: tuple[str, ...]


class _Registry(CollectorRegistry):
    """A registry without the series ``.._created``, of which each counter and histogram would have one more."""

    def collect(self) -> Iterable[Metric]:
        """Yield each family with the samples that are declared."""
        for family in super().collect():
            family.samples = [each for each in family.samples if not each.name.endswith("_created")]
            yield family


class Metrics:
    """Every metric of a service. Thread-safe. Two instances share nothing."""

    def __init__(self) -> None:
        self.registry: CollectorRegistry = _Registry()
        self._declared: list[Declaration] = []
        # CPU, memory and open files of the process, under prometheus_client's own names.
        ProcessCollector(registry=self.registry)

        self.up = self._gauge(
            "rowtide_up", "boolean", "1 while the pipeline processes rows, 0 while it does not."
        )
        self.pipeline = self._gauge(
            "rowtide_pipeline_info",
            "constant 1",
            "Name of the pipeline, digest of its plan, and version of the program.",
            "pipeline",
            "digest",
            "version",
        )
        self.phase = self._gauge(
            "rowtide_phase",
            "boolean",
            "1 for the phase that the pipeline is in: starting, recovering, following, running, waiting or stopping.",
            "phase",
        )
        self.epoch = self._gauge("rowtide_epoch", "number", "Fencing epoch of this process.")
        self.role = self._gauge(
            "rowtide_role",
            "boolean",
            "1 for the role of a replica: leader or follower. A process without --standby has none.",
            "role",
        )
        self.takeovers = self._counter(
            "rowtide_takeovers_total",
            "take-overs",
            "Times that a replica took over the pipeline while this process followed it, this one included.",
        )
        self.standby_lag_commits = self._gauge(
            "rowtide_standby_lag_commits", "commits", "Commits that this follower has not processed yet."
        )
        self.standby_lag_seconds = self._gauge(
            "rowtide_standby_lag_seconds",
            "seconds",
            "Time since this follower was at the newest commit that it knew.",
        )

        self.messages_sent = self._counter(
            "rowtide_messages_sent_total",
            "messages",
            "Messages that this process has sent to the topic of a foreign stream.",
            "relation",
        )
        self.messages_pending = self._gauge(
            "rowtide_messages_pending",
            "messages",
            "Messages that are committed for the topic of a foreign stream and not known as sent.",
            "relation",
        )
        self.messages_read = self._counter(
            "rowtide_messages_read_total",
            "messages",
            "Messages read from a partition, including those read again after a restart.",
            "topic",
            "partition",
        )
        self.message_bytes_read = self._counter(
            "rowtide_message_bytes_read_total",
            "bytes",
            "Bytes of the values of messages that were read.",
            "topic",
            "partition",
        )
        self.position = self._gauge(
            "rowtide_position",
            "offset",
            "Committed position of a partition: the next offset to read.",
            "topic",
            "partition",
        )
        self.end_offset = self._gauge(
            "rowtide_end_offset",
            "offset",
            "Last known end of a partition: its last offset plus one, also if a transaction is open there.",
            "topic",
            "partition",
        )
        self.lag = self._gauge(
            "rowtide_lag_offsets",
            "offsets",
            "End offset minus committed position: an upper limit of the unread messages, because offsets have gaps.",
            "topic",
            "partition",
        )
        self.partition_bound = self._gauge(
            "rowtide_partition_bound_timestamp_seconds",
            "seconds since the Unix epoch",
            "Rowtime bound of one partition of a relation. The least one holds the relation back.",
            "relation",
            "topic",
            "partition",
        )
        self.bound = self._gauge(
            "rowtide_bound_timestamp_seconds",
            "seconds since the Unix epoch",
            "Rowtime bound of a relation: no earlier row follows.",
            "relation",
        )

        self.rows_in = self._counter(
            "rowtide_rows_in_total",
            "rows",
            "Rows that entered a relation: those of its first steps.",
            "relation",
        )
        self.rows_done = self._counter(
            "rowtide_rows_done_total",
            "rows",
            "Rows that the first steps of a relation have passed on or need no more, or that are applied to a table.",
            "relation",
        )
        self.rows_filtered = self._counter(
            "rowtide_rows_filtered_total",
            "rows",
            "Rows that a filter, such as WHERE, dropped in any step.",
            "relation",
        )
        self.rows_late = self._counter(
            "rowtide_rows_late_total",
            "rows",
            "Late rows: rows below the rowtime bound. Each is an error row.",
            "relation",
        )
        self.rows_revived = self._counter(
            "rowtide_rows_revived_total",
            "rows",
            "Rows below the bound that their partition took while it was idle, which took effect in tables at "
            "that bound.",
            "relation",
        )
        self.rows_rejected = self._counter(
            "rowtide_rows_rejected_total",
            "rows",
            "Rows that could not be processed, in any step. Each is an error row with its reason.",
            "relation",
        )
        self.rows_held = self._gauge(
            "rowtide_rows_held",
            "rows",
            "Rows for which output may still come, in all steps: t-sorts, merges, open windows, pending joins.",
            "relation",
        )
        self.rows_out = self._counter(
            "rowtide_rows_out_total", "rows", "Rows that left a relation: those of its last step.", "relation"
        )
        self.error_rows = self._counter(
            "rowtide_error_rows_total",
            "rows",
            "Error rows by kind (LATE, REJECTED) and by the first word of their reason.",
            "kind",
            "reason",
        )
        self.tray_rows = self._histogram("rowtide_tray_rows", "rows", "Rows of an input tray.", ROWS_BUCKETS)

        self.commits = self._counter("rowtide_commits_total", "commits", "Successful commits.")
        self.commit_seconds = self._histogram(
            "rowtide_commit_duration_seconds",
            "seconds",
            "Duration of a commit, from its barrier to the answer of the database.",
            SECONDS_BUCKETS,
        )
        self.commit_rows = self._histogram(
            "rowtide_commit_rows", "rows", "Rows that a commit wrote, at most one for each key.", ROWS_BUCKETS
        )
        self.last_commit = self._gauge(
            "rowtide_last_commit_timestamp_seconds",
            "seconds since the Unix epoch",
            "Time of the last successful commit.",
        )
        self.retries = self._counter(
            "rowtide_retries_total",
            "attempts",
            "Steps that were repeated because a dependency (source, database) was down or slow.",
            "dependency",
        )

        self.snapshots = self._counter(
            "rowtide_snapshots_total", "snapshots", "Stored snapshots of operator state."
        )
        self.snapshot_bytes = self._gauge(
            "rowtide_snapshot_size_bytes", "bytes", "Stored size of the newest snapshot."
        )
        self.snapshot_seconds = self._histogram(
            "rowtide_snapshot_duration_seconds",
            "seconds",
            "Time that one snapshot has held rows up: to take it, and in the commits that store it.",
            SECONDS_BUCKETS,
        )
        self.recovery_seconds = self._gauge(
            "rowtide_recovery_duration_seconds",
            "seconds",
            "Duration of the last recovery, from the newest snapshot to the committed positions.",
        )

    @property
    def declared(self) -> Sequence[Declaration]:
        """Return every declaration, in the order of the documentation."""
        return tuple(self._declared)

    def _declare(self, kind: str, name: str, unit: str, meaning: str, labels: tuple[str, ...]) -> None:
        self._declared.append(Declaration(name, kind, unit, meaning, labels))

    def _counter(self, name: str, unit: str, meaning: str, *labels: str) -> Counter:
        self._declare("counter", name, unit, meaning, labels)
        return Counter(name, meaning, labels, registry=self.registry)

    def _gauge(self, name: str, unit: str, meaning: str, *labels: str) -> Gauge:
        self._declare("gauge", name, unit, meaning, labels)
        return Gauge(name, meaning, labels, registry=self.registry)

    def _histogram(self, name: str, unit: str, meaning: str, buckets: Sequence[float]) -> Histogram:
        self._declare("histogram", name, unit, meaning, ())
        return Histogram(name, meaning, registry=self.registry, buckets=buckets)
