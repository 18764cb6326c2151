"""Timestamps of infinite precision: a rowtime, and below it the place of what was stamped.

Where a stamp comes from (a source, a scheduler, a looping link) counts by
itself, so no counter is shared. Origins are numbered so that at one rowtime
looping links come first, then schedulers, then sources. What a node makes has
the stamp of what caused it.
"""

from __future__ import annotations

from typing import NamedTuple

from rowtide.rowtime.bound import EARLIEST, LATEST


class Stamp(NamedTuple):
    """A place in time: rowtime (ms), number of the origin, and its own count."""

    rowtime: int
    origin: int
    counter: int


FIRST = -1
"""An origin, and a count, before every real one."""
START = Stamp(EARLIEST, FIRST, FIRST)
END = Stamp(LATEST, FIRST, FIRST)


class Given(NamedTuple):
    """A row on its way, or one that came out."""

    stamp: Stamp
    row: object


class Gap(NamedTuple):
    """A stretch of time (ms, both ends excluded) that is skipped; ``is_last``: none of the jump is left."""

    before: int
    after: int
    is_last: bool = True


Turn = tuple[Stamp, int]
"""When something has its turn at a node: by stamp, and of one stamp by port."""
BEHIND = 1 << 20
"""Added to the number of a port: behind all other ports."""


def reaching(rowtime: int, origin: int = FIRST) -> Stamp:
    """Give the place before everything that ``origin`` stamps at ``rowtime`` (ms); ends of time stay."""
    return Stamp(rowtime, origin, FIRST) if rowtime < LATEST else END


def later(rowtime: int, delay_ms: int) -> int:
    """Give a rowtime that is ``delay_ms`` later; both ends of time stay where they are."""
    return rowtime if rowtime in (EARLIEST, LATEST) else rowtime + delay_ms
