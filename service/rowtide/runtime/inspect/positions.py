"""The positions of a pipeline's partitions in the ledger, and the ends of their logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowtide.checkpoint.ledger import PartitionId, Record, is_resubmission
from rowtide.runtime.topics import adopt_topics
from rowtide_connectors.api import TopicSource
from rowtide_connectors.errors import GoneError, MismatchError, UnavailableError
from rowtide_connectors.several import place_of


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
        """Return the upper limit of unread messages. It is not a count, because offsets have gaps."""
        return None if self.end is None else max(0, self.end - self.next_offset)


def progress_of(record: Record, sources: Mapping[str, TopicSource]) -> list[PartitionProgress]:
    """Return the positions by stream and partition. If a broker is down, ends are missing."""
    adopt_topics(sources, record)
    ends: dict[PartitionId, int] = {}
    for relation, source in sources.items():
        try:
            ranges = source.ranges()
        except (UnavailableError, GoneError, MismatchError):
            # The answer is what is committed. The end of the log is additional.
            continue
        ends.update({(relation, partition): held.log_end for partition, held in ranges.items()})
    return [
        PartitionProgress(
            each.relation,
            *place_of(each.topic, each.partition),
            each.next_offset,
            each.start_offset,
            ends.get(each.place),
            each.bound,
        )
        for each in sorted(record.partition_positions, key=lambda each: each.place)
        if not is_resubmission(each.place)
    ]
