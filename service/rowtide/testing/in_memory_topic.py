"""A topic in memory that fails when told to, and gives its messages in an order drawn by lot."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rowtide_connectors.api import Fetched, Messages, OffsetRange
from rowtide_connectors.errors import GoneError


@dataclass
class TopicMessage:
    """One message of a topic."""

    timestamp: int
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] | None = None


class InMemoryTopic:
    """A ``TopicSource``. ``rng`` decides how much a poll gives, and in which order of partitions."""

    def __init__(self, name: str, partitions: int, rng: random.Random | None = None) -> None:
        self.topic = name
        self.logs: list[list[TopicMessage]] = [[] for _ in range(partitions)]
        self.earliest = [0] * partitions
        self.append_times = False
        self.rng = rng
        self.fetched: list[tuple[int, tuple[int, ...]]] = []
        self.made = "first"
        self.before: Callable[[str], None] = lambda _step: None
        """Called before each step with its name; a test makes it raise."""

    def add(self, partition: int, timestamp: int, value: bytes | None, **headers: bytes) -> int:
        """Append a message, and return its offset; ``a_b=..`` is the header ``a.b``."""
        named = [(name.replace("_", "."), value) for name, value in headers.items()] or None
        self.logs[partition].append(TopicMessage(timestamp, value, named))
        return len(self.logs[partition]) - 1

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return the offsets that there are, by partition."""
        self.before("ranges")
        return {p: OffsetRange(self.earliest[p], len(log)) for p, log in enumerate(self.logs)}

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        """Return the first offset at or after a time, by partition."""
        return {
            p: next((o for o, m in enumerate(log) if m.timestamp >= timestamp_ms), len(log))
            for p, log in enumerate(self.logs)
        }

    def identity(self) -> str | None:
        """Return what tells the topic from a later one of its name."""
        self.before("identity")
        return self.made

    def is_compacted(self) -> bool:
        """Return whether the log may lose messages."""
        return False

    def has_append_times(self) -> bool:
        """Return whether the broker stamps the messages."""
        return self.append_times

    def reader(self, positions: Mapping[int, int]) -> TopicReader:
        """Return a reader of these partitions."""
        return TopicReader(self, dict(positions))

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return single messages, those that are still there."""
        self.before("fetch")
        self.fetched.append((partition, tuple(offsets)))
        found = {o: self.logs[partition][o] for o in offsets if o >= self.earliest[partition]}
        return {o: Fetched(message.timestamp, message.value) for o, message in found.items()}


class TopicReader:
    """Reads some partitions of a topic."""

    def __init__(self, topic: InMemoryTopic, positions: dict[int, int]) -> None:
        self._topic = topic
        self._positions = positions
        self._paused: set[int] = set()

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        """Return what is there."""
        self._topic.before("poll")
        rng = self._topic.rng
        found = []
        partitions = [p for p in self._positions if p not in self._paused]
        if rng is not None:
            rng.shuffle(partitions)
        for partition in partitions:
            start = self._positions[partition]
            if start < self._topic.earliest[partition]:
                raise GoneError(f"offset {start} of partition {partition} is gone")
            count = max_messages if rng is None else rng.randrange(0, 40)
            got = self._topic.logs[partition][start : start + count]
            if not got:
                continue
            self._positions[partition] = start + len(got)
            found.append(
                Messages(
                    topic=self._topic.topic,
                    partition=partition,
                    offsets=np.arange(start, start + len(got), dtype=np.int64),
                    timestamps=np.array([m.timestamp for m in got], dtype=np.int64),
                    keys=[None] * len(got),
                    values=[m.value for m in got],
                    next_offset=start + len(got),
                    headers=[m.headers for m in got] if any(m.headers for m in got) else None,
                )
            )
        return found

    def pause(self, partitions: Iterable[int]) -> None:
        """Read these partitions no more for now."""
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[int]) -> None:
        """Read these partitions again."""
        self._paused.difference_update(partitions)

    def close(self) -> None:
        """Read nothing more."""
        self._positions = {}
