"""The bounds that idle streams take from the streams that they meet (docs/sql/streams.md).

Two streams meet at an operator that reads both: a join, a UNION, a model. If
one of them is idle, the operator would wait for it in vain. So the idle stream
takes the bound that the other side has there, converted back to the clock in
which its own rows are judged. With several meetings it takes the least bound.
It does not follow another idle stream.

Nothing here changes the flow or reads a clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rowtide.flow.program import Program
from rowtide.flow.why_not import Enquiry
from rowtide.plan.nodes import Source
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound


class Meetings:
    """The meetings of a program as it is now.

    Args:
      bounds: the last bound of each step.
    """

    def __init__(self, program: Program, bounds: Mapping[int, Bound], enquiry: Enquiry) -> None:
        self._program = program
        self._bounds = bounds
        self._enquiry = enquiry
        self._feeders: dict[int, list[int]] = {}
        self._streams: list[frozenset[str]] = []
        for at, step in enumerate(program.steps):
            is_open = isinstance(step.node, Source) and bounds[at].rowtime != LATEST
            own = {step.node.relation} if is_open else ()
            before = (self._streams[feeder] for feeder in self._feeders.get(at, ()))
            self._streams.append(frozenset(own).union(*before))
            for target, _ in step.targets:
                self._feeders.setdefault(target, []).append(at)

    def taken(self, idle: Collection[str], of: Collection[str] | None = None) -> dict[tuple[str, int], int]:
        """Return the bounds (ms) that partitions of ``idle`` relations take now; with ``of``, only of these."""
        taken: dict[tuple[str, int], int] = {}
        for meeting in self._program.meetings:
            feeders = self._feeders[meeting]
            for relation in sorted(self._streams[meeting].intersection(idle if of is None else of)):
                others = [
                    self._bounds[feeder].rowtime
                    for feeder in feeders
                    if relation not in self._streams[feeder] and not self._streams[feeder].issubset(idle)
                ]
                reached = min(others, default=LATEST)
                if reached == LATEST:
                    continue
                own = [feeder for feeder in feeders if relation in self._streams[feeder]]
                needs = _needs(self._enquiry, own, relation, reached)
                for place in self._program.entrances:
                    if place[0] == relation:
                        taken[place] = min(taken.get(place, LATEST), needs.get(place[1], EARLIEST))
        return {place: bound for place, bound in taken.items() if bound != EARLIEST}


def _needs(enquiry: Enquiry, feeders: list[int], relation: str, reached: int) -> dict[int, int]:
    """Return the bounds that partitions need for ``feeders`` to reach ``reached`` (ms).

    A partition that already has this bound is left out. If no bound of the partition is sufficient,
    as after a promotion of merged rows, it is EARLIEST.
    """
    found: dict[int, int] = {}
    if reached == EARLIEST:
        return found
    for feeder in feeders:
        for keeper in enquiry.keepers(feeder, reached):
            if keeper.relation == relation:
                needs = keeper.needs if keeper.needs is not None and keeper.takes_bounds else EARLIEST
                found[keeper.partition] = min(found.get(keeper.partition, LATEST), needs)
    return found
