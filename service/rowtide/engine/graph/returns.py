"""What loops back at once: LIMITED and RECORDED links where the rows of all sources come in one order.

Where a row goes through the whole graph before the next one, nothing waits at
the target of a loop: what was sent into it has its turn when all else up to now
is worked off, as a row of the present rowtime that has just come in. So its
stamp follows from the order of the rows alone (docs/decisions/0005).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from rowtide.engine.errors import ModelError
from rowtide.engine.graph.graph import LoopShape
from rowtide.engine.graph.stamp import Given, Stamp

MOST_ROUNDS = 100_000
"""Rows that come back at one rowtime after one row: more than any has to say, few enough to see it hangs."""


class Returned(NamedTuple):
    """A row in a link, in the order in which they come back."""

    sent: Stamp
    place: int
    number: int
    link: str
    row: object


class Returns:
    """What is in all links of a graph that come back at once."""

    def __init__(self) -> None:
        self._waiting: list[Returned] = []
        self._links = 0
        self._number = 0

    def link(self, shape: LoopShape) -> Returning:
        """Give the writer's end of another link."""
        self._links += 1
        return Returning(self, shape, self._links)

    def add(self, sent: Stamp, place: int, link: str, row: object) -> None:
        """Take a row in."""
        self._number += 1
        heappush(self._waiting, Returned(sent, place, self._number, link, row))

    def one_by_one(self) -> Iterator[Returned]:
        """Take rows out until none is left; what each makes is to be worked off before the next one.

        Raises:
          ModelError: it goes round without end.
        """
        rounds = 0
        while self._waiting:
            returned = heappop(self._waiting)
            rounds += 1
            if rounds > MOST_ROUNDS:
                at = returned.sent.rowtime
                raise ModelError(
                    f'looping link "{returned.link}" goes round without end at rowtime {at}',
                    hint="What comes back at once has to come to an end; a CONSISTENT link lets time pass.",
                )
            yield returned

    def snapshot(self) -> Any:
        """Give what waits as plain values."""
        return self._number, [(tuple(each.sent), *each[1:]) for each in sorted(self._waiting, key=_turn)]

    def restore(self, state: Any) -> None:
        """Take over what ``snapshot`` gave."""
        self._number, waiting = state
        self._waiting = [Returned(Stamp(*sent), *rest) for sent, *rest in waiting]
        heapify(self._waiting)


class Returning:
    """The writer's end of one of these links."""

    def __init__(self, returns: Returns, shape: LoopShape, place: int) -> None:
        self._returns = returns
        self._place = place
        self.shape = shape

    def put(self, given: Given) -> None:
        """Add a row."""
        self._returns.add(given.stamp, self._place, self.shape.name, given.row)

    def promise(self, _bound: Stamp) -> bool:
        """Take note of nothing: who reads it waits for the sources alone."""
        return False


def _turn(returned: Returned) -> tuple[Stamp, int, int]:
    return returned[:3]
