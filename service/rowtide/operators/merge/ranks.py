"""The order of rows of several origins at one rowtime (docs/sql/semantics.md#merge-order).

Origins rank by the first place at which they enter, not by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

RANK = "$rank"
"""The name of a column of ranks in a snapshot."""


def order_of_all(orders: Sequence[Sequence[int]], given: Iterable[int]) -> tuple[int, ...] | None:
    """Return the origins in an order that keeps all of these, and ``given`` where they do not decide.

    None: they contradict each other.
    """
    before: dict[int, set[int]] = {origin: set() for order in orders for origin in order}
    for order in orders:
        for first, second in pairwise(order):
            before[second].add(first)
    found: list[int] = []
    pending = list(dict.fromkeys(given))
    while pending:
        following = next((each for each in pending if not before[each].difference(found)), None)
        if following is None:
            return None
        found.append(following)
        pending.remove(following)
    return tuple(found)


class Ranks:
    """The ranks of the origins at one operator, from 0 on."""

    def __init__(self, origins: Iterable[int]) -> None:
        self.order = tuple(dict.fromkeys(origins))
        self.of_origin = {origin: rank for rank, origin in enumerate(self.order)}
        known = sorted(self.order)
        self._known = np.array(known, dtype=np.int32)
        self._ranks = np.array([self.of_origin[origin] for origin in known], dtype=np.int64)

    def of(self, origin: NDArray[Any]) -> NDArray[np.int64]:
        """Return the rank of each origin; its number if no order is known.

        Origins that no longer enter rank after all others: state can hold rows that entered through a pump that
        was stopped or dropped since.
        """
        if not self.order:
            return origin.astype(np.int64)
        at = np.minimum(np.searchsorted(self._known, origin), len(self._known) - 1)
        return np.where(self._known[at] == origin, self._ranks[at], len(self.order))
