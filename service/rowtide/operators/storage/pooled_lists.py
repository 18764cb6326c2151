"""Lists of whole numbers in one pool, for ``kernels.pools``."""

from __future__ import annotations

import numpy as np

from rowtide.operators.storage.growing import grown
from rowtide.rows.arrays import Int64s

FIRST_POOL = 1 << 8


class PooledLists:
    """Lists by their numbers; ``used`` is how much of the pool is in use."""

    def __init__(self) -> None:
        self.lists: Int64s = np.zeros((0, 3), dtype=np.int64)
        self.pool: Int64s = np.empty(0, dtype=np.int64)
        self.used = 0

    @property
    def total(self) -> int:
        """How long all lists together are."""
        return int(self.lists[:, 1].sum())

    def reserve(self, count: int) -> None:
        """Have so many lists; new ones are empty."""
        self.lists = grown(self.lists, count)

    def make_room(self) -> None:
        """Make a larger pool, without gaps, where each list can grow."""
        from rowtide.operators.storage.kernels.pools import FIRST_ROOM, pack

        larger = np.empty(FIRST_POOL + 4 * self.total + FIRST_ROOM * len(self.lists), dtype=np.int64)
        self.used = int(pack(self.pool, self.lists, larger))
        self.pool = larger

    def fill(self, values: Int64s, lengths: Int64s, every: int = 1) -> None:
        """Fill each list whose number is a multiple of ``every``, in turn, where all lists are empty."""
        filled = self.lists[: every * len(lengths) : every]
        filled[:, 0], filled[:, 1], filled[:, 2] = np.cumsum(lengths) - lengths, lengths, lengths
        self.pool, self.used = values, len(values)

    def listed(self, numbers: Int64s | slice = slice(None)) -> tuple[Int64s, Int64s]:
        """Return what some lists have: the place of each list in ``numbers``, and the value."""
        begins, lengths, _ = self.lists[numbers].T
        # The position of each list's values in the pool, minus their position if lists are concatenated.
        shifts = np.repeat(begins - (np.cumsum(lengths) - lengths), lengths)
        return np.repeat(np.arange(len(lengths)), lengths), self.pool[shifts + np.arange(len(shifts))]
