"""Bounds from what the broker's clock has shown (docs/sql/semantics.md#broker-time).

On a topic with ``message.timestamp.type=LogAppendTime`` a message is stamped
when it is appended. So if a partition is read to the end of its log after some
partition of the topic has shown append time T, no earlier message can follow in
it, and rows need not wait for it. While a transaction is open, it cannot be read
to there. This holds if rows have the message timestamp as rowtime: a promotion
starts another clock. If the clocks of the brokers differ, set
``append_time 'OFF'``, and rows wait.

The decision is an explicit bound, logged with the commit like those of idle
partitions. Recovery and replay obey the log and do not ask the broker.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rowtide.checkpoint.ledger import Decision, PartitionId, is_resubmission
from rowtide.plan.nodes import BoundPolicy, Node, Promote, Source, below_same_rowtime
from rowtide.plan.plan import Plan
from rowtide.rowtime.bound import EARLIEST

APPEND_TIME = "APPEND_TIME"
"""The kind of these decisions."""

LOOK_UP_S = 1.0
"""Interval of look-ups of such topics. A quiet partition holds rows back for about twice as long."""


class AppendTimes:
    """Decides the bounds of quiet partitions of append-time topics. Called by the main thread.

    Messages may arrive during a look-up. So it proves only a bound of the greatest append time that was
    known before it began. The end of the previous look-up counts as its beginning.

    Args:
      topics: whether the topic of each stream has append times. Other streams follow another clock.
    """

    def __init__(self, topics: Mapping[str, bool]) -> None:
        # Other threads set single entries and never add one.
        self._stamped = dict(topics)
        self._seen = dict.fromkeys(topics, EARLIEST)
        self._before_look_up = dict(self._seen)
        self._proved: dict[str, Mapping[PartitionId, tuple[int, int]]] = {each: {} for each in topics}

    def depends_on(self, relation: str) -> bool:
        """Return whether it matters who stamps the messages of a stream."""
        return relation in self._stamped

    def watches(self, relation: str) -> bool:
        """Return whether a stream's topic has append times."""
        return self._stamped.get(relation, False)

    def stamped_by(self, relation: str, *, broker: bool) -> None:
        """Note who stamps the messages of a stream now; may be called by another thread."""
        if broker != self._stamped[relation]:
            self._proved[relation] = {}
            self._seen[relation] = self._before_look_up[relation] = EARLIEST
            self._stamped[relation] = broker

    def note_arrival(self, relation: str, timestamps: NDArray[np.int64]) -> None:
        """Note the timestamps of one or more messages that have arrived."""
        if self.watches(relation):
            self._seen[relation] = max(self._seen[relation], int(timestamps.max()))

    def look_up(self, relation: str, log_ends: Mapping[PartitionId, int]) -> None:
        """Record the current ends of the logs of a stream's partitions; may be called by another thread."""
        if self.watches(relation):
            shown = self._before_look_up[relation]
            self._proved[relation] = {place: (end, shown) for place, end in log_ends.items()}
            self._before_look_up[relation] = self._seen[relation]

    def decide(
        self, positions: Mapping[PartitionId, int], bounds: Mapping[PartitionId, int]
    ) -> list[Decision]:
        """Return the bounds that partitions take now and that are greater than before, in order."""
        decided = []
        proved = [each for held in self._proved.values() for each in held.items()]
        for place, (end, shown) in sorted(proved):
            if place not in positions or is_resubmission(place):
                continue
            if end <= positions[place] and bounds.get(place, EARLIEST) < shown:
                decided.append(Decision(APPEND_TIME, *place, positions[place], shown))
        return decided


def by_message_time(plan: Plan) -> frozenset[str]:
    """Return the foreign streams whose rows have the message timestamp as rowtime for a reader."""
    read: set[str] = set()
    promoted: set[str] = set()

    def visit(node: Node) -> None:
        if isinstance(node, Source):
            read.add(node.relation)
        if isinstance(node, Promote) and node.bounds in (BoundPolicy.PASS, BoundPolicy.DROP):
            below = below_same_rowtime(node.input)
            if isinstance(below, Source):
                promoted.add(below.relation)
        for each in node.inputs:
            visit(each)

    for pump in plan.pumps:
        visit(pump.node)
    foreign = {stream.name for stream in plan.foreign_streams}
    return frozenset((read & foreign) - promoted)
