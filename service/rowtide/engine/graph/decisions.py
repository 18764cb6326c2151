"""A log of the decisions of a graph that depend on the order of arrival: re-stampings and resets.

A run with the log of an earlier run repeats its decisions: it returns the same
rows with the same stamps, however its threads are scheduled. A changed graph runs
without the log, makes new decisions and writes a new log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rowtide.engine.graph.stamp import Stamp
from rowtide.errors import FaultError


class Divergence(Enum):
    """What to do when a run does not match the log."""

    STOP = "STOP"
    """Raise ReplayDivergedError."""
    DECIDE_ANEW = "DECIDE_ANEW"
    """Drop the rest of the log of the link, and stamp its rows as without a log."""


@dataclass(frozen=True, slots=True)
class Restamped:
    """Row ``number`` of the looping link ``link``: sent at ``original``, handled with ``stamp``.

    It is handled before everything else with that stamp; with ``last`` after it, because part of that has
    been handled already.
    """

    link: str
    number: int
    original: Stamp
    stamp: Stamp
    last: bool = False


@dataclass(frozen=True, slots=True)
class WasReset:
    """Time jumped: only timers were between ``before`` and ``after`` (ms, both excluded)."""

    before: int
    after: int


class ReplayDivergedError(FaultError):
    """A looping link has another row than the log; ``came`` is None if it has no more rows."""

    def __init__(self, link: str, number: int, logged: Stamp, came: Stamp | None) -> None:
        brought = "nothing" if came is None else f"one of {tuple(came)}"
        super().__init__(
            f'looping link "{link}": the log has row {number} of {tuple(logged)}, the run has {brought}',
            hint="The graph or its input is not that of the log. Run without the log to make new decisions.",
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
        """Return the decisions for one looping link, in order."""
        return sorted((each for each in self.restamped if each.link == link), key=lambda each: each.number)

    def extend(self, other: Decisions) -> None:
        """Add later decisions."""
        self.restamped += other.restamped
        self.resets += other.resets
