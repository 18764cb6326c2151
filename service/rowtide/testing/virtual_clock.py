"""A virtual clock, so that tests of delays do not wait."""

from __future__ import annotations


class VirtualClock:
    """Time that advances only in ``sleep``, or when a test advances it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch, UTC."""
        return 1_700_000_000_000 + int(self.seconds * 1000)

    def monotonic(self) -> float:
        """Return seconds since the clock was made."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self.seconds += seconds
