"""The only reader of wall time; everything below the runtime takes time as an argument."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall and monotonic time, replaceable by virtual time in tests."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch, UTC."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the Unix epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``."""
        time.sleep(seconds)
