"""Bounds from what the broker's clock has shown (docs/sql/semantics.md#broker-time).

On a topic with ``message.timestamp.type=LogAppendTime`` a message is stamped
when it is appended. So if a partition is read to its end after some partition
of the topic has shown append time T, no earlier message can follow in it, and
rows need not wait for it. This holds if rows have the message timestamp as
rowtime: a promotion starts another clock. If the clocks of the brokers differ,
set ``append_time 'OFF'``, and rows wait.

The decision is an explicit bound, logged with the commit like those of idle
partitions. Recovery and replay obey the log and do not ask the broker.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
    """

    def __init__(self, relations: Collection[str]) -> None:
        self._seen = dict.fromkeys(relations, EARLIEST)
        self._before_look_up = dict(self._seen)
        self._proved: dict[PartitionId, tuple[int, int]] = {}

    def watches(self, relation: str) -> bool:
        """Return whether a stream's topic has append times."""
        return relation in self._seen

    def hear(self, relation: str, timestamps: NDArray[np.int64]) -> None:
        """Note the timestamps of one or more messages that have arrived."""
        if relation in self._seen:
            self._seen[relation] = max(self._seen[relation], int(timestamps.max()))

    def look_up(self, relation: str, ends: Mapping[PartitionId, int]) -> None:
        """Record the current ends of a stream's partitions; may be called by another thread."""
        if relation in self._seen:
            shown = self._before_look_up[relation]
            self._proved.update({place: (end, shown) for place, end in ends.items()})
            self._before_look_up[relation] = self._seen[relation]

    def decide(
        self, positions: Mapping[PartitionId, int], bounds: Mapping[PartitionId, int]
    ) -> list[Decision]:
        """Return the bounds that partitions take now and that are greater than before, in order."""
        decided = []
        for place, (end, shown) in sorted(self._proved.items()):
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
        if isinstance(node, Promote) and node.bounds is not BoundPolicy.MAP:
            below = below_same_rowtime(node.input)
            if isinstance(below, Source):
                promoted.add(below.relation)
        for each in node.inputs:
            visit(each)

    for pump in plan.pumps:
        visit(pump.node)
    foreign = {stream.name for stream in plan.foreign_streams}
    return frozenset((read & foreign) - promoted)
