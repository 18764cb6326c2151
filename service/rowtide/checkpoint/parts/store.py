"""The interface of a store of state in parts.

A store has blobs under names. The writer of a blob chooses a name that no other has chosen, so a blob never changes. It
is complete before its name is known to anyone else. The snapshots in the database name the blobs that count
(docs/decisions/0032-state-by-part.md). All others are garbage.

Tasks of Spark get a store pickled: it connects when it is used.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Generator, Iterable, Sequence
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
        """Remove blobs. Names that do not exist are ignored."""


def new_folder() -> str:
    """Return a name for the folder of a pipeline, which no other has, in whatever database."""
    return uuid.uuid4().hex[:16]


def folder_of_commit(folder: str, epoch: int, commit: int) -> str:
    """Return the folder of the blobs that are written for a commit, in that of the pipeline."""
    return f"{folder}/{epoch}/{commit}"


def unnamed(folder: str, epoch: int, named: Iterable[str], found: Iterable[str]) -> list[str]:
    """Return the blobs of a pipeline that no snapshot names, and that none will name.

    Blobs of a later epoch are not among them: its process may be about to commit their names.

    Args:
      folder: that of the pipeline.
      epoch: that of the process that asks. None of its tasks runs.
      named: the blobs that snapshots name. They were read after ``found``.
      found: the blobs that the store has.
    """
    kept = frozenset(named)
    return [each for each in found if each not in kept and _is_until(each, folder, epoch)]


def _is_until(name: str, folder: str, epoch: int) -> bool:
    """Return whether a name is that of a blob of a pipeline, of this epoch or an earlier one."""
    first, _, rest = name.partition("/")
    number, _, blob = rest.partition("/")
    return first == folder and bool(blob) and number.isdecimal() and int(number) <= epoch
