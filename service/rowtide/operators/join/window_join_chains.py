"""The chains of one side of a windowed join: memory for the open rows of ``kernels.window_joining``.

It doubles with the open rows. A caller that finds it far too large rebuilds the chains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.storage.growing import grown, zeros_in_lines
from rowtide.operators.storage.keys import power_of_two

FIRST_LINKS = 64
SLOTS_PER_KEY = 3
"""Minimum number of slots for each key when slots are created. There are always at least two."""

Codes = NDArray[np.int64]


class Memory(NamedTuple):
    """The arrays for kernels."""

    slots: Codes
    links: Codes
    counts: Codes


class Chains:
    """The chains of rows by their keys, whose codes are ``hashed`` or assigned numbers."""

    def __init__(self, hashed: bool) -> None:
        self._hashed = hashed
        self.forget()

    def forget(self) -> None:
        """Drop all chains."""
        self._slots = np.full(0, -1, dtype=np.int64)
        self._links = _lines(FIRST_LINKS)
        self._counts = np.zeros(2, dtype=np.int64)

    @property
    def room(self) -> int:
        """The number of rows for which there is memory."""
        return max(len(self._slots) // SLOTS_PER_KEY if self._hashed else 0, self._places)

    @property
    def _places(self) -> int:
        from rowtide.operators.join.kernels.window_joining import LINK_WIDTH

        return len(self._links) // LINK_WIDTH

    @property
    def used(self) -> bool:
        """Whether a chain exists."""
        return bool(self._counts[0])

    def memory(self) -> Memory:
        """Return the chains unchanged."""
        return Memory(self._slots, self._links, self._counts)

    def with_room(self, first: int, stop: int, more: int, codes: int) -> Memory:
        """Return the chains with room for ``more`` rows after those from ``first`` to before ``stop``.

        ``codes`` is how many codes there are, where they are numbers given in turn.
        """
        from rowtide.operators.join.kernels.window_joining import move_links, place_chains

        if stop + more - first > self._places:
            larger = _lines(1 << (stop + more - first - 1).bit_length())
            move_links(first, stop, self._links, larger)
            self._links = larger
        used, filled = self._counts.tolist()
        if not self._hashed:
            if codes > len(self._slots):
                self._slots = grown(self._slots, power_of_two(codes), fill=-1)
        elif 2 * (filled + more) >= len(self._slots):
            self._slots = np.full(power_of_two(SLOTS_PER_KEY * (used + more)), -1, dtype=np.int64)
            place_chains(first, stop, *self.memory())
        return self.memory()


def _lines(count: int) -> Codes:
    """Return links, each within one cache line."""
    from rowtide.operators.join.kernels.window_joining import LINK_WIDTH

    return zeros_in_lines(count * LINK_WIDTH, np.int64)
