"""The interface of a store of state in parts.

A store has blobs under names. The writer of a blob chooses a name that no other has chosen, so a blob never changes. It
is complete before its name is known to anyone else. The snapshots in the database name the blobs that count
(docs/decisions/0032-state-by-part.md). All others are garbage.

Tasks of Spark get a store pickled: it connects when it is used.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from hashlib import blake2b
from typing import Protocol

IN_DATABASE = "database"
"""The place of the store in the database of the checkpoint."""
PIECE_BYTES = 1 << 20
"""Bytes that are read, or written, at once."""


class PartStore(Protocol):
    """A store of blobs.

    Every method raises UnavailableError when the store cannot be reached.
    """

    @property
    def where(self) -> str:
        """The place of the store, as snapshots name it: without secrets."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Store a blob under a name that is new. When this returns, it survives a crash of the machine."""

    def read(self, name: str) -> Generator[bytes]:
        """Read a blob, in pieces.

        Raises:
          GoneError: there is none of this name.
        """

    def names(self, folder: str) -> Sequence[str]:
        """Return the names of the blobs in a folder and below it, in order."""

    def drop(self, names: Collection[str]) -> None:
        """Remove blobs. One that is not there is no error."""


def folder_of(pipeline: str) -> str:
    """Return the folder of the blobs of a pipeline, whose name may have any characters."""
    return blake2b(pipeline.encode(), digest_size=8).hexdigest()


def folder_of_commit(pipeline: str, epoch: int, commit: int) -> str:
    """Return the folder of the blobs that are written for a commit."""
    return f"{folder_of(pipeline)}/{epoch}/{commit}"


def collect(store: PartStore, pipeline: str, epoch: int, named: Iterable[str], found: Iterable[str]) -> int:
    """Remove the blobs of a pipeline that no snapshot names, and return their number.

    Blobs of a later epoch stay: its process may be about to commit their names.

    Args:
      store: the store.
      pipeline: the name of the pipeline.
      epoch: that of the process that collects. None of its tasks runs.
      named: the blobs that snapshots name. They were read after ``found``.
      found: the blobs that the store has.
    """
    kept = frozenset(named)
    mine = f"{folder_of(pipeline)}/"
    gone = [
        each
        for each in found
        if each not in kept and each.startswith(mine) and int(each[len(mine) :].split("/")[0]) <= epoch
    ]
    store.drop(gone)
    return len(gone)
