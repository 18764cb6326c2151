"""Silent partitions under a declared idle time-out (docs/sql/semantics.md#idle-partitions).

A partition without input for the time-out is idle. It no longer holds the
stream back: it takes the least bound of the partitions that are not idle as an
explicit bound, and follows them until it wakes. If all are idle, none holds
another back, and they take the greatest bound: the stream is idle, and follows
those that it meets in the plan (``flow.meetings``).

These decisions depend on the wall clock, so the caller logs them with the commit,
and a replay obeys the log. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rowtide.rowtime.bound import EARLIEST


class IdlePartitions:
    """The time of the last input of each partition of one stream, in ms of wall time.

    Args:
      partitions: all partitions of the stream.
      timeout_ms: a partition that has been silent that long is idle.
      now: counts as the last input of all partitions.
    """

    def __init__(self, partitions: Iterable[int], timeout_ms: int, now: int) -> None:
        self._timeout_ms = timeout_ms
        self._heard = dict.fromkeys(partitions, now)

    def note_arrival(self, partition: int, now: int) -> None:
        """Note that a row or a bound of ``partition`` has come: it is awake."""
        self._heard[partition] = now

    def idle(self, now: int) -> frozenset[int]:
        """Return the partitions that are idle."""
        return frozenset(
            partition for partition, heard in self._heard.items() if now - heard >= self._timeout_ms
        )

    def are_all_idle(self, now: int) -> bool:
        """Return whether the stream is idle: all its partitions are."""
        return len(self.idle(now)) == len(self._heard)

    @property
    def timeout_ms(self) -> int:
        """The time-out (ms)."""
        return self._timeout_ms

    def silent_ms(self, partition: int, now: int) -> int:
        """Return the time of the last input of ``partition``."""
        return now - self._heard[partition]

    def decide(self, bounds: Mapping[int, int], now: int) -> dict[int, int]:
        """Return the explicit bounds (ms) that idle partitions take now and that are greater than before.

        ``bounds`` are the rowtime bounds of all partitions.
        """
        idle = self.idle(now)
        awake = [bound for partition, bound in bounds.items() if partition not in idle]
        target = min(awake) if awake else max(bounds.values(), default=EARLIEST)
        return {partition: target for partition in sorted(idle) if bounds[partition] < target}
