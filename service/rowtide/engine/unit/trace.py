"""Traces: what a unit does, label by label."""

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
    """When, in the execution of one label, a trace event is given."""

    BEFORE = "before"
    """Before the label's own handler."""
    DRAIN = "drain"
    """After its handler, before what the handler forked; always given, but not with shared frames."""
    BEFORE_CHAINED = "before-chained"
    """After that, before the labels chained to it; given only if there are any."""
    AFTER_CHAINED = "after-chained"
    """After the labels chained to it; given after every BEFORE_CHAINED, but only with shared frames."""
    AFTER = "after"
    """After everything, or with shared frames before what was forked."""
    BEFORE_DRAIN = "before-drain"
    """With shared frames: after a called label and its chain, if anything has been forked meanwhile."""
    AFTER_DRAIN = "after-drain"
    """After all of what was forked."""


_BRACES = {
    Scheduling.OWN_FRAMES: {Moment.BEFORE: " {", Moment.AFTER: " }"},
    Scheduling.SHARED_FRAMES: {
        moment: " {" if moment.name.startswith("BEFORE") else " }" for moment in Moment
    },
}
"""What a verbose line ends with; release 1.1 pairs all its moments, release 1.0 only two of them."""


class TraceEvent(NamedTuple):
    """One step of a unit. ``source`` is the label whose chain led here, None for a direct call."""

    unit: Unit
    label: Label
    source: Label | None
    rowop: Rowop
    moment: Moment


Tracer = Callable[[TraceEvent], None]
"""May do anything with an event; what it raises goes up like an error of the label."""


class TextTracer:
    """Collects one line for each event, or, unless ``verbose``, for each label reached."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.verbose = verbose
        self.lines: list[str] = []

    def __call__(self, event: TraceEvent) -> None:
        """Note one event."""
        if event.moment is Moment.BEFORE or self.verbose:
            self.lines.append(self.describe(event))

    def describe(self, event: TraceEvent) -> str:
        """Give the line of one event; a verbose one has braces around what a label does."""
        chained = f" (chain '{event.source.name}')" if event.source is not None else ""
        brace = _BRACES[event.unit.scheduling].get(event.moment, "") if self.verbose else ""
        return (
            f"unit '{event.unit.name}' {event.moment.value} label '{event.label.name}'{chained}"
            f" op OP_{event.rowop.opcode.name}{brace}"
        )

    def clear(self) -> None:
        """Forget the lines collected so far."""
        self.lines.clear()
