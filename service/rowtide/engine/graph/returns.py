"""Rows that loop back at once: LIMITED and RECORDED links if the rows of all sources have one order.

If a row goes through the whole graph before the next one, nothing waits at the
target of a loop: a row in the loop is handled after everything else up to now, as
a row of the current rowtime that has just arrived. So its stamp depends only on
the order of the rows (docs/decisions/0005).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from rowtide.engine.errors import ModelError
from rowtide.engine.graph.graph import LoopShape
from rowtide.engine.graph.stamp import Given, Stamp

MOST_ROUNDS = 100_000
"""The most rows that loop back at one rowtime after one row: more than useful, fewer than an endless loop."""


class Returned(NamedTuple):
    """A row in a link; the order is that in which rows come back."""

    sent: Stamp
    place: int
    number: int
    link: str
    row: object


class Returns:
    """The rows in all links of a graph that come back at once."""

    def __init__(self) -> None:
        self._waiting: list[Returned] = []
        self._links = 0
        self._number = 0

    def link(self, shape: LoopShape) -> Returning:
        """Return the end of another link for its writer."""
        self._links += 1
        return Returning(self, shape, self._links)

    def add(self, sent: Stamp, place: int, link: str, row: object) -> None:
        """Add a row."""
        self._number += 1
        heappush(self._waiting, Returned(sent, place, self._number, link, row))

    def one_by_one(self) -> Iterator[Returned]:
        """Yield and remove rows until none is left; handle the effects of each before the next one.

        Raises:
          ModelError: if rows loop without end.
        """
        rounds = 0
        while self._waiting:
            returned = heappop(self._waiting)
            rounds += 1
            if rounds > MOST_ROUNDS:
                at = returned.sent.rowtime
                raise ModelError(
                    f'looping link "{returned.link}" loops without end at rowtime {at}',
                    hint="Rows that come back at once must end; a CONSISTENT link lets time pass.",
                )
            yield returned

    def snapshot(self) -> Any:
        """Return the waiting rows as plain values."""
        return self._number, [(tuple(each.sent), *each[1:]) for each in sorted(self._waiting, key=_turn)]

    def restore(self, state: Any) -> None:
        """Restore the state that ``snapshot`` returned."""
        self._number, waiting = state
        self._waiting = [Returned(Stamp(*sent), *rest) for sent, *rest in waiting]
        heapify(self._waiting)


class Returning:
    """The end of one of these links for its writer."""

    def __init__(self, returns: Returns, shape: LoopShape, place: int) -> None:
        self._returns = returns
        self._place = place
        self.shape = shape

    def put(self, given: Given) -> None:
        """Add a row."""
        self._returns.add(given.stamp, self._place, self.shape.name, given.row)

    def promise(self, _bound: Stamp) -> bool:
        """Do nothing: the reader waits only for the sources."""
        return False


def _turn(returned: Returned) -> tuple[Stamp, int, int]:
    return returned[:3]
