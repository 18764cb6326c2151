"""Which files a stream has, in their order: those of the log, and those that a look finds and adds to it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rowtide_connectors.errors import MismatchError
from rowtide_connectors.files.place import Directory, Pattern
from rowtide_connectors.listed import MAX_FILES, FileLog, FoundFile, ListedFile, MemoryFileLog

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Looking:
    """What is looked for, and when.

    Args:
      pattern: which files.
      order: of files that are found together: by name, or by the time of modification and then by name.
      partitions: the number of partitions. The name of a file decides which one it is in.
      every_s: the least time between two looks.
      quiet_s: a file is listed once it has not changed for this time.
    """

    pattern: Pattern
    order: str
    partitions: int
    every_s: float
    quiet_s: float


class FileListing:
    """The files of a stream. Threads share it: those of readers, and the one that asks for ranges."""

    def __init__(self, place: Directory, looking: Looking) -> None:
        self.place = place
        self._looking = looking
        self._lock = threading.Lock()
        self._log: FileLog = MemoryFileLog()
        self.monotonic: Callable[[], float] = time.monotonic
        self.sleep: Callable[[float], None] = time.sleep
        self._known: dict[str, FoundFile] = {}
        self._count = 0
        self._files: Mapping[int, Sequence[ListedFile]] = {
            partition: () for partition in range(looking.partitions)
        }
        """Replaced, never changed."""
        self._due = float("-inf")
        self._changing: dict[str, tuple[FoundFile, float]] = {}
        """Files that are not listed yet, and since when they are as they are."""
        self._warned: set[str] = set()

    def keep(self, log: FileLog, monotonic: Callable[[], float], sleep: Callable[[float], None]) -> None:
        """Use another log from now on, and a clock."""
        with self._lock:
            self._log, self.monotonic, self.sleep = log, monotonic, sleep
            self._known, self._count, self._due = {}, 0, float("-inf")
            self._files = {partition: () for partition in range(self._looking.partitions)}

    def by_partition(self) -> Mapping[int, Sequence[ListedFile]]:
        """Return the listed files of each partition, in order."""
        return self._files

    def look_if_due(self) -> bool:
        """Look if it is time to; return whether it was.

        Raises:
          As ``look``.
        """
        if self.monotonic() < self._due:
            return False
        self.look()
        return True

    def look(self) -> None:
        """Read the log; if it takes files, look for new ones and add them.

        Raises:
          GoneError: the folder does not exist. UnavailableError. MismatchError: there are too many files.
        """
        with self._lock:
            self._take_over()
            if self._log.takes_files:
                looking = self._looking
                found = self.place.find(looking.pattern, looking.order, looking.partitions)
                if new := self._new(found):
                    self._log.add(self._count, new)
                    self._take_over()
            self._due = self.monotonic() + self._looking.every_s

    def _take_over(self) -> None:
        """Read what the log has more."""
        listed = self._log.read(self._count)
        if not listed:
            return
        files = {partition: list(held) for partition, held in self._files.items()}
        for each in listed:
            files.setdefault(each.file.partition, []).append(each)
            self._known[each.file.name] = each.file
        self._count += len(listed)
        self._files = files

    def _new(self, found: Sequence[FoundFile]) -> list[FoundFile]:
        """Return the files that are not known and have not changed for long enough."""
        now = self.monotonic()
        new = []
        for file in found:
            known = self._known.get(file.name)
            if known is not None:
                self._warn_if_changed(known, file)
                continue
            last, since = self._changing.get(file.name, (None, now))
            since = since if last == file else now
            if now - since >= self._looking.quiet_s:
                new.append(file)
            else:
                self._changing[file.name] = (file, since)
        for file in new:
            self._changing.pop(file.name, None)
        if self._count + len(new) > MAX_FILES:
            raise MismatchError(f'"{self.place.shown}" has more than {MAX_FILES} files')
        return new

    def _warn_if_changed(self, known: FoundFile, file: FoundFile) -> None:
        if (known.size, known.modified_ms) != (file.size, file.modified_ms) and file.name not in self._warned:
            self._warned.add(file.name)
            _log.warning(
                'file "%s" of "%s" has changed since it was listed: what is new in it is not read',
                file.name,
                self.place.shown,
            )
