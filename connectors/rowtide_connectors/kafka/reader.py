"""Reads assigned partitions of one topic into columns.

Partitions are assigned at positions that the caller gives; no group is joined
and nothing is committed to Kafka. librdkafka hands out only records of
committed transactions; the end-of-partition notice tells how far the log goes
behind the last of them, so positions also move over control records and over
what compaction took away.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import confluent_kafka as ck
import numpy as np
from numpy.typing import NDArray

from rowtide_connectors.api import Messages
from rowtide_connectors.errors import ConnectorError, UnavailableError
from rowtide_connectors.kafka.client import kafka_errors, open_consumer, place, translated

PROBE_EVERY_S = 1.0
"""How often a broker that was reported down is asked whether it is back, while nothing arrives."""

Column = TypeVar("Column")


class KafkaReader:
    """Reads partitions of ``topic`` from ``positions``; owned by one thread."""

    def __init__(
        self, topic: str, config: Mapping[str, object], positions: Mapping[int, int], *, timeout_s: float
    ) -> None:
        self._topic = topic
        self._timeout_s = timeout_s
        self._next = dict(positions)
        self._trouble: str | None = None
        self._pending: ConnectorError | None = None
        self._probed_at = 0.0
        self._consumer: ck.Consumer | None = open_consumer(config, self._note_trouble)
        with kafka_errors(f'topic "{topic}"'):
            self._consumer.assign(
                [ck.TopicPartition(topic, partition, offset) for partition, offset in positions.items()]
            )

    def poll(self, max_messages: int, timeout_s: float) -> Sequence[Messages]:
        """Give what has arrived; see ``api.Reader``."""
        consumer = self._open()
        if self._pending is not None:
            pending, self._pending = self._pending, None
            raise pending
        # Asked for n messages, librdkafka waits for all n; so take what is there, or wait for one.
        taken = consumer.consume(max_messages, 0)
        if not taken and timeout_s > 0:
            taken = consumer.consume(1, timeout_s)
            if taken and max_messages > 1:
                taken += consumer.consume(max_messages - 1, 0)
        if not taken:
            self._probe(consumer)
            return ()
        given = self._columns(taken)
        if not given and self._pending is not None:
            return self.poll(max_messages, 0)
        return given

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop fetching; what was fetched and not yet given is dropped, and fetched again later."""
        self._open().pause([ck.TopicPartition(self._topic, partition) for partition in partitions])

    def resume(self, partitions: Iterable[int]) -> None:
        """Fetch again from the first message that was not given."""
        self._open().resume([ck.TopicPartition(self._topic, partition) for partition in partitions])

    def close(self) -> None:
        """Leave the broker; twice is harmless."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open(self) -> ck.Consumer:
        if self._consumer is None:
            raise ValueError(f'reader of topic "{self._topic}" is closed')
        return self._consumer

    def _note_trouble(self, error: ck.KafkaError) -> None:
        # librdkafka goes on trying by itself; whether the broker is really gone, poll finds out.
        self._trouble = error.str()

    def _probe(self, consumer: ck.Consumer) -> None:
        """Ask a broker that was reported down whether it is back: an idle topic would never tell."""
        if self._trouble is None or time.monotonic() < self._probed_at + PROBE_EVERY_S:
            return
        reported = self._trouble
        try:
            with kafka_errors(f'topic "{self._topic}"'):
                consumer.list_topics(self._topic, min(self._timeout_s, PROBE_EVERY_S))
        except UnavailableError as error:
            raise UnavailableError(f"{error.message}; reported before: {reported}") from error
        finally:
            self._probed_at = time.monotonic()
        self._trouble = None

    def _columns(self, taken: list[ck.Message]) -> list[Messages]:
        ends: dict[int, int] = {}
        if any(map(ck.Message.error, taken)):
            taken = self._without_notices(taken, ends)
        if taken or ends:
            self._trouble = None
        partitions = np.fromiter(map(ck.Message.partition, taken), np.int32, len(taken))
        offsets = np.fromiter(map(ck.Message.offset, taken), np.int64, len(taken))
        timestamps = np.array([stamp for _, stamp in map(ck.Message.timestamp, taken)], dtype=np.int64)
        keys = list(map(ck.Message.key, taken))
        values = list(map(ck.Message.value, taken))
        headers = list(map(ck.Message.headers, taken))
        given = []
        for partition, runs in _runs(partitions).items():
            own = _joined(headers, runs)
            at = _indices(runs)
            position = int(offsets[at][-1]) + 1
            self._next[partition] = max(position, ends.pop(partition, position))
            given.append(
                Messages(
                    topic=self._topic,
                    partition=partition,
                    offsets=offsets[at],
                    timestamps=timestamps[at],
                    keys=_joined(keys, runs),
                    values=_joined(values, runs),
                    next_offset=self._next[partition],
                    headers=_headers(own) if any(own) else None,
                )
            )
        for partition, end in ends.items():
            if end > self._next[partition]:
                self._next[partition] = end
                given.append(_nothing(self._topic, partition, end))
        return given

    def _without_notices(self, taken: list[ck.Message], ends: dict[int, int]) -> list[ck.Message]:
        """Take notices out: note ends of partitions, and keep an error for after the messages."""
        messages = []
        for message in taken:
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                partition, end = place(message)
                ends[partition] = end
            else:
                self._pending = translated(error, f'topic "{self._topic}" partition {message.partition()}')
        return messages


Runs = list[tuple[int, int]]
"""Where the messages of one partition stand among those taken: first (inclusive), last (exclusive)."""


def _runs(partitions: NDArray[np.int32]) -> dict[int, Runs]:
    """Cut into partitions. librdkafka gives a fetch's messages in a row, so runs are few and long."""
    if not len(partitions):
        return {}
    starts = np.concatenate(([0], np.flatnonzero(np.diff(partitions)) + 1)).tolist()
    runs: dict[int, Runs] = {}
    for start, stop in zip(starts, [*starts[1:], len(partitions)], strict=True):
        runs.setdefault(int(partitions[start]), []).append((start, stop))
    return runs


def _joined(column: list[Column], runs: Runs) -> list[Column]:
    if len(runs) == 1:
        return column[runs[0][0] : runs[0][1]]
    return [value for start, stop in runs for value in column[start:stop]]


def _indices(runs: Runs) -> NDArray[np.int64] | slice:
    if len(runs) == 1:
        return slice(*runs[0])
    return np.concatenate([np.arange(start, stop) for start, stop in runs])


def _headers(column: Sequence[Any]) -> list[list[tuple[str, bytes]] | None]:
    """Give a missing header value as an empty one: nobody tells them apart."""
    return [
        None if headers is None else [(name, value or b"") for name, value in headers] for headers in column
    ]


def _nothing(topic: str, partition: int, next_offset: int) -> Messages:
    none = np.empty(0, dtype=np.int64)
    return Messages(topic, partition, none, none, (), (), next_offset)
