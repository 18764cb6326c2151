"""Processors, which run at the nodes of a graph, and what they can do in a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from rowtide.engine.graph.stamp import Stamp


class Timer(NamedTuple):
    """A scheduled event: its stamp, its handle, and the payload."""

    stamp: Stamp
    handle: int
    payload: object


class At(Protocol):
    """The context of a call of a processor; valid until the call returns."""

    @property
    def stamp(self) -> Stamp:
        """The stamp of the current row or event; rows that are sent inherit it."""

    @property
    def rowtime(self) -> int:
        """The rowtime of the stamp (ms)."""

    def send(self, row: object, to: str | None = None) -> None:
        """Send a row to all nodes that read this one, or only to the looping link ``to``."""

    def schedule(self, rowtime: int, payload: object = None, on: str | None = None) -> int:
        """Schedule an event at ``rowtime`` (ms), before the rows of that rowtime; return its handle.

        Without ``on`` the event is for this node; if it is due already, it runs right after the current
        call. With ``on`` it is for the target of that scheduler, no earlier than after its delay.
        """

    def reschedule(self, handle: int, rowtime: int) -> None:
        """Move an event of this node to an earlier or later time, unless it has run or is cancelled."""

    def cancel(self, handle: int) -> None:
        """Cancel an event of this node."""


class Processor(Protocol):
    """The code of a node. These calls are its only inputs, in the order of their stamps."""

    def row(self, port: str, row: object, at: At) -> None:
        """Handle a row of the input or looping link ``port``."""

    def event(self, payload: object, at: At) -> None:
        """Handle a scheduled event."""


@runtime_checkable
class Resettable(Protocol):
    """A processor that handles jumps of time, as from a replay to live data."""

    def reset(self, before: int, after: int, due: Sequence[Timer], at: At) -> None:
        """Handle a jump of time from ``before`` to ``after`` (ms), without rows in between.

        ``due`` are the events between the two, in order. They are removed: handle them here, or schedule
        others. Without this method they run one by one.
        """


@runtime_checkable
class Remembering(Protocol):
    """A processor with state."""

    def snapshot(self) -> object:
        """Return the state as plain values."""

    def restore(self, state: object) -> None:
        """Restore the state that ``snapshot`` returned."""
