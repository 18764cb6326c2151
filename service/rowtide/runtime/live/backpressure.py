"""Backpressure: partitions that are ahead wait for those that lag, and the log names the slowest.

Rows of a partition that is ahead in rowtime are held until the others catch
up. If too many rows are held, the partitions ahead of the slowest one are
paused, so that their rows stay in the log and not in memory. The slowest
partition of each group of streams that meet in a pump is never paused, so the
pipeline makes progress. A group is paused only for the rows that it holds
itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import structlog

from rowtide.checkpoint.ledger import PartitionId, is_resubmission
from rowtide.clock import Clock
from rowtide.plan.nodes import Node, Source
from rowtide.plan.plan import Pump
from rowtide.rowtime.bound import EARLIEST
from rowtide.runtime.ingest.inbox import Pausable
from rowtide.runtime.state.context import MAX_HELD_BYTES, MAX_HELD_ROWS
from rowtide.runtime.state.pipeline_state import PipelineState

SAY_AGAIN_S = 60.0
"""Interval of log lines that name the partition that holds the pipeline back."""

_log = structlog.get_logger("rowtide")


class Backpressure:
    """Balances the partitions of one pipeline, once a turn."""

    def __init__(
        self,
        pumps: Sequence[Pump],
        clock: Clock,
        max_held_rows: int = MAX_HELD_ROWS,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self._groups = meeting_streams(pumps)
        self._clock = clock
        self._max_held_rows = max_held_rows
        self._max_held_bytes = max_held_bytes
        self._paused: dict[str, frozenset[int]] = {}
        self._pausing: set[int] = set()
        self._blocked_since: dict[PartitionId, float] = {}
        self._said: dict[PartitionId, float] = {}

    @property
    def paused(self) -> Mapping[str, frozenset[int]]:
        """The partitions of each relation that are paused now."""
        return self._paused

    def balance(self, state: PipelineState, inbox: Pausable, done: Collection[PartitionId] = ()) -> None:
        """Pause or resume partitions by what is held, and name those that hold the pipeline back.

        ``done`` are partitions that are read as far as wanted: no row waits for them.
        """
        bounds = {place: bound for place, bound in state.flow.bounds().items() if not is_resubmission(place)}
        self._choose(state)
        wanted = {place: bound for place, bound in bounds.items() if place not in done}
        paused = self._ahead(wanted) if self._pausing else {}
        if paused != self._paused:
            self._paused = paused
            inbox.pause(paused)
        self._name_the_slowest(state.held(), bounds)

    def _choose(self, state: PipelineState) -> None:
        """Choose the groups whose partitions are paused: those that hold more than their share of a limit.

        Only rows that wait for a slower input count, because rows of open windows are held however
        evenly the partitions are read. A group resumes when it is down to half its share.
        """
        ahead = state.flow.ahead()
        rows = [sum(held for sources, held in ahead.items() if sources & group) for group in self._groups]
        sizes = [max(map(state.mean_bytes, group), default=0.0) for group in self._groups]
        weighed = [int(count * size) for count, size in zip(rows, sizes, strict=True)]
        self._pausing = self._beyond(rows, self._max_held_rows) | self._beyond(weighed, self._max_held_bytes)

    def _beyond(self, held: Sequence[int], limit: int) -> set[int]:
        """Return the groups that hold more than their share of ``limit``, or are not down to half of it yet."""
        share = limit // max(1, len(self._groups))
        too_much = sum(held) > limit
        return {
            at
            for at, amount in enumerate(held)
            if (too_much and amount > share) or (at in self._pausing and amount > share // 2)
        }

    def _ahead(self, bounds: Mapping[PartitionId, int]) -> dict[str, frozenset[int]]:
        ahead: dict[str, set[int]] = {}
        for at in self._pausing:
            group = self._groups[at]
            places = {place: bound for place, bound in bounds.items() if place[0] in group}
            least = min(places.values(), default=EARLIEST)
            for (relation, partition), bound in places.items():
                if bound > least:
                    ahead.setdefault(relation, set()).add(partition)
        return {relation: frozenset(partitions) for relation, partitions in ahead.items()}

    def _name_the_slowest(self, held: int, bounds: Mapping[PartitionId, int]) -> None:
        """Report once a minute which partition has kept the others waiting for a minute or more."""
        now = self._clock.monotonic()
        slowest: dict[PartitionId, tuple[int, int]] = {}
        if held:
            for group in self._groups:
                ranked = sorted((bound, place) for place, bound in bounds.items() if place[0] in group)
                if len(ranked) > 1 and ranked[0][0] < ranked[1][0]:
                    slowest[ranked[0][1]] = (ranked[0][0], ranked[1][0])
        self._blocked_since = {place: self._blocked_since.get(place, now) for place in slowest}
        for place, (bound, following) in slowest.items():
            since = max(self._blocked_since[place], self._said.get(place, 0.0))
            if now - since >= SAY_AGAIN_S:
                self._said[place] = now
                _log.warning(
                    "partition_holds_back",
                    relation=place[0],
                    partition=place[1],
                    bound_ms=None if bound == EARLIEST else bound,
                    next_bound_ms=following,
                    held_rows=held,
                    since_s=round(now - self._blocked_since[place]),
                    hint="It has no newer rows. `rowtide explain --why-not` says what lets the others continue.",
                )


def meeting_streams(pumps: Sequence[Pump]) -> list[frozenset[str]]:
    """Return the groups of source relations whose rows can meet, being read by one pump."""
    groups: list[frozenset[str]] = []
    for pump in pumps:
        read = frozenset(_sources(pump.node))
        touching = [group for group in groups if group & read]
        groups = [group for group in groups if not group & read]
        groups.append(read.union(*touching))
    return groups


def _sources(node: Node) -> set[str]:
    found = {node.relation} if isinstance(node, Source) else set()
    for each in node.inputs:
        found |= _sources(each)
    return found
