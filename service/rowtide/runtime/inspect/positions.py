"""Where a pipeline's partitions are in the ledger and how far their logs reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowtide.checkpoint.ledger import PartitionId, Record, is_resubmission
from rowtide_connectors.api import TopicSource
from rowtide_connectors.errors import GoneError, UnavailableError


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One partition: the committed position, the end of its log (None: not known), its bound in ms."""

    relation: str
    topic: str
    partition: int
    next_offset: int
    start_offset: int
    end: int | None
    bound_ms: int | None

    @property
    def lag(self) -> int | None:
        """Return the most messages that can be behind: offsets have holes."""
        return None if self.end is None else max(0, self.end - self.next_offset)


def standing_of(record: Record, sources: Mapping[str, TopicSource]) -> list[PartitionProgress]:
    """Return where topics' partitions stand, by stream and partition; a broker that is down leaves ends out."""
    ends: dict[PartitionId, int] = {}
    for relation, source in sources.items():
        try:
            ranges = source.ranges()
        except (UnavailableError, GoneError):
            # What is committed is the answer; how far the log reaches is an addition to it.
            continue
        ends.update({(relation, partition): held.end for partition, held in ranges.items()})
    return [
        PartitionProgress(
            each.relation,
            each.topic,
            each.partition,
            each.next_offset,
            each.start_offset,
            ends.get(each.place),
            each.bound,
        )
        for each in sorted(record.standings, key=lambda each: each.place)
        if not is_resubmission(each.place)
    ]
