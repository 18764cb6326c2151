"""The counts of the last hour: five minutes by the second, and the hour by ten seconds, within a limit of memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rowtide.runtime.progress.layout import BOUND, Integers

RECENT_MS, HOUR_MS = 300_000, 3_600_000
FINE_MS, COARSE_MS = 1_000, 10_000
"""The resolutions, if the relations are few enough."""
LIMIT_BYTES = 16 * 1024 * 1024
"""The memory of both together. With more relations than fit, both resolutions are a multiple."""
_ROW_BYTES = 8 * (BOUND + 1)


class History:
    """What the relations of one plan have done over the last hour. Written by one thread, and read by any.

    A progress is kept under its time; of several within one resolution the last is kept.
    """

    def __init__(self, relations: int, limit_bytes: int = LIMIT_BYTES) -> None:
        slots = RECENT_MS // FINE_MS + HOUR_MS // COARSE_MS
        multiple = max(1, -(-slots * relations * _ROW_BYTES // limit_bytes))
        self.recent = _Ring(FINE_MS * multiple, RECENT_MS, relations)
        self.hour = _Ring(COARSE_MS * multiple, HOUR_MS, relations)

    def add(self, time_ms: int, counts: Integers) -> None:
        """Keep the counts and bounds of all relations."""
        self.recent.add(time_ms, counts)
        self.hour.add(time_ms, counts)

    def rows(self, since_ms: int) -> Iterator[tuple[int, Integers]]:
        """Yield the times from ``since_ms`` on with the counts then, the oldest first."""
        recent = self.recent.rows(since_ms)
        first = recent[0][0] if recent else None
        for time_ms, counts in self.hour.rows(since_ms):
            if first is None or time_ms < first:
                yield time_ms, counts
        yield from recent


class _Ring:
    """The last rows, one for each ``each_ms`` at most."""

    def __init__(self, each_ms: int, length_ms: int, relations: int) -> None:
        self.each_ms = each_ms
        self._length_ms = length_ms
        slots = max(2, length_ms // each_ms)
        self._counts = np.zeros((slots, relations, BOUND + 1), np.int64)
        self._times = np.full(slots, -1, np.int64)
        self._at = -1

    def add(self, time_ms: int, counts: Integers) -> None:
        """Keep a row, in place of the last one if that is of the same time."""
        last = self._times[self._at] if self._at >= 0 else -1
        if last < 0 or time_ms // self.each_ms != last // self.each_ms:
            self._at = (self._at + 1) % len(self._times)
        # A reader must not take a row that is being written.
        self._times[self._at] = -1
        self._counts[self._at] = counts
        self._times[self._at] = time_ms

    def rows(self, since_ms: int) -> list[tuple[int, Integers]]:
        """Return the rows from ``since_ms`` on, the oldest first."""
        times = self._times.copy()
        newest = times.max(initial=-1)
        oldest = max(since_ms, newest - self._length_ms, 0)
        kept = [int(at) for at in np.argsort(times, kind="stable") if times[at] >= oldest]
        found = [(int(times[at]), self._counts[at].copy()) for at in kept]
        return [each for at, each in zip(kept, found, strict=True) if self._times[at] == each[0]]
