"""Files as a log: the order in which they are read is logged before anything is read of them.

A directory has no order and no positions of its own. So each file that is found gets the next number, and the numbers
are kept: by the service in the checkpoint's database (docs/decisions/0018-files-as-sources.md), or, for a look without
a pipeline, in memory. The offset of a row is its place in its file plus ``FILE_ROWS`` times the number of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

FILE_ROWS = 10_000_000_000
"""The offsets of each file: more than a file has lines, and easy to read in decimal digits."""
MAX_FILES = (1 << 63) // FILE_ROWS - 1
"""The most files of a stream: offsets have 64 bits."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as it was found. ``name`` is its path below the server's url; ``modified_ms`` is UTC since 1970."""

    name: str
    partition: int
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file with its number, from 0 on over all partitions of the stream."""

    number: int
    file: FoundFile

    @property
    def begin(self) -> int:
        """The first offset of the file."""
        return self.number * FILE_ROWS

    @property
    def end(self) -> int:
        """The first offset after the file."""
        return self.begin + FILE_ROWS


class FileLog(Protocol):
    """The files of one stream in their order. What was added never changes."""

    @property
    def takes_files(self) -> bool:
        """Whether files can be added. Else the files that are in it are all there are."""

    def read(self, begin: int) -> Sequence[ListedFile]:
        """Return the files with number ``begin`` and greater ones, in order.

        Raises:
          UnavailableError: the log cannot be read now.
        """

    def add(self, begin: int, files: Sequence[FoundFile]) -> None:
        """Add files, of which the first gets the number ``begin``: the number of files so far. All or none.

        Raises:
          UnavailableError: they were added or not; read the log again.
        """


@runtime_checkable
class ListedSource(Protocol):
    """A source of files. Without ``keep``, it lists them in memory, once for each source."""

    def keep(self, log: FileLog, *, monotonic: Callable[[], float], sleep: Callable[[float], None]) -> None:
        """Use a log from now on, and a clock to wait with. Its files are taken over."""

    def look(self) -> None:
        """Look for new files now, and add them to the log.

        Raises:
          UnavailableError, GoneError; what ``FileLog.add`` raises.
        """

    def place(self, partition: int, offset: int) -> str | None:
        """Return the file and the row or line of an offset, for people; None: no file has it."""

    def newest(self) -> Mapping[int, int]:
        """Return, of each partition with files, the first offset of the last one, for samples."""


class MemoryFileLog:
    """A log in memory; see ``FileLog``."""

    takes_files = True

    def __init__(self) -> None:
        self._files: list[ListedFile] = []

    def read(self, begin: int) -> Sequence[ListedFile]:
        """Return files."""
        return self._files[begin:]

    def add(self, begin: int, files: Sequence[FoundFile]) -> None:
        """Add files."""
        if begin != len(self._files):
            raise ValueError(f"the log has {len(self._files)} files, not {begin}")
        self._files += [ListedFile(begin + at, file) for at, file in enumerate(files)]
