"""When a running pipeline commits, and when a commit has a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

MAX_COMMIT_BYTES = 128 * 1024 * 1024
"""Bytes of messages that bring a commit forward: until it they are kept, for the raw bytes of error rows."""

MAX_SNAPSHOT_PART_BYTES = 16 * 1024 * 1024
"""Bytes of a snapshot that one commit stores: about a tenth of a second on a disk of today."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When to commit and when to snapshot; None: never for that reason.

    ``first_rows_at_once``: the first rows after a start do not wait for the interval.
    """

    commit_interval_ms: int
    commit_max_rows: int
    snapshot_rows: int | None
    snapshot_interval_s: float | None
    commit_max_bytes: int = MAX_COMMIT_BYTES
    first_rows_at_once: bool = False
    snapshot_part_bytes: int = MAX_SNAPSHOT_PART_BYTES
    """The most of a snapshot that one commit stores, unless it must be whole at once."""


class SnapshotsDue:
    """Knows whether the next commit has a snapshot: by time or by messages since the last one.

    ``now`` is the time on the monotonic clock (seconds) at which the pipeline was at a snapshot, or recovered.
    """

    def __init__(self, pace: Pace, now: float) -> None:
        self._pace = pace
        self._last = now
        self._since = 0

    @property
    def has_passed(self) -> bool:
        """Return whether messages were committed since the last snapshot."""
        return self._since > 0

    def is_due(self, now: float, messages: int) -> bool:
        """Return whether a commit of so many messages has a snapshot."""
        rows, interval = self._pace.snapshot_rows, self._pace.snapshot_interval_s
        since = self._since + messages
        if rows is not None and since >= rows:
            return True
        return interval is not None and since > 0 and now - self._last >= interval

    def committed(self, now: float, messages: int, *, with_snapshot: bool) -> None:
        """Note a commit."""
        self._since = 0 if with_snapshot else self._since + messages
        if with_snapshot:
            self._last = now
