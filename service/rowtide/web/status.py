"""What the web asks of a running pipeline.

Structural types only: the runtime stands below the web and imports nothing from
here. Its own frozen values fit by having these attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rowtide.runtime.inspect.status import Phase


class PositionStatus(Protocol):
    """Where one partition of one relation stands."""

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
    def end_offset(self) -> int | None:
        """Return the partition's end when it was last looked up; None before."""

    @property
    def bound(self) -> int | None:
        """Return the partition's rowtime bound, ms; None before its first row."""


class Summary(Protocol):
    """What a run has done so far."""

    def fields(self) -> Mapping[str, object]:
        """Return it as plain values."""


class PipelineStatus(Protocol):
    """A snapshot of a pipeline: consistent in itself, never changed after it was given."""

    @property
    def pipeline(self) -> str:
        """Return the pipeline's name."""

    @property
    def phase(self) -> Phase:
        """Return what the pipeline is doing."""

    @property
    def since_ms(self) -> int:
        """Return when it began to, ms since the Unix epoch."""

    @property
    def waits_for(self) -> str | None:
        """Return what a waiting pipeline waits for, in words, such as ``broker localhost:9092``."""

    @property
    def epoch(self) -> int | None:
        """Return the fencing epoch; None before the checkpoint has answered."""

    @property
    def last_commit_ms(self) -> int | None:
        """Return when the pipeline was last committed, ms since the Unix epoch; None before the first."""

    @property
    def positions(self) -> Sequence[PositionStatus]:
        """Return the committed positions, by relation, topic and partition."""

    @property
    def summary(self) -> Summary | None:
        """Return what this process has committed; None before it runs."""

    @property
    def beat(self) -> float:
        """Return the time of the main loop's last turn, in seconds of the process's monotonic clock.

        The loop also turns while it waits, so an old beat means that it hangs.
        """


class Status(Protocol):
    """A running pipeline, seen from another thread."""

    def status(self) -> PipelineStatus:
        """Return a snapshot at once: never waits for the main loop, never raises."""


class JsonAnswer(Protocol):
    """An answer that can be written as JSON."""

    def to_json(self) -> Mapping[str, object]:
        """Return it as plain values."""


WhyNot = Callable[[str], JsonAnswer]
"""Says why a relation (its catalog name) is silent; waits for the main loop."""
