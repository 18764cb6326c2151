"""Topics in memory that behave as Kafka's do: offsets with holes, retention, an end that readers see.

Thread-safe. Only ``truncate`` removes messages; otherwise they stay, as in a topic with unlimited retention.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rowtide_connectors.errors import GoneError, UnavailableError

MessageHeader = tuple[str, bytes]


@dataclass(slots=True)
class Partition:
    """One partition's log; the columns are parallel and ``offsets`` ascend."""

    earliest: int = 0
    end: int = 0
    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Sequence[MessageHeader] | None] = field(default_factory=list)
    open_from: int | None = None
    """The first offset of the open transaction; None: there is none."""

    @property
    def readable_end(self) -> int:
        """The end of what readers get."""
        return self.end if self.open_from is None else self.open_from


class MemoryBroker:
    """Named topics; producers call it directly, readers come through ``MemorySource``."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, Partition]] = {}
        self._down = False
        self.made: dict[str, int] = {}
        """The number of each topic in creation order; a topic that was deleted and created again has
        a new one."""
        self.sent: dict[str, int] = {}
        """The number of the last message sent by each sender; hold ``changed`` to read or set it."""
        self.senders: dict[str, object] = {}
        """The present sink of each sender; an earlier one cannot send any more."""
        self.compacted: set[str] = set()
        """Topics from which ``compact`` removes messages; hold ``changed`` to read or add."""
        self.changed = threading.Condition(threading.RLock())
        """Notified on every change; hold it to read partitions."""

    def topics(self) -> tuple[str, ...]:
        """Return the topics' names, sorted."""
        with self.changed:
            return tuple(sorted(self._topics))

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic.

        Raises:
          ValueError: it already exists.
        """
        with self.changed:
            if name in self._topics:
                raise ValueError(f'topic "{name}" already exists')
            self._topics[name] = {number: Partition() for number in range(partitions)}
            self.made[name] = max(self.made.values(), default=0) + 1
            self.changed.notify_all()

    def ensure_topic(self, name: str, partitions: int) -> None:
        """Make a topic if it does not exist; one that does keeps its partitions."""
        with self.changed:
            if name not in self._topics:
                self.create_topic(name, partitions)

    def add_partitions(self, name: str, total: int) -> None:
        """Increase a topic to ``total`` partitions; it never loses one."""
        with self.changed:
            held = self.topic(name)
            for number in range(len(held), total):
                held[number] = Partition()
            self.changed.notify_all()

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all messages."""
        with self.changed:
            self.topic(name)
            del self._topics[name]
            self.changed.notify_all()

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        *,
        timestamps: Sequence[int],
        partition: int = 0,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Sequence[MessageHeader] | None] | None = None,
    ) -> None:
        """Append messages; ``timestamps`` are ms since the epoch, one per value."""
        with self.changed:
            held = self._partition(topic, partition)
            given = list(values)
            for name, column in (("timestamps", timestamps), ("keys", keys), ("headers", headers)):
                if column is not None and len(column) != len(given):
                    raise ValueError(f"{len(given)} values, but {len(column)} {name}")
            held.offsets.extend(range(held.end, held.end + len(given)))
            held.timestamps.extend(timestamps)
            held.keys.extend(keys or [None] * len(given))
            held.values.extend(given)
            held.headers.extend(headers or [None] * len(given))
            held.end += len(given)
            self.changed.notify_all()

    def hole(self, topic: str, count: int = 1, *, partition: int = 0) -> None:
        """Skip offsets without messages, as a transaction's control record does."""
        with self.changed:
            self._partition(topic, partition).end += count
            self.changed.notify_all()

    def begin_transaction(self, topic: str, *, partition: int = 0) -> None:
        """Keep what is produced from now on, by whomever, from readers, until the transaction ends."""
        with self.changed:
            held = self._partition(topic, partition)
            held.open_from = held.readable_end

    def end_transaction(self, topic: str, *, partition: int = 0) -> None:
        """Let readers have what a transaction kept back; as in Kafka, its end takes an offset of its own."""
        with self.changed:
            self._partition(topic, partition).open_from = None
            self.hole(topic, partition=partition)

    def truncate(self, topic: str, before: int, *, partition: int = 0) -> None:
        """Delete the messages below offset ``before``, as retention does."""
        with self.changed:
            held = self._partition(topic, partition)
            held.earliest = max(held.earliest, min(before, held.end))
            cut = bisect_left(held.offsets, held.earliest)
            for column in (held.offsets, held.timestamps, held.keys, held.values, held.headers):
                del column[:cut]
            self.changed.notify_all()

    def compact(self, topic: str, *, partition: int = 0) -> None:
        """Keep only the last message of each key, as Kafka's cleaner does; messages without a key stay."""
        with self.changed:
            self.compacted.add(topic)
            held = self._partition(topic, partition)
            last = {key: index for index, key in enumerate(held.keys)}
            kept = [index for index, key in enumerate(held.keys) if key is None or last[key] == index]
            held.offsets = [held.offsets[index] for index in kept]
            held.timestamps = [held.timestamps[index] for index in kept]
            held.values = [held.values[index] for index in kept]
            held.headers = [held.headers[index] for index in kept]
            held.keys = [held.keys[index] for index in kept]
            self.changed.notify_all()

    def set_down(self, down: bool = True) -> None:
        """Reject readers from now on, or serve them again; producers are not rejected."""
        with self.changed:
            self._down = down
            self.changed.notify_all()

    def topic(self, name: str) -> dict[int, Partition]:
        """Return a topic's partitions; the caller holds ``changed``.

        Raises:
          GoneError: the topic does not exist.
        """
        if name not in self._topics:
            raise GoneError(f'topic "{name}" does not exist', hint="Create it, or correct the option.")
        return self._topics[name]

    def serve(self, name: str) -> dict[int, Partition]:
        """Return a topic's partitions to a reader; the caller holds ``changed``.

        Raises:
          UnavailableError, GoneError.
        """
        if self._down:
            raise UnavailableError(f'topic "{name}" cannot be read: the broker is down')
        return self.topic(name)

    def _partition(self, topic: str, partition: int) -> Partition:
        partitions = self.topic(topic)
        if partition not in partitions:
            raise GoneError(f'topic "{topic}" has no partition {partition}')
        return partitions[partition]


_brokers: dict[str, MemoryBroker] = {}
_brokers_lock = threading.Lock()


def memory_broker(name: str = "default") -> MemoryBroker:
    """Return the process's broker of this name, created at the first call."""
    with _brokers_lock:
        return _brokers.setdefault(name, MemoryBroker())
