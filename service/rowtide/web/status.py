"""The interface of a running pipeline for the web.

Structural types only: the runtime is below the web and imports nothing from
here. Its frozen values match because they have these attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rowtide.runtime.ingest.bound_origins import BoundOrigin
from rowtide.runtime.state.status import Phase, Role


class PositionStatus(Protocol):
    """The position and bound of one partition of one relation."""

    @property
    def relation(self) -> str:
        """Return the relation's catalog name."""

    @property
    def topic(self) -> str:
        """Return the topic."""

    @property
    def partition(self) -> int:
        """Return the partition."""

    @property
    def next_offset(self) -> int:
        """Return the committed position: the next offset to read."""

    @property
    def start_offset(self) -> int:
        """Return the first offset of the pipeline."""

    @property
    def end_offset(self) -> int | None:
        """Return the partition's end at the last check; None before the first check."""

    @property
    def bound(self) -> int | None:
        """Return the partition's rowtime bound, ms; None before its first row."""

    @property
    def bound_from(self) -> BoundOrigin | None:
        """Return what has given the bound; None: no bound, or not known before the pipeline runs."""


class Summary(Protocol):
    """The progress of a run."""

    @property
    def read(self) -> int:
        """Return the messages that were read."""

    @property
    def held(self) -> int:
        """Return the rows that wait for output."""

    @property
    def written(self) -> Mapping[str, int]:
        """Return the rows that were written, by table."""

    @property
    def late(self) -> Mapping[str, int]:
        """Return the late rows, by relation."""

    @property
    def rejected(self) -> Mapping[str, int]:
        """Return the rejected rows, by relation."""

    @property
    def created(self) -> Sequence[str]:
        """Return the tables that were created."""

    def fields(self) -> Mapping[str, object]:
        """Return it as plain values."""


class ReplicaProgress(Protocol):
    """The role of one of several replicas, and how far it is behind."""

    @property
    def role(self) -> Role:
        """Return the role."""

    @property
    def takeovers(self) -> int:
        """Return the take-overs that this process has seen, its own included."""

    @property
    def lag_commits(self) -> int:
        """Return how many commits a follower has not processed yet."""

    @property
    def lag_s(self) -> float:
        """Return the seconds since a follower was at the newest commit."""

    @property
    def keeps_up(self) -> bool:
        """Return whether a follower would take over without delay."""


class PipelineStatus(Protocol):
    """The status of a pipeline: consistent and immutable."""

    @property
    def pipeline(self) -> str:
        """Return the pipeline's name."""

    @property
    def phase(self) -> Phase:
        """Return the phase of the pipeline."""

    @property
    def since_ms(self) -> int:
        """Return when the phase began, ms since the Unix epoch."""

    @property
    def waits_for(self) -> str | None:
        """Return what a waiting pipeline waits for, in words, such as ``broker localhost:9092``."""

    @property
    def epoch(self) -> int | None:
        """Return the fencing epoch; None before the first answer of the checkpoint."""

    @property
    def commits(self) -> int | None:
        """Return the number of the last commit; None before the first answer of the checkpoint."""

    @property
    def last_commit_ms(self) -> int | None:
        """Return when the pipeline was last committed, ms since the Unix epoch; None before the first."""

    @property
    def positions(self) -> Sequence[PositionStatus]:
        """Return the committed positions, by relation, topic and partition."""

    @property
    def pending(self) -> Sequence[tuple[str, int]]:
        """Return how many messages wait for the topic of each foreign stream that pumps write to."""

    @property
    def replica(self) -> ReplicaProgress | None:
        """Return the role of this replica; None: the process is the only one."""

    @property
    def summary(self) -> Summary | None:
        """Return the progress of this process; None before it runs."""

    @property
    def beat(self) -> float:
        """Return the time of the main loop's last turn, in seconds of the process's monotonic clock.

        The loop also runs while it waits, so an old beat means that it hangs.
        """


class Status(Protocol):
    """A running pipeline, seen from another thread."""

    def status(self) -> PipelineStatus:
        """Return the status at once: never waits for the main loop, never raises."""


class JsonAnswer(Protocol):
    """An answer that can be written as JSON."""

    def to_json(self) -> Mapping[str, object]:
        """Return it as plain values."""
