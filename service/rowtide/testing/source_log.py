"""The input log of a scenario, which replaces a broker.

It survives crashes, as Kafka does: it delivers uncommitted input again, with the
same offsets and in the same order. Explicit bounds have their place in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowtide.flow.table_changes import LastStatement
from rowtide.operators.contract import Fault
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound


@dataclass(frozen=True, slots=True, eq=False)
class LogRows:
    """The input of one step to a partition.

    ``tray`` has the accepted rows, with offsets as counters; ``faults`` are the rejected ones. Their
    origins are set when the entry is fed to a flow.
    """

    relation: str
    partition: int
    tray: Tray
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """An explicit bound of one or more partitions; ``taken``: the engine set it because they were idle."""

    relation: str
    partitions: tuple[int, ...]
    bound: Bound
    taken: bool = False


@dataclass(frozen=True, slots=True)
class Changed:
    """The start of the pipeline's next version."""

    version: int


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """What a sent statement has changed in engine tables."""

    statement: LastStatement
    changes: Mapping[str, Tray]


LogEntry = LogRows | Bounds | Changed | Sent


@dataclass(slots=True)
class SourceLog:
    """The input of all steps so far."""

    entries: list[LogEntry] = field(default_factory=list)
    _next_offset: dict[tuple[str, int], int] = field(default_factory=dict)
    _raw: dict[tuple[str, int], dict[int, bytes | None]] = field(default_factory=dict)

    def take_offsets(self, relation: str, partition: int, count: int) -> int:
        """Return the first of ``count`` new offsets of a partition."""
        first = self._next_offset.get((relation, partition), 0)
        self._next_offset[relation, partition] = first + count
        return first

    def keep_raw(self, relation: str, partition: int, first: int, messages: Sequence[bytes | None]) -> None:
        """Store the raw messages, for error rows."""
        held = self._raw.setdefault((relation, partition), {})
        held.update(enumerate(messages, start=first))

    def raw(self, relation: str, partition: int, offset: int) -> bytes | None:
        """Return a raw message; None if the row came from no message or was not decoded."""
        return self._raw.get((relation, partition), {}).get(offset)
