"""The files of a directory as a topic: readers go through them in their logged order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rowtide_connectors.api import Fetched, Messages, OffsetRange, PartitionReader
from rowtide_connectors.errors import GoneError
from rowtide_connectors.files.batches import GROUP_BYTES, FileRows
from rowtide_connectors.files.content import DAMAGE, Content
from rowtide_connectors.files.listing import FileListing
from rowtide_connectors.listed import FILE_ROWS, FileLog, ListedFile

_NAP_S = 0.1
"""The longest wait between two looks at the listing."""
_MOST_BYTES = 4 * GROUP_BYTES
"""A poll ends with the group of rows that reaches it."""


class FilesSource:
    """The files of one stream; see ``api.TopicSource`` and ``listed.ListedSource``.

    Args:
      topic: the url and the pattern, for people and for the checkpoint.
      listing: which files there are, in order.
      content: how they are read.
    """

    def __init__(self, topic: str, listing: FileListing, content: Content) -> None:
        self.topic = topic
        self.listing = listing
        self._content = content

    def keep(self, log: FileLog, *, monotonic: Callable[[], float], sleep: Callable[[float], None]) -> None:
        """Use a log of the service; see ``listed.ListedSource``."""
        self.listing.keep(log, monotonic, sleep)

    def look(self) -> None:
        """Look for new files now."""
        self.listing.look()

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return the range of each partition: its listed files, and new ones if it is time to look for them."""
        self.listing.look_if_due()
        return {partition: _range(files) for partition, files in self.listing.by_partition().items()}

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        """Return the first file of each partition that was modified then or later, else the end."""
        ranges = self.ranges()
        return {
            partition: next(
                (each.begin for each in files if each.file.modified_ms >= timestamp_ms), ranges[partition].end
            )
            for partition, files in self.listing.by_partition().items()
        }

    def reader(self, positions: Mapping[int, int]) -> PartitionReader:
        """Open a reader at exactly these positions."""
        return FilesReader(self, positions)

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return the rows at these offsets; reads their files up to the last of them."""
        found: dict[int, Fetched] = {}
        wanted: dict[int, set[int]] = {}
        for offset in offsets:
            wanted.setdefault(offset // FILE_ROWS, set()).add(offset)
        for listed in self._files_to(partition, max(offsets, default=0)):
            own = wanted.get(listed.number)
            if own is None:
                continue
            stamp = listed.file.modified_ms
            if listed.begin + DAMAGE in own:
                found[listed.begin + DAMAGE] = Fetched(stamp, None)
                own.discard(listed.begin + DAMAGE)
            for rows in self.rows(listed, min(own) - listed.begin) if own else ():
                for place, value in zip(rows.places, rows.values, strict=True):
                    if listed.begin + place in own:
                        found[listed.begin + place] = Fetched(stamp, value)
                if listed.begin + rows.places[-1] >= max(own):
                    break
        return found

    def _files_to(self, partition: int, offset: int) -> Sequence[ListedFile]:
        """Return the files of a partition; read the list again if none of them has the offset."""
        if offset >= _range(self.listing.by_partition().get(partition, ())).end:
            self.listing.look()
        return self.listing.by_partition().get(partition, ())

    def rows(self, listed: ListedFile, skip: int) -> Generator[FileRows]:
        """Yield the rows of a file from place ``skip`` on."""
        return self._content.rows(self.listing.place, listed.file, skip)

    def place(self, partition: int, offset: int) -> str | None:
        """Return the file of an offset, and the number of the row or line in it, from 1 on."""
        number, place = divmod(offset, FILE_ROWS)
        listed = next((each for each in self._files_to(partition, offset) if each.number == number), None)
        if listed is None:
            return None
        name = listed.file.name
        return f'file "{name}"' + ("" if place == DAMAGE else f", {self._content.unit(name)} {place + 1}")

    def newest(self) -> Mapping[int, int]:
        """Return the beginning of the last file of each partition that has one."""
        self.listing.look_if_due()
        return {
            partition: files[-1].begin for partition, files in self.listing.by_partition().items() if files
        }

    def has_append_times(self) -> bool:
        """Return False: a file may come that is older than those before it."""
        return False

    def identity(self) -> str | None:
        """Return None: the listing is kept with the positions."""
        return None

    def ask_identity(self, timeout_s: float) -> Callable[[], str | None]:
        """Return a function that returns None."""
        del timeout_s
        return self.identity

    def is_compacted(self) -> bool:
        """Return False: a file that was listed must stay as it is."""
        return False

    def close(self) -> None:
        """Do nothing: files are closed by their readers."""


def _range(files: Sequence[ListedFile]) -> OffsetRange:
    # From 0 on also if the first file has another number: a reader may have waited there for it.
    return OffsetRange(0, files[-1].end if files else 0)


@dataclass(slots=True)
class _Cursor:
    """The position of a partition, and the open file there."""

    position: int
    at: int = 0
    """The index of the open file, or of the next one, among the files of the partition."""
    rows: Generator[FileRows] | None = None
    rest: FileRows | None = None
    """What was read and is not taken yet, from ``taken`` on."""
    taken: int = 0


@dataclass(slots=True)
class _Taken:
    """What one poll takes of a partition."""

    offsets: list[int] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    damaged: dict[int, str] = field(default_factory=dict)
    size: int = 0

    def add(self, listed: ListedFile, rows: FileRows, begin: int, end: int) -> None:
        """Add the rows from index ``begin`` to ``end`` of a group."""
        before = len(self.offsets) - begin
        self.offsets += [listed.begin + place for place in rows.places[begin:end]]
        self.stamps += [listed.file.modified_ms] * (end - begin)
        self.values += rows.values[begin:end]
        self.damaged |= {index + before: why for index, why in rows.damaged.items() if begin <= index < end}
        self.size += sum(len(value or b"") for value in rows.values[begin:end])


class FilesReader:
    """Reads partitions in turn, and looks for new files when that is due; see ``api.PartitionReader``."""

    def __init__(self, source: FilesSource, positions: Mapping[int, int]) -> None:
        self._source = source
        self._cursors = {partition: _Cursor(position) for partition, position in positions.items()}
        self._paused: set[int] = set()
        self._turn = 0
        self._closed = False

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        """Return the next rows; without any, look for new files until the time has passed."""
        if self._closed:
            raise ValueError(f'reader of "{self._source.topic}" is closed')
        listing = self._source.listing
        deadline = listing.monotonic() + timeout_s
        while True:
            found = self._take(max_messages)
            left = deadline - listing.monotonic()
            if found or (listing.look_if_due() and (found := self._take(max_messages))) or left <= 0:
                return found
            listing.sleep(min(left, _NAP_S))

    def _take(self, max_messages: int) -> list[Messages]:
        files = self._source.listing.by_partition()
        if any(each.position > _range(files.get(at, ())).end for at, each in self._cursors.items()):
            self._source.listing.look()
            files = self._source.listing.by_partition()
        readable = [partition for partition in sorted(self._cursors) if partition not in self._paused]
        self._turn += 1
        given = []
        for step in range(len(readable)):
            if max_messages <= 0:
                break
            partition = readable[(self._turn + step) % len(readable)]
            messages = self._of_partition(partition, files.get(partition, ()), max_messages)
            if messages is not None:
                given.append(messages)
                max_messages -= len(messages.values)
        return given

    def _of_partition(self, partition: int, files: Sequence[ListedFile], most: int) -> Messages | None:
        """Return the next rows of a partition; None: there are none yet."""
        cursor, taken = self._cursors[partition], _Taken()
        before = cursor.position
        end = _range(files).end
        if cursor.position > end:
            raise GoneError(
                f'"{self._source.topic}" partition {partition}: position {cursor.position} is not in the listing, '
                f"which ends at {end}"
            )
        while len(taken.offsets) < most and taken.size < _MOST_BYTES and cursor.position < end:
            self._advance(cursor, files, taken, most - len(taken.offsets))
        if cursor.position == before:
            return None
        return Messages(
            topic=self._source.topic,
            partition=partition,
            offsets=np.array(taken.offsets, dtype=np.int64),
            timestamps=np.array(taken.stamps, dtype=np.int64),
            keys=[None] * len(taken.offsets),
            values=taken.values,
            next_offset=cursor.position,
            damaged=taken.damaged or None,
        )

    def _advance(self, cursor: _Cursor, files: Sequence[ListedFile], taken: _Taken, most: int) -> None:
        """Take at most ``most`` rows of one group, or end a file, and move the position."""
        if cursor.rows is None:
            while files[cursor.at].end <= cursor.position:
                cursor.at += 1
            begin = files[cursor.at].begin
            cursor.rows = self._source.rows(files[cursor.at], max(0, cursor.position - begin))
        listed = files[cursor.at]
        if cursor.rest is None:
            cursor.rest, cursor.taken = next(cursor.rows, None), 0
        if cursor.rest is None:
            cursor.rows = None
            cursor.position = listed.end
            return
        stop = min(len(cursor.rest), cursor.taken + most)
        taken.add(listed, cursor.rest, cursor.taken, stop)
        cursor.position = taken.offsets[-1] + 1
        cursor.taken = stop
        if stop == len(cursor.rest):
            cursor.rest = None

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop reading these partitions; their files are closed."""
        self._paused.update(partitions)
        for partition in partitions:
            if partition in self._cursors:
                self._release(partition)

    def resume(self, partitions: Iterable[int]) -> None:
        """Read them again."""
        self._paused.difference_update(partitions)

    def close(self) -> None:
        """Close the open files."""
        self._closed = True
        for partition in self._cursors:
            self._release(partition)

    def _release(self, partition: int) -> None:
        """Close the file of a partition; its position stays."""
        cursor = self._cursors[partition]
        if cursor.rows is not None:
            cursor.rows.close()
        cursor.rows = cursor.rest = None
