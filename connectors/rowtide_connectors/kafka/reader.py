"""Reads assigned partitions of one topic into columns.

The caller names the positions of the assigned partitions. The reader joins no group and commits
nothing to Kafka. librdkafka returns only records of committed transactions. Its end-of-partition
notice has the end of the log after the last of them, so positions also move over control records and
compacted records.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rowtide_connectors.api import Messages
from rowtide_connectors.errors import ConnectorError, UnavailableError
from rowtide_connectors.kafka.native import NativeConsumer, library
from rowtide_connectors.kafka.plain import PlainConsumer
from rowtide_connectors.kafka.taken import Consumer, TakenMessages

PROBE_EVERY_S = 1.0
"""Seconds between checks of a broker that was reported down, while nothing arrives."""

Column = TypeVar("Column")


class KafkaReader:
    """Reads partitions of ``topic`` from ``positions``, which ``consumer`` was opened at; owned by one thread."""

    def __init__(
        self, topic: str, consumer: Consumer, positions: Mapping[int, int], *, timeout_s: float
    ) -> None:
        self._topic = topic
        self._timeout_s = timeout_s
        self._next = dict(positions)
        self._pending: ConnectorError | None = None
        self._probed_at = 0.0
        self._consumer: Consumer | None = consumer

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        """Return what has arrived; see ``api.PartitionReader``."""
        consumer = self._open()
        if self._pending is not None:
            pending, self._pending = self._pending, None
            raise pending
        taken = consumer.take(max_messages, timeout_s)
        if taken is None:
            self._probe(consumer)
            return ()
        consumer.trouble = None
        self._pending = taken.error
        given = self._messages(taken)
        if not given and self._pending is not None:
            return self.poll(max_messages, 0)
        return given

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop fetching; messages that were fetched and not returned are dropped, and fetched again later."""
        self._open().pause(partitions)

    def resume(self, partitions: Iterable[int]) -> None:
        """Fetch again from the first message that was not returned."""
        self._open().resume(partitions)

    def close(self) -> None:
        """Leave the broker; idempotent."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open(self) -> Consumer:
        if self._consumer is None:
            raise ValueError(f'reader of topic "{self._topic}" is closed')
        return self._consumer

    def _probe(self, consumer: Consumer) -> None:
        """Check a broker that was reported down: an idle topic never shows that it is up again.

        Raises:
          UnavailableError: it is not.
        """
        if consumer.trouble is None or time.monotonic() < self._probed_at + PROBE_EVERY_S:
            return
        reported = consumer.trouble
        up = consumer.is_up(min(self._timeout_s, PROBE_EVERY_S))
        self._probed_at = time.monotonic()
        if not up:
            raise UnavailableError(f'topic "{self._topic}" cannot be read: {reported}')
        consumer.trouble = None

    def _messages(self, taken: TakenMessages) -> list[Messages]:
        given = []
        ends = dict(taken.ends)
        for partition, runs in _runs(taken.partitions).items():
            at = _indices(runs)
            offsets = taken.offsets[at]
            position = int(offsets[-1]) + 1
            self._next[partition] = max(position, ends.pop(partition, position))
            headers = None if taken.headers is None else _joined(taken.headers, runs)
            given.append(
                Messages(
                    topic=self._topic,
                    partition=partition,
                    offsets=offsets,
                    timestamps=taken.timestamps[at],
                    keys=_joined(taken.keys, runs),
                    values=_joined(taken.values, runs),
                    next_offset=self._next[partition],
                    headers=headers if headers is not None and any(headers) else None,
                )
            )
        for partition, end in ends.items():
            if end > self._next[partition]:
                self._next[partition] = end
                given.append(_nothing(self._topic, partition, end))
        return given


def open_reading(topic: str, config: Mapping[str, object], positions: Mapping[int, int]) -> Consumer:
    """Open the fastest available consumer of these partitions."""
    found = library()
    if isinstance(found, str):
        return PlainConsumer(topic, config, positions)
    return NativeConsumer(found, topic, config, positions)


Runs = list[tuple[int, int]]
"""The range of one partition's messages among those taken: first (inclusive), last (exclusive)."""


def _runs(partitions: NDArray[np.int32]) -> dict[int, Runs]:
    """Split into partitions. librdkafka returns a fetch's messages in a row, so runs are few and long."""
    if not len(partitions):
        return {}
    starts = np.concatenate(([0], np.flatnonzero(np.diff(partitions)) + 1)).tolist()
    runs: dict[int, Runs] = {}
    for start, stop in zip(starts, [*starts[1:], len(partitions)], strict=True):
        runs.setdefault(int(partitions[start]), []).append((start, stop))
    return runs


def _joined(column: Sequence[Column], runs: Runs) -> Sequence[Column]:
    if len(runs) == 1:
        return column[runs[0][0] : runs[0][1]]
    return [value for start, stop in runs for value in column[start:stop]]


def _indices(runs: Runs) -> NDArray[np.int64] | slice:
    if len(runs) == 1:
        return slice(*runs[0])
    return np.concatenate([np.arange(start, stop) for start, stop in runs])


def _nothing(topic: str, partition: int, next_offset: int) -> Messages:
    none = np.empty(0, dtype=np.int64)
    return Messages(topic, partition, none, none, (), (), next_offset)
