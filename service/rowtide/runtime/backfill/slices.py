"""The slices of a backfill: cuts of offsets, one after the other up to the last.

A slice ends where all partitions are at the same time of their messages, so that
rows do not wait for a partition that is cut earlier. An end of a slice asserts
nothing about time: it is a place in the log, and any other would give the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rowtide.checkpoint.ledger import PartitionId

MESSAGES_A_PART = 20_000_000
"""Messages of a slice for each part by default: some minutes of work, beside which a commit costs little."""

Offsets = dict[PartitionId, int]


@dataclass(frozen=True, slots=True)
class SliceLimits:
    """The limits of a slice; the nearer one ends it.

    ``interval_ms``: the time of the messages, in whole intervals since 1970; None: no limit. ``messages``: their
    number, counted as offsets; None: ``MESSAGES_A_PART`` for each part; 0: no limit.
    """

    interval_ms: int | None = None
    messages: int | None = None

    def most(self, parts: int) -> int | None:
        """Return the greatest number of messages; None: there is no limit."""
        return (MESSAGES_A_PART * parts if self.messages is None else self.messages) or None


class SliceCuts:
    """Finds where slices end.

    Args:
      end: the cut of the last slice.
      until_ms: the time by which it was chosen.
      interval_ms: see ``SliceLimits``.
      most: the greatest number of messages; None: there is no limit.
      offsets_at: returns, for each partition, the offset of its first message with a timestamp (ms) or a later
        one, else its end.
    """

    def __init__(
        self,
        end: Mapping[PartitionId, int],
        until_ms: int,
        interval_ms: int | None,
        most: int | None,
        offsets_at: Callable[[int], Mapping[PartitionId, int]],
    ) -> None:
        self._end = dict(end)
        self._until_ms = until_ms
        self._interval_ms = interval_ms
        self._most = most
        self._offsets_at = offsets_at

    def after(self, positions: Mapping[PartitionId, int]) -> Offsets:
        """Return where the slice ends that begins at these positions: further on, unless they are at the end."""
        cut, at_ms = self._end, self._until_ms
        if self._interval_ms is not None and cut != positions:
            cut, at_ms = self._at_interval(positions, self._interval_ms)
        if self._most is not None and _count(positions, cut) > self._most:
            cut = self._with_at_most(self._most, positions, cut, at_ms)
        return dict(cut)

    def _at_interval(self, positions: Mapping[PartitionId, int], interval_ms: int) -> tuple[Offsets, int]:
        """Return the cut, and its time, at the end of the first interval that has a message."""
        # The end of interval ``low`` has no message before it, that of ``high`` has one or is the last.
        low, high = -1, -(-self._until_ms // interval_ms)
        while high - low > 1:
            middle = (low + high) // 2
            if self._at(middle * interval_ms, positions) == positions:
                low = middle
            else:
                high = middle
        at_ms = high * interval_ms
        if at_ms >= self._until_ms:
            return self._end, self._until_ms
        return self._at(at_ms, positions), at_ms

    def _with_at_most(
        self, most: int, positions: Mapping[PartitionId, int], cut: Offsets, at_ms: int
    ) -> Offsets:
        """Return the latest cut by time with at most so many messages before it."""
        low, high = -1, at_ms
        reached = dict(positions)
        while high - low > 1:
            middle = (low + high) // 2
            found = self._at(middle, positions)
            if _count(positions, found) <= most:
                low, reached = middle, found
            else:
                high, cut = middle, found
        return reached if reached != positions else _share(most, positions, cut)

    def _at(self, timestamp_ms: int, positions: Mapping[PartitionId, int]) -> Offsets:
        found = self._offsets_at(timestamp_ms)
        return {
            place: min(max(found.get(place, position), position), self._end[place])
            for place, position in positions.items()
        }


def _count(positions: Mapping[PartitionId, int], cut: Mapping[PartitionId, int]) -> int:
    return sum(offset - positions[place] for place, offset in cut.items())


def _share(most: int, positions: Mapping[PartitionId, int], cut: Mapping[PartitionId, int]) -> Offsets:
    """Divide messages of one millisecond: each partition gets its share, in all at least one message."""
    count = _count(positions, cut)
    found = {
        place: position + (cut[place] - position) * most // count for place, position in positions.items()
    }
    if found == positions:
        place = next(each for each in sorted(positions) if cut[each] > positions[each])
        found[place] += 1
    return found
