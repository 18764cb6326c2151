"""Sources and readers over the broker in memory."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from rowtide_connectors.api import Fetched, Messages, OffsetRange, PartitionReader
from rowtide_connectors.errors import GoneError
from rowtide_connectors.memory.broker import MemoryBroker, Partition


class MemorySource:
    """One topic of ``broker``."""

    def __init__(self, broker: MemoryBroker, topic: str) -> None:
        self._broker = broker
        self.topic = topic

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return each partition's current range."""
        with self._broker.changed:
            held = self._broker.serve(self.topic)
            return {
                number: OffsetRange(log.earliest, log.readable_end, log.end - log.readable_end)
                for number, log in held.items()
            }

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        """Return, per partition, the first offset stamped ``timestamp_ms`` or later, else its end."""
        with self._broker.changed:
            return {
                number: next(
                    (
                        offset
                        for offset, stamp in zip(log.offsets, log.timestamps, strict=True)
                        if stamp >= timestamp_ms and offset < log.readable_end
                    ),
                    log.readable_end,
                )
                for number, log in self._broker.serve(self.topic).items()
            }

    def reader(self, positions: Mapping[int, int]) -> PartitionReader:
        """Open a reader at exactly these positions."""
        return MemoryReader(self._broker, self.topic, positions)

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return the messages at these offsets; one that does not exist is left out."""
        found: dict[int, Fetched] = {}
        with self._broker.changed:
            log = self._broker.serve(self.topic).get(partition, Partition())
            for offset in offsets:
                at = bisect_left(log.offsets, offset)
                if at < len(log.offsets) and log.offsets[at] == offset:
                    found[offset] = Fetched(
                        log.timestamps[at], log.values[at], log.keys[at], log.headers[at] or None
                    )
        return found

    def append(self, partition: int, headers: Sequence[tuple[str, bytes]], timestamp_ms: int) -> int:
        """Append a message without key and value; return its offset."""
        with self._broker.changed:
            self._broker.serve(self.topic)
            self._broker.produce(
                self.topic, [None], timestamps=[timestamp_ms], partition=partition, headers=[headers]
            )
            return self._broker.topic(self.topic)[partition].end - 1

    def has_append_times(self) -> bool:
        """Return False, because producers stamp."""
        return False

    def identity(self) -> str | None:
        """Return the topic's number in creation order."""
        with self._broker.changed:
            self._broker.serve(self.topic)
            return str(self._broker.made[self.topic])

    def ask_identity(self, timeout_s: float) -> Callable[[], str | None]:
        """Return the answer of ``identity``, which is known at once."""
        del timeout_s
        found = self.identity()
        return lambda: found

    def is_compacted(self) -> bool:
        """Return whether the topic is compacted."""
        with self._broker.changed:
            self._broker.serve(self.topic)
            return self.topic in self._broker.compacted

    def close(self) -> None:
        """Do nothing: it holds no connections."""


class MemoryReader:
    """Reads partitions in turn, so that none starves; owned by one thread."""

    def __init__(self, broker: MemoryBroker, topic: str, positions: Mapping[int, int]) -> None:
        self._broker = broker
        self._topic = topic
        self._next = dict(positions)
        self._paused: set[int] = set()
        self._turn = 0
        self._closed = False

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        """Return what has arrived; see ``api.PartitionReader``."""
        if self._closed:
            raise ValueError(f'reader of topic "{self._topic}" is closed')
        deadline = time.monotonic() + timeout_s
        with self._broker.changed:
            while True:
                given = self._take(max_messages)
                left = deadline - time.monotonic()
                if given or left <= 0:
                    return given
                self._broker.changed.wait(left)

    def _take(self, max_messages: int) -> list[Messages]:
        logs = self._broker.serve(self._topic)
        readable = [number for number in sorted(self._next) if number not in self._paused]
        self._turn += 1
        given = []
        for step in range(len(readable)):
            number = readable[(self._turn + step) % len(readable)]
            if number not in logs:
                raise GoneError(f'topic "{self._topic}" has no partition {number}')
            taken = self._slice(number, logs[number], max_messages)
            if taken is not None:
                given.append(taken)
                max_messages -= len(taken.values)
        return given

    def _slice(self, number: int, log: Partition, max_messages: int) -> Messages | None:
        position = self._next[number]
        if not log.earliest <= position <= log.readable_end:
            raise GoneError(
                f'topic "{self._topic}" partition {number}: position {position} is not in the log '
                f"({log.earliest} to {log.readable_end})"
            )
        start, readable = bisect_left(log.offsets, position), bisect_left(log.offsets, log.readable_end)
        stop = min(readable, start + max_messages)
        end = (
            (log.offsets[stop - 1] + 1 if stop > start else position) if stop < readable else log.readable_end
        )
        if end == position:
            return None
        self._next[number] = end
        headers = log.headers[start:stop]
        return Messages(
            topic=self._topic,
            partition=number,
            offsets=np.array(log.offsets[start:stop], dtype=np.int64),
            timestamps=np.array(log.timestamps[start:stop], dtype=np.int64),
            keys=log.keys[start:stop],
            values=log.values[start:stop],
            next_offset=end,
            headers=headers if any(headers) else None,
        )

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop reading these partitions."""
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[int]) -> None:
        """Read them again."""
        self._paused.difference_update(partitions)

    def close(self) -> None:
        """Release nothing; further polls raise an error."""
        self._closed = True
