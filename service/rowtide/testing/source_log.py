"""The input log that is in for the brokers of a scenario.

It outlives crashes, as Kafka does: whatever was not committed is delivered
again from here, with the same offsets and in the same order. Explicit bounds
stand in it at the place where they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rowtide.operators.contract import Fault
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound


@dataclass(frozen=True, slots=True, eq=False)
class LogRows:
    """What one step let into a partition.

    ``tray`` holds what was accepted, its counters being offsets; ``faults`` is what its entrance
    rejected. Origins are filled in when it is fed.
    """

    relation: str
    partition: int
    tray: Tray
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """An explicit bound of one or more partitions, given at once; ``taken``: while they were idle."""

    relation: str
    partitions: tuple[int, ...]
    bound: Bound
    taken: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """Statements made the pipeline's next version; ``at`` is the virtual wall time (ms)."""

    version: int
    at: int


LogEntry = LogRows | Bounds | Changed


@dataclass(slots=True)
class SourceLog:
    """Everything that the steps have let in so far."""

    entries: list[LogEntry] = field(default_factory=list)
    _next_offset: dict[tuple[str, int], int] = field(default_factory=dict)
    _raw: dict[tuple[str, int], dict[int, bytes | None]] = field(default_factory=dict)

    def take_offsets(self, relation: str, partition: int, count: int) -> int:
        """Return the first of ``count`` new offsets of a partition."""
        first = self._next_offset.get((relation, partition), 0)
        self._next_offset[relation, partition] = first + count
        return first

    def keep_raw(self, relation: str, partition: int, first: int, messages: Sequence[bytes | None]) -> None:
        """Remember messages as they came, for error rows."""
        held = self._raw.setdefault((relation, partition), {})
        held.update(enumerate(messages, start=first))

    def raw(self, relation: str, partition: int, offset: int) -> bytes | None:
        """Return a message as it came; None where there was none, or the row was not decoded."""
        return self._raw.get((relation, partition), {}).get(offset)
