"""How much of the main loop's time may go to what people look at."""

from __future__ import annotations

WORKING_SHARE, RESTING_SHARE = 0.002, 0.1
"""What is earned while the loop works, and while it waits for messages: then a search delays next to nothing."""
SAVED_S = 1.0
"""The most that is saved: enough for some searches of a large pipeline, also in a loop that never waits."""


class LoopBudget:
    """Seconds of the main loop that may be spent on searches: earned, saved up to a limit, and overdrawn by one search.

    So of any span searches take at most what is earned in it, ``SAVED_S``, and the last of them. A search that was
    slow once delays the next one by no more than what it has overdrawn.
    """

    def __init__(self, now: float) -> None:
        self._left_s = SAVED_S
        self._earned_at = now
        self._rested_s = 0.0

    def rested(self, seconds: float) -> None:
        """Note how long the loop has waited for messages."""
        self._rested_s += seconds

    def allows(self, now: float) -> bool:
        """Return whether a search may begin."""
        worked = now - self._earned_at - self._rested_s
        earned = WORKING_SHARE * worked + RESTING_SHARE * self._rested_s
        self._left_s = min(SAVED_S, self._left_s + earned)
        self._earned_at, self._rested_s = now, 0.0
        return self._left_s > 0

    def spent(self, seconds: float) -> None:
        """Note how long a search has taken."""
        self._left_s -= seconds
