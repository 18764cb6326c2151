"""When a running pipeline commits."""

from __future__ import annotations

from dataclasses import dataclass

MAX_COMMIT_BYTES = 128 * 1024 * 1024
"""Bytes of messages that bring a commit forward: until it they are kept, for the raw bytes of error rows."""


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
