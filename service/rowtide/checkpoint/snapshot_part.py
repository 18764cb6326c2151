"""What one commit stores of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunk:
    """One row of the chunks' table."""

    part: int
    chunk: int
    content: bytes


@dataclass(frozen=True, slots=True)
class SnapshotEnd:
    """What makes stored chunks a snapshot. ``size_bytes`` counts all of its chunks."""

    manifest: str
    checksum: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """The chunks of a snapshot that one commit stores.

    ``commits`` is the number of the commit at which the snapshot was taken, which names it together with the epoch.
    ``end`` comes with its last part.
    """

    commits: int
    is_first: bool
    chunks: Sequence[Chunk]
    end: SnapshotEnd | None
