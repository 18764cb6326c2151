"""Partitions that a topic gets while its pipeline runs (docs/sql/semantics.md#new-partitions).

Reading threads see them when they look up how far partitions reach; the main
thread lets them in between two turns. That a partition joined, and behind
which bounds it may not go, is a decision of the log; where it is read from is
its place in the positions. Both are committed with the first commit after it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from rowtide.checkpoint.ledger import PartitionId
from rowtide_connectors.api import OffsetRange


class Newcomers:
    """The partitions that have been seen and are not read yet; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[PartitionId, int] = {}

    def look_up(self, relation: str, ranges: Mapping[int, OffsetRange]) -> None:
        """Note the partitions of a topic; known ones are left out when they are taken."""
        with self._lock:
            for partition, held in ranges.items():
                self._seen.setdefault((relation, partition), held.earliest)

    def take(self, known: Collection[PartitionId]) -> dict[PartitionId, int]:
        """Return those that are not ``known`` with the offset to begin at, in order of their numbers."""
        with self._lock:
            seen, self._seen = self._seen, {}
        return {place: seen[place] for place in sorted(seen) if place not in known}
