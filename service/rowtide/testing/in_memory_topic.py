"""A topic of the memory connector that fails on request and delivers its messages in random order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from rowtide_connectors.api import Fetched, Messages, OffsetRange, PartitionReader
from rowtide_connectors.memory.broker import MemoryBroker, Partition
from rowtide_connectors.memory.source import MemoryReader, MemorySource


class InMemoryTopic(MemorySource):
    """The only topic of a broker. ``rng`` chooses how much a poll returns, and the order of partitions."""

    def __init__(self, name: str, partitions: int, rng: random.Random | None = None) -> None:
        self.broker = MemoryBroker()
        self.broker.create_topic(name, partitions)
        super().__init__(self.broker, name)
        self.append_times = False
        self.rng = rng
        self.fetched: list[tuple[int, tuple[int, ...]]] = []
        self.made = "first"
        """The identity, which need not change with the messages."""
        self.before: Callable[[str], None] = lambda _step: None
        """Called before each step with its name; a test makes it raise."""

    @property
    def partitions(self) -> dict[int, Partition]:
        """The log of each partition; a test may replace and remove them."""
        return self.broker.topic(self.topic)

    def add(self, partition: int, timestamp: int, value: bytes | None, **headers: bytes) -> int:
        """Append a message and return its offset; ``a_b=..`` is the header ``a.b``."""
        named = [(name.replace("_", "."), value) for name, value in headers.items()] or None
        self.broker.produce(self.topic, [value], timestamps=[timestamp], partition=partition, headers=[named])
        return self.partitions[partition].end - 1

    def truncate(self, partition: int, before: int) -> None:
        """Remove the messages below offset ``before``, as retention does."""
        self.broker.truncate(self.topic, before, partition=partition)

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return the range of stored offsets, by partition."""
        self.before("ranges")
        return super().ranges()

    def identity(self) -> str | None:
        """Return the identity of the topic, which distinguishes it from a later topic of the same name."""
        self.before("identity")
        return self.made

    def has_append_times(self) -> bool:
        """Return whether the broker stamps the messages."""
        return self.append_times

    def reader(self, positions: Mapping[int, int]) -> PartitionReader:
        """Return a reader of these partitions."""
        readers = {
            partition: MemoryReader(self.broker, self.topic, {partition: at})
            for partition, at in positions.items()
        }
        return TopicReader(self, readers)

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return the requested messages that are still stored."""
        self.before("fetch")
        self.fetched.append((partition, tuple(offsets)))
        return super().fetch(partition, offsets)

    def close(self) -> None:
        """Do nothing: no connection is open."""


class TopicReader:
    """Reads some partitions of a topic, each with its own reader; never waits."""

    def __init__(self, topic: InMemoryTopic, readers: Mapping[int, PartitionReader]) -> None:
        self._topic = topic
        self._readers = readers
        self._paused: set[int] = set()

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        """Return the available messages."""
        self._topic.before("poll")
        rng = self._topic.rng
        partitions = [partition for partition in self._readers if partition not in self._paused]
        if rng is not None:
            rng.shuffle(partitions)
        found: list[Messages] = []
        left = max_messages
        for partition in partitions:
            wanted = left if rng is None else min(left, rng.randrange(40))
            polled = self._readers[partition].poll(wanted, 0)
            left -= sum(len(each.offsets) for each in polled)
            found += polled
        return found

    def pause(self, partitions: Iterable[int]) -> None:
        """Pause these partitions."""
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[int]) -> None:
        """Resume these partitions."""
        self._paused.difference_update(partitions)

    def close(self) -> None:
        """Close the reader."""
        for reader in self._readers.values():
            reader.close()
