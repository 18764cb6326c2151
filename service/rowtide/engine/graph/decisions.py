"""What a graph decides that the order of arrival could change: re-stampings and resets, as a log.

A run that is given the log of another obeys it: it gives the same rows with
the same stamps, whatever the threads do. A graph that has changed is run
without the log, decides anew and writes a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rowtide.engine.graph.stamp import Stamp
from rowtide.errors import FaultError


class Divergence(Enum):
    """What happens when a run does not bring what the log says."""

    STOP = "STOP"
    """ReplayDivergedError."""
    DECIDE_ANEW = "DECIDE_ANEW"
    """The rest of the link's log is dropped, and what comes is stamped as without a log."""


@dataclass(frozen=True, slots=True)
class Restamped:
    """The ``number``-th row of looping link ``link``: sent at ``original``, taken as of ``stamp``.

    It comes before all else of that stamp; with ``last`` behind it, since some of that had come already.
    """

    link: str
    number: int
    original: Stamp
    stamp: Stamp
    last: bool = False


@dataclass(frozen=True, slots=True)
class WasReset:
    """Time jumped: nothing but timers was between ``before`` and ``after`` (ms, both excluded)."""

    before: int
    after: int


class ReplayDivergedError(FaultError):
    """A looping link brought another row than the log has; ``logged`` None: it brings none any more."""

    def __init__(self, link: str, number: int, logged: Stamp, came: Stamp | None) -> None:
        brought = "nothing" if came is None else f"one of {tuple(came)}"
        super().__init__(
            f'looping link "{link}" was to bring row {number} of {tuple(logged)} and brought {brought}',
            hint="The graph or its input is not that of the log. Without the log it decides anew.",
        )
        self.link = link
        self.number = number
        self.logged = logged
        self.came = came


@dataclass(slots=True)
class Decisions:
    """A log of decisions, in the order in which they were made."""

    restamped: list[Restamped] = field(default_factory=list)
    resets: list[WasReset] = field(default_factory=list)

    def of(self, link: str) -> list[Restamped]:
        """Give what was decided for one looping link, in order."""
        return sorted((each for each in self.restamped if each.link == link), key=lambda each: each.number)

    def extend(self, other: Decisions) -> None:
        """Add what was decided since."""
        self.restamped += other.restamped
        self.resets += other.resets
