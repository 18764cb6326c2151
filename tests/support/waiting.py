"""Wait for what happens in other threads, processes and servers: for the event itself, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 240.0
"""Ten times and more what an idle machine needs, and less than the time limit of a test."""


def wait_until(
    holds: Callable[[], object], said: Callable[[], object] = str, *, every_s: float = 0.02
) -> None:
    """Ask every ``every_s`` seconds until the answer is true; after ``PATIENCE_S`` fail with what ``said`` returns."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, said()
        time.sleep(every_s)
