"""A consumer on confluent_kafka, for every platform that it supports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import confluent_kafka as ck
import numpy as np

from rowtide_connectors.errors import ConnectorError
from rowtide_connectors.kafka.client import kafka_errors, open_consumer, place, translated
from rowtide_connectors.kafka.taken import Headers, TakenMessages

AT_ONCE = 2000
"""Message objects that are alive at a time: Python's garbage collector scans many more repeatedly."""


class PlainConsumer:
    """See ``taken.Consumer``."""

    def __init__(self, topic: str, config: Mapping[str, object], positions: Mapping[int, int]) -> None:
        self._topic = topic
        self.trouble: str | None = None
        self._consumer = open_consumer(config, self._note_trouble)
        with kafka_errors(f'topic "{topic}"'):
            self._consumer.assign([ck.TopicPartition(topic, *each) for each in positions.items()])

    def take(self, max_messages: int, timeout_s: float) -> TakenMessages | None:
        """Take the available messages, in runs of ``AT_ONCE``."""
        found = _Columns()
        while found.count < max_messages and found.error is None:
            # librdkafka waits until it has all n requested messages, so take the available ones or
            # wait for one.
            taken = self._consumer.consume(min(AT_ONCE, max_messages - found.count), 0)
            if not taken and not found.count and not found.ends and timeout_s > 0:
                taken = self._consumer.consume(1, timeout_s)
                timeout_s = 0
            if not taken:
                break
            found.add(self._topic, taken)
        return found.taken() if found.count or found.ends or found.error else None

    def is_up(self, timeout_s: float) -> bool:
        """Ask for the topic's metadata."""
        try:
            self._consumer.list_topics(self._topic, timeout_s)
        except ck.KafkaException:
            return False
        return True

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop fetching."""
        self._consumer.pause([ck.TopicPartition(self._topic, partition) for partition in partitions])

    def resume(self, partitions: Iterable[int]) -> None:
        """Fetch again."""
        self._consumer.resume([ck.TopicPartition(self._topic, partition) for partition in partitions])

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _note_trouble(self, error: ck.KafkaError) -> None:
        self.trouble = error.str()


class _Columns:
    """Gathers the fields of messages, and releases the messages."""

    def __init__(self) -> None:
        self.count = 0
        self.ends: dict[int, int] = {}
        self.error: ConnectorError | None = None
        self._partitions: list[int | None] = []
        self._offsets: list[int | None] = []
        self._timestamps: list[int] = []
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._headers: list[Any] = []

    def add(self, topic: str, messages: list[ck.Message]) -> None:
        if any(map(ck.Message.error, messages)):
            messages = self._without_notices(topic, messages)
        self.count += len(messages)
        self._partitions += map(ck.Message.partition, messages)
        self._offsets += map(ck.Message.offset, messages)
        self._timestamps += [stamp for _, stamp in map(ck.Message.timestamp, messages)]
        self._keys += map(ck.Message.key, messages)
        self._values += map(ck.Message.value, messages)
        self._headers += map(ck.Message.headers, messages)

    def taken(self) -> TakenMessages:
        return TakenMessages(
            np.array(self._partitions, dtype=np.int32),
            np.array(self._offsets, dtype=np.int64),
            np.array(self._timestamps, dtype=np.int64),
            self._keys,
            self._values,
            _headers(self._headers) if any(self._headers) else None,
            self.ends,
            self.error,
        )

    def _without_notices(self, topic: str, messages: list[ck.Message]) -> list[ck.Message]:
        """Remove notices: record ends of partitions, and keep an error for after the messages."""
        kept = []
        for message in messages:
            error = message.error()
            if error is None:
                kept.append(message)
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                partition, end = place(message)
                self.ends[partition] = end
            else:
                self.error = translated(error, f'topic "{topic}" partition {message.partition()}')
        return kept


def _headers(column: Sequence[Any]) -> list[Headers | None]:
    """Return a missing header value as an empty one: no caller distinguishes them."""
    return [
        None if headers is None else [(name, value or b"") for name, value in headers] for headers in column
    ]
