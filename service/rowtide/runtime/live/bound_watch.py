"""For how long the rowtime bounds of steps have stood, and no row of theirs was late or rejected, by the wall clock.

Messages alone do not show that time advances: those that are late, rejected or not newer move no bound. Nor does a
bound that stands show that it will not move: rowtimes in whole minutes move it once a minute.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from rowtide.clock import Clock
from rowtide.runtime.state.pipeline_state import PipelineState

LOOK_S = 0.25
"""How often a loop looks: often enough for people, and seldom enough to cost next to nothing."""
_Key = TypeVar("_Key", bound=Hashable)


class BoundWatch:
    """Notes when the bounds of a flow's steps move, and when rows are late or rejected. Called by the main thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bounds, self._losses = _Changes[int](), _Changes[int]()
        self._rejected = _Changes[str]()
        self._looked_at = float("-inf")

    def look(self, state: PipelineState, every_s: float = 0.0) -> None:
        """Note what has changed, unless that was done within ``every_s``."""
        now = self._clock.monotonic()
        if now < self._looked_at + every_s:
            return
        self._looked_at = now
        self._bounds.note(dict(enumerate(state.flow.step_bounds())), now)
        self._losses.note(state.flow.step_losses(), now)
        self._rejected.note({name: each.rejected for name, each in state.accounts.items()}, now)

    def still_ms(self) -> dict[int, int]:
        """Return the time since the bound of each step moved, without steps of which no move was seen."""
        return self._bounds.ages_ms(self._clock.monotonic())

    def watched_ms(self) -> int:
        """Return the time for which moves of bounds would have been seen."""
        return int((self._clock.monotonic() - self._bounds.began) * 1000)

    def lost_ms(self) -> dict[int, int]:
        """Return the time since a row was late or rejected at a step, without steps at which none was seen."""
        return self._losses.ages_ms(self._clock.monotonic())

    def rejected_ms(self) -> dict[str, int]:
        """Return the time since a message of a stream was rejected, without streams of which none was seen."""
        return self._rejected.ages_ms(self._clock.monotonic())


class _Changes(Generic[_Key]):
    """When each of several numbers has changed."""

    def __init__(self) -> None:
        self.began = 0.0
        self._numbers: Mapping[_Key, int] = {}
        self._at: dict[_Key, float] = {}

    def note(self, numbers: Mapping[_Key, int], now: float) -> None:
        """Note which numbers are others than before."""
        before, self._numbers = self._numbers, numbers
        if before.keys() != numbers.keys():
            # The flow is new, or has grown: what is first seen need not have changed just then.
            self._at, self.began = {}, now
        elif before != numbers:
            self._at.update({key: now for key, number in numbers.items() if before[key] != number})

    def ages_ms(self, now: float) -> dict[_Key, int]:
        """Return the time since each number changed, without those of which no change was seen."""
        return {key: int((now - at) * 1000) for key, at in self._at.items()}
