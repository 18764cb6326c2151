"""For how long the rowtime bounds of steps have not moved, by the wall clock.

Messages alone do not show that time advances: those that are late, rejected or not newer move no bound.
"""

from __future__ import annotations

from rowtide.clock import Clock
from rowtide.flow.flow import Flow

LOOK_S = 0.25
"""How often a loop looks: often enough for people, and seldom enough to cost next to nothing."""


class BoundWatch:
    """Notes when the bounds of a flow's steps move. Called by the main thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bounds: list[int] = []
        self._moved_at: dict[int, float] = {}
        self._looked_at = float("-inf")

    def look(self, flow: Flow, every_s: float = 0.0) -> None:
        """Note which bounds have moved, unless that was done within ``every_s``."""
        now = self._clock.monotonic()
        if now < self._looked_at + every_s:
            return
        self._looked_at, before = now, self._bounds
        self._bounds = flow.step_bounds()
        if len(before) != len(self._bounds):
            # The flow is new, or has grown: what is first seen need not have moved just then.
            self._moved_at = {}
        elif before != self._bounds:
            pairs = zip(before, self._bounds, strict=True)
            self._moved_at.update({step: now for step, (was, bound) in enumerate(pairs) if was != bound})

    def still_ms(self) -> dict[int, int]:
        """Return the time since the bound of each step moved, without steps of which no move was seen."""
        now = self._clock.monotonic()
        return {step: int((now - at) * 1000) for step, at in self._moved_at.items()}
