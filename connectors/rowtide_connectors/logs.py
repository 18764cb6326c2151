"""A source over any log that can be read at a position: the part of a source that does not depend on a technology."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from rowtide_connectors.api import Fetched, Messages, OffsetRange, PartitionReader
from rowtide_connectors.errors import GoneError

PAUSE_S = 0.05
"""How long a reader at the end of a log waits before it looks again."""
SCANNED_MESSAGES = 1000
"""How many messages a search by time reads at once."""


class PositionedLog(Protocol):
    """One topic. Several threads may use it at a time. A subclass has no identity and no connections to release."""

    topic: str

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return the current range of every partition.

        Raises:
          UnavailableError, GoneError.
        """

    def read(self, partition: int, position: int, max_messages: int) -> Messages | None:
        """Return messages from ``position`` on, which is in the range of the partition; None: there are none.

        Raises:
          UnavailableError, GoneError.
        """

    def identity(self) -> str | None:
        """Return an id that differs from that of a later topic of the same name; None if it is unknown.

        Raises:
          UnavailableError, GoneError.
        """
        return None

    def close(self) -> None:
        """Release its connections; idempotent."""
        return


class LogSource:
    """A log as source; see ``api.TopicSource``. Messages are found by time and by offset through ``read``."""

    def __init__(self, log: PositionedLog) -> None:
        self._log = log
        self.topic = log.topic

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return each partition's current range."""
        return self._log.ranges()

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        """Return, per partition, the first offset stamped ``timestamp_ms`` or later, else its end."""
        return {number: self._offset_at(number, held, timestamp_ms) for number, held in self.ranges().items()}

    def _offset_at(self, partition: int, held: OffsetRange, timestamp_ms: int) -> int:
        position = held.earliest
        while position < held.end:
            found = self._log.read(partition, position, SCANNED_MESSAGES)
            if found is None:
                break
            for offset, stamp in zip(found.offsets.tolist(), found.timestamps.tolist(), strict=True):
                if stamp >= timestamp_ms:
                    return int(offset)
            position = found.next_offset
        return held.end

    def reader(self, positions: Mapping[int, int]) -> PartitionReader:
        """Open a reader at exactly these positions."""
        return PositionedReader(self._log, positions)

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return the messages at these offsets; one that does not exist is left out."""
        held = self.ranges().get(partition, OffsetRange(0, 0))
        found = {}
        for offset in offsets:
            read = self._log.read(partition, offset, 1) if held.earliest <= offset < held.end else None
            if read is not None and read.offsets.tolist()[:1] == [offset]:
                headers = None if read.headers is None else read.headers[0]
                found[offset] = Fetched(int(read.timestamps[0]), read.values[0], read.keys[0], headers)
        return found

    def has_append_times(self) -> bool:
        """Return False: nothing is known about the clock of the log."""
        return False

    def identity(self) -> str | None:
        """Return the topic's id."""
        return self._log.identity()

    def ask_identity(self, timeout_s: float) -> Callable[[], str | None]:
        """Return the answer of ``identity``, which is known at once."""
        del timeout_s
        found = self.identity()
        return lambda: found

    def is_compacted(self) -> bool:
        """Return False: a message stays as it is until it is deleted with those before it."""
        return False

    def close(self) -> None:
        """Close the log."""
        self._log.close()


class PositionedReader:
    """Reads partitions of a log in turn, so that none starves; see ``api.PartitionReader``."""

    def __init__(self, log: PositionedLog, positions: Mapping[int, int]) -> None:
        self._log = log
        self._next = dict(positions)
        self._paused: set[int] = set()
        self._turn = 0
        self._closed = False

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        """Return what has arrived."""
        if self._closed:
            raise ValueError(f'reader of topic "{self._log.topic}" is closed')
        deadline = time.monotonic() + timeout_s
        while True:
            found = self._take(max_messages)
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found
            time.sleep(min(PAUSE_S, left))

    def _take(self, max_messages: int) -> list[Messages]:
        readable = [number for number in sorted(self._next) if number not in self._paused]
        ranges = self._log.ranges() if readable else {}
        self._turn += 1
        found = []
        for step in range(len(readable)):
            number = readable[(self._turn + step) % len(readable)]
            self._check(number, ranges.get(number))
            if max_messages < 1:
                break
            messages = self._log.read(number, self._next[number], max_messages)
            if messages is not None:
                self._next[number] = messages.next_offset
                max_messages -= len(messages.values)
                found.append(messages)
        return found

    def _check(self, partition: int, held: OffsetRange | None) -> None:
        if held is None:
            raise GoneError(f'topic "{self._log.topic}" has no partition {partition}')
        position = self._next[partition]
        if not held.earliest <= position <= held.end:
            raise GoneError(
                f'topic "{self._log.topic}" partition {partition}: position {position} is not in the log '
                f"({held.earliest} to {held.end})"
            )

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop reading these partitions."""
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[int]) -> None:
        """Read them again."""
        self._paused.difference_update(partitions)

    def close(self) -> None:
        """Release nothing: the log stays open."""
        self._closed = True
