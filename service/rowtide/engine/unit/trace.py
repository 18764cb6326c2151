"""Traces: the steps of a unit, label by label."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from rowtide.engine.unit.scheduling import Scheduling

if TYPE_CHECKING:
    from rowtide.engine.unit.label import Label
    from rowtide.engine.unit.rowop import Rowop
    from rowtide.engine.unit.unit import Unit


class Moment(Enum):
    """The point in the execution of a label at which a trace event is reported."""

    BEFORE = "before"
    """Before the label's own handler."""
    DRAIN = "drain"
    """After its handler, before the rowops that it forked; always reported, except with shared frames."""
    BEFORE_CHAINED = "before-chained"
    """After that, before the labels chained to it; reported only if there are any."""
    AFTER_CHAINED = "after-chained"
    """After the labels chained to it; reported after every BEFORE_CHAINED, but only with shared frames."""
    AFTER = "after"
    """After everything; with shared frames before the forked rowops."""
    BEFORE_DRAIN = "before-drain"
    """With shared frames: after a called label and its chain, if rowops have been forked."""
    AFTER_DRAIN = "after-drain"
    """With shared frames: after all forked rowops."""


_BRACES = {
    Scheduling.OWN_FRAMES: {Moment.BEFORE: " {", Moment.AFTER: " }"},
    Scheduling.SHARED_FRAMES: {
        moment: " {" if moment.name.startswith("BEFORE") else " }" for moment in Moment
    },
}
"""The end of a verbose line; release 1.1 pairs all its moments, release 1.0 only two of them."""


class TraceEvent(NamedTuple):
    """One step of a unit. ``source`` is the label whose chain led here, None for a direct call."""

    unit: Unit
    label: Label
    source: Label | None
    rowop: Rowop
    moment: Moment


Tracer = Callable[[TraceEvent], None]
"""A function that receives trace events; an error that it raises is handled like one of the label."""


class TextTracer:
    """Collects in ``lines`` one line for each label that is reached or, if ``verbose``, for each event."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.verbose = verbose
        self.lines: list[str] = []

    def __call__(self, event: TraceEvent) -> None:
        """Record one event."""
        if event.moment is Moment.BEFORE or self.verbose:
            self.lines.append(self.describe(event))

    def describe(self, event: TraceEvent) -> str:
        """Return the line for one event; verbose lines have braces around the steps of a label."""
        chained = f" (chain '{event.source.name}')" if event.source is not None else ""
        brace = _BRACES[event.unit.scheduling].get(event.moment, "") if self.verbose else ""
        return (
            f"unit '{event.unit.name}' {event.moment.value} label '{event.label.name}'{chained}"
            f" op OP_{event.rowop.opcode.name}{brace}"
        )

    def clear(self) -> None:
        """Drop the lines collected so far."""
        self.lines.clear()
