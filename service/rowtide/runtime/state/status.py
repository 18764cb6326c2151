"""The status of a running pipeline for other threads: health pages, ``positions``, metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from rowtide.checkpoint.ledger import PartitionId, PartitionPosition, Record, is_resubmission
from rowtide.clock import Clock
from rowtide.runtime.ingest.bound_origins import BoundOrigin
from rowtide.runtime.state.tally import RunSummary
from rowtide_connectors.api import OffsetRange

Phase = Literal["starting", "recovering", "following", "running", "waiting", "stopping"]
"""starting: connecting; recovering: replaying up to the committed positions; following: a replica that another one
leads; running: recovered, every dependency there; waiting: a dependency is down; stopping: finishing the commit."""

Role = Literal["leader", "follower"]
"""The roles of replicas. A process that is the only one has none."""


DATABASE = "database"
"""The name under which the database is waited for."""


def broker_of(relation: str) -> str:
    """Return the name under which the broker of a foreign stream is waited for."""
    return f'broker of "{relation}"'


def database_of(relation: str) -> str:
    """Return the name under which the database of a table that is polled is waited for."""
    return f'database of "{relation}"'


def registry_for(relation: str) -> str:
    """Return the name under which the schema registry of a foreign stream is waited for."""
    return f'schema registry of "{relation}"'


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """The position of one partition. ``bound`` is in ms, ``end_offset`` the end of its log as last looked up.

    ``bound_from`` is what has given the bound; None: no bound, or this process has not run the pipeline yet.
    """

    relation: str
    topic: str
    partition: int
    next_offset: int
    start_offset: int
    end_offset: int | None
    bound: int | None
    bound_from: BoundOrigin | None = None


class ReadTo(Protocol):
    """How far a partition is read."""

    @property
    def next_offset(self) -> int:
        """Return the next offset to read."""

    @property
    def end_offset(self) -> int | None:
        """Return the end of its log as last looked up."""


def lag_of(positions: Iterable[ReadTo]) -> int | None:
    """Return the upper limit of unread messages; None while an end is not known."""
    lag = 0
    for each in positions:
        if each.end_offset is None:
            return None
        lag += max(0, each.end_offset - each.next_offset)
    return lag


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One of several replicas. A follower is ``lag_commits`` behind, since ``lag_s`` seconds.

    ``keeps_up``: it would take over without delay.
    """

    role: Role
    takeovers: int = 0
    lag_commits: int = 0
    lag_s: float = 0.0
    keeps_up: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The status at one moment. ``beat`` is on the monotonic clock, other times in ms since the epoch."""

    pipeline: str
    phase: Phase
    since_ms: int
    beat: float
    waits_for: str | None = None
    epoch: int | None = None
    commits: int | None = None
    """The number of the last commit, by any process."""
    last_commit_ms: int | None = None
    positions: tuple[PartitionStatus, ...] = ()
    summary: RunSummary | None = None
    """The commits of this process; None before it runs."""
    pending: tuple[tuple[str, int], ...] = ()
    """The messages that wait for the topic of each foreign stream that pumps write to."""
    replica: ReplicaStatus | None = None
    """None: the process is the only one."""


BoundFrom = Callable[[PartitionPosition], BoundOrigin | None]
"""Returns what has given the bound of a partition."""


def unknown_origin(_position: PartitionPosition) -> None:
    """Return that it is not known: another process has run the pipeline."""


class StatusBoard:
    """The status of one pipeline. The threads that run it write, any thread reads.

    ``changed`` is called with every new phase.
    """

    def __init__(self, pipeline: str, clock: Clock, changed: Callable[[Phase], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._lock = threading.Lock()
        self._ranges: dict[PartitionId, OffsetRange] = {}
        self._down: set[str] = set()
        self._phase: Phase = "starting"
        self._shown = Snapshot(pipeline, "starting", clock.now_ms(), clock.monotonic())

    def status(self) -> Snapshot:
        """Return the current status. Never waits for the main loop."""
        return self._shown

    def beat(self) -> None:
        """Note a turn of the main loop."""
        with self._lock:
            self._shown = replace(self._shown, beat=self._clock.monotonic())

    def enter(self, phase: Phase) -> None:
        """Note the current phase. Waits for a dependency may begin and end within a phase."""
        with self._lock:
            self._phase = phase
            self._show()

    def waiting(self, dependency: str, is_down: bool) -> None:
        """Note that a dependency is waited for, or is back."""
        with self._lock:
            if is_down:
                self._down.add(dependency)
            else:
                self._down.discard(dependency)
            self._show()

    def claimed(self, epoch: int) -> None:
        """Note the epoch."""
        with self._lock:
            self._shown = replace(self._shown, epoch=epoch)

    def begins_at(self, record: Record) -> None:
        """Note the committed positions and the time of the commit, by any process."""
        with self._lock:
            self._shown = replace(self._shown, commits=record.commits, last_commit_ms=record.committed_at_ms)
        self.place(record.partition_positions)

    def replicates(self, replica: ReplicaStatus) -> None:
        """Note the role of this process, and how far a follower is behind."""
        with self._lock:
            self._shown = replace(self._shown, replica=replica)

    def tell(self, summary: RunSummary) -> None:
        """Note the commits of this process so far."""
        with self._lock:
            self._shown = replace(self._shown, summary=summary)

    def sent(self, relation: str, pending: int) -> None:
        """Note how many messages wait for the topic of a foreign stream; called by any thread."""
        with self._lock:
            held = {**dict(self._shown.pending), relation: pending}
            self._shown = replace(self._shown, pending=tuple(sorted(held.items())))

    def committed(self, partition_positions: Iterable[PartitionPosition], bound_from: BoundFrom) -> None:
        """Note the positions after a commit of this process."""
        with self._lock:
            commits = None if self._shown.commits is None else self._shown.commits + 1
            self._shown = replace(self._shown, commits=commits, last_commit_ms=self._clock.now_ms())
        self.place(partition_positions, bound_from)

    def place(
        self, partition_positions: Iterable[PartitionPosition], bound_from: BoundFrom = unknown_origin
    ) -> None:
        """Note committed positions, and what has given their bounds."""
        with self._lock:
            held = {(each.relation, each.partition): each for each in self._shown.positions}
            for each in partition_positions:
                if is_resubmission(each.place):
                    continue
                held[each.place] = PartitionStatus(
                    each.relation,
                    each.topic,
                    each.partition,
                    each.next_offset,
                    each.start_offset,
                    self._log_end(each.place),
                    each.bound,
                    bound_from(each),
                )
            self._shown = replace(self._shown, positions=tuple(held[place] for place in sorted(held)))

    def ranges(self) -> dict[PartitionId, OffsetRange]:
        """Return the ranges of partitions as last looked up."""
        with self._lock:
            return dict(self._ranges)

    def down(self) -> frozenset[str]:
        """Return the dependencies that are waited for."""
        with self._lock:
            return frozenset(self._down)

    def looked_up(self, ranges: Mapping[PartitionId, OffsetRange]) -> None:
        """Note the ranges of partitions."""
        with self._lock:
            self._ranges.update(ranges)
            self._shown = replace(
                self._shown,
                positions=tuple(
                    replace(each, end_offset=self._log_end((each.relation, each.partition)))
                    for each in self._shown.positions
                ),
            )

    def _log_end(self, partition: PartitionId) -> int | None:
        return self._ranges[partition].log_end if partition in self._ranges else None

    def _show(self) -> None:
        phase: Phase = "waiting" if self._down else self._phase
        waits_for = ", ".join(sorted(self._down)) or None
        if phase != self._shown.phase:
            self._changed(phase)
        if (phase, waits_for) != (self._shown.phase, self._shown.waits_for):
            since = self._shown.since_ms if phase == self._shown.phase else self._clock.now_ms()
            self._shown = replace(self._shown, phase=phase, since_ms=since, waits_for=waits_for)
