"""What runs at a node of a graph, and what it may do when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from rowtide.engine.graph.stamp import Stamp


class Timer(NamedTuple):
    """An event that is to come: its stamp, and what was given to ``schedule``."""

    stamp: Stamp
    handle: int
    payload: object


class At(Protocol):
    """Here and now, for a processor: valid while it is called."""

    @property
    def stamp(self) -> Stamp:
        """Give the stamp of what is being worked off; what is sent inherits it."""

    @property
    def rowtime(self) -> int:
        """Give its rowtime (ms)."""

    def send(self, row: object, to: str | None = None) -> None:
        """Send a row to all nodes that read this one, or only into the looping link ``to``."""

    def schedule(self, rowtime: int, payload: object = None, on: str | None = None) -> int:
        """Ask for an event at ``rowtime`` (ms), before the rows of that rowtime; give its handle.

        Without ``on`` it comes to this node; one for now or before comes right after what is being worked
        off. With ``on`` it comes to the target of that scheduler, not before its delay is over.
        """

    def reschedule(self, handle: int, rowtime: int) -> None:
        """Move an event of this node, to an earlier time too; one that has come or is cancelled stays so."""

    def cancel(self, handle: int) -> None:
        """Take an event of this node back."""


class Processor(Protocol):
    """What runs at a node. Its only inputs are these calls; they come in the order of their stamps."""

    def row(self, port: str, row: object, at: At) -> None:
        """Take a row of the input, or looping link, named ``port``."""

    def event(self, payload: object, at: At) -> None:
        """Take an event that was asked for."""


@runtime_checkable
class Resettable(Protocol):
    """A processor that wants to know when time jumps, as from a replay to what is live."""

    def reset(self, before: int, after: int, due: Sequence[Timer], at: At) -> None:
        """Take note that time went on from ``before`` to ``after`` (ms) with nothing in between.

        ``due`` are the events that would have come meanwhile, in order. They come no more: run them now,
        once, or ask for others. Without this method they come one by one as if time had passed.
        """


@runtime_checkable
class Remembering(Protocol):
    """A processor with a state of its own."""

    def snapshot(self) -> object:
        """Give everything that it remembers, as plain values."""

    def restore(self, state: object) -> None:
        """Take over what ``snapshot`` gave."""
