"""How the input of a scenario is cut into trays: the cut must not change a result (law 1)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

LONGEST_RANDOM_TRAY = 8
"""Trays are short so that over several seeds most pairs of adjacent rows have a boundary between them."""


class Batching(Protocol):
    """Cuts a sequence of rows into trays."""

    def cut(self, count: int) -> Iterator[slice]:
        """Return the slices of ``count`` rows, in order; each holds at least one row."""


@dataclass(frozen=True, slots=True)
class WholeSteps:
    """All rows of a step are one tray."""

    def cut(self, count: int) -> Iterator[slice]:
        """Yield one slice, or none if there are no rows."""
        if count:
            yield slice(0, count)


@dataclass(frozen=True, slots=True)
class TraysOf:
    """Trays of ``rows`` rows."""

    rows: int

    def cut(self, count: int) -> Iterator[slice]:
        """Return slices of ``rows``; the last one may be shorter."""
        return (slice(start, min(start + self.rows, count)) for start in range(0, count, self.rows))


@dataclass(frozen=True, slots=True)
class RandomTrays:
    """Trays of random length; the cut depends only on the seed and the scenario."""

    seed: int
    _random: random.Random = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_random", random.Random(self.seed))

    def cut(self, count: int) -> Iterator[slice]:
        """Yield slices of 1 to ``LONGEST_RANDOM_TRAY`` rows."""
        start = 0
        while start < count:
            end = min(start + self._random.randint(1, LONGEST_RANDOM_TRAY), count)
            yield slice(start, end)
            start = end


def parse_batching(text: str) -> Batching:
    """Return the batching that ``all``, ``N`` or ``random:SEED`` names.

    Raises:
      ValueError: if the text is none of these.
    """
    kind, colon, seed = text.partition(":")
    if text == "all":
        return WholeSteps()
    if kind == "random" and colon and seed.lstrip("-").isdigit():
        return RandomTrays(int(seed))
    if text.isdigit() and int(text) > 0:
        return TraysOf(int(text))
    raise ValueError(f'"{text}" is not a batching: expected a number of rows above 0, or random:SEED')
