"""Stamps: timestamps of unlimited precision, which order everything in a graph.

A stamp is a rowtime, the number of its origin (a source, a scheduler or a looping
link), and a counter of that origin, so origins share no counter. Origins are
numbered so that at one rowtime looping links come first, then schedulers, then
sources. A row that a node sends has the stamp of the row or event that caused it.
"""

from __future__ import annotations

from typing import NamedTuple

from rowtide.rowtime.bound import EARLIEST, LATEST


class Stamp(NamedTuple):
    """A point in time: rowtime (ms), number of the origin, and counter of the origin."""

    rowtime: int
    origin: int
    counter: int


FIRST = -1
"""An origin and a counter before all others."""
START = Stamp(EARLIEST, FIRST, FIRST)
END = Stamp(LATEST, FIRST, FIRST)


class Given(NamedTuple):
    """A row in a link or in the output, with its stamp."""

    stamp: Stamp
    row: object


class Gap(NamedTuple):
    """A range of time (ms, both ends excluded) that is skipped; ``is_last``: the jump ends with it."""

    before: int
    after: int
    is_last: bool = True


Turn = tuple[Stamp, int]
"""The order in which a node handles things: by stamp, and for one stamp by port."""
BEHIND = 1 << 20
"""Added to the number of a port, to place it after all other ports."""


def reaching(rowtime: int, origin: int = FIRST) -> Stamp:
    """Return the stamp before all stamps of ``origin`` at ``rowtime`` (ms); END at the end of time."""
    return Stamp(rowtime, origin, FIRST) if rowtime < LATEST else END


def later(rowtime: int, delay_ms: int) -> int:
    """Return the rowtime ``delay_ms`` later; the ends of time do not move."""
    return rowtime if rowtime in (EARLIEST, LATEST) else rowtime + delay_ms
