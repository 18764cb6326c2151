"""Partitions that are added to a topic while its pipeline runs (docs/sql/semantics.md#new-partitions).

Reading threads detect them when they look up the ends of partitions. The main
thread adds them between two turns. The bounds at which a partition joins are
decisions of the log; its first offset is in the positions. Both are committed
with the next commit.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from rowtide.checkpoint.ledger import PartitionId
from rowtide_connectors.api import OffsetRange


class JoiningPartitions:
    """The partitions that were detected and are not read yet. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[PartitionId, int] = {}

    def look_up(self, relation: str, ranges: Mapping[int, OffsetRange]) -> None:
        """Note the partitions of a topic. ``take`` leaves out known ones."""
        with self._lock:
            for partition, held in ranges.items():
                self._seen.setdefault((relation, partition), held.earliest)

    def take(self, known: Collection[PartitionId]) -> dict[PartitionId, int]:
        """Return the partitions that are not ``known`` with their first offsets, by number."""
        with self._lock:
            seen, self._seen = self._seen, {}
        return {place: seen[place] for place in sorted(seen) if place not in known}
