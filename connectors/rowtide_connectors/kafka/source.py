"""A topic as a source: its ranges, positions by time, readers, and single messages for error rows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, cast

import confluent_kafka as ck
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource

from rowtide_connectors.api import Fetched, OffsetRange, PartitionReader
from rowtide_connectors.errors import GoneError, UnavailableError
from rowtide_connectors.kafka.client import (
    Refusals,
    append_message,
    cluster_metadata,
    kafka_errors,
    open_admin,
    open_consumer,
    place,
    topic_metadata,
    translated,
    with_leaders,
)
from rowtide_connectors.kafka.native import library
from rowtide_connectors.kafka.reader import KafkaReader, open_reading

EARLIEST: Final = -2
LATEST: Final = -1
"""Kafka's special timestamps in a query for offsets."""

_FORBIDDEN = frozenset({ck.KafkaError.TOPIC_AUTHORIZATION_FAILED, ck.KafkaError.CLUSTER_AUTHORIZATION_FAILED})

FETCH_BUFFER = {
    "queued.max.messages.kbytes": 1024,
    "max.partition.fetch.bytes": 262_144,
    "fetch.wait.max.ms": 10,
}
"""For single messages: read little ahead, because it is discarded, and never wait for more."""

FETCH_AHEAD = 1000
"""The most messages between two requested ones that are read instead of skipped by a new request."""


_SHARED = {
    "queued.max.messages.kbytes": 1_024,
    "queued.min.messages": 1_024,
    # librdkafka refuses less than message.max.bytes.
    "fetch.max.bytes": 1_000_000,
}
"""What the readers of several topics share, and the least that each has."""


def shared_by(config: Mapping[str, object], topics: int) -> dict[str, object]:
    """Return the configuration of the reader of one of several topics: together they have one stream's buffers."""
    divided = {
        name: max(int(str(config[name])) // topics, least)
        for name, least in _SHARED.items()
        if name in config
    }
    return {**config, **divided} if topics > 1 else dict(config)


class QueryClients:
    """The clients for queries about the topics of one stream, which connect at their first use.

    ``opened`` counts the topics: their readers share the buffers of a stream.
    """

    def __init__(self, config: Mapping[str, object], *, timeout_s: float) -> None:
        self.config = config
        self.timeout_s = timeout_s
        self.refusals = Refusals()
        self.opened = 0
        self._asking: ck.Consumer | None = None
        self._asking_log: ck.Consumer | None = None
        self._administering: AdminClient | None = None

    def consumer(self) -> ck.Consumer:
        """Return the client for metadata and offsets."""
        if self._asking is None:
            self._asking = open_consumer(self.config, self.refusals)
        return self._asking

    def log_consumer(self) -> ck.Consumer:
        """Return the client for the ends of logs: it also sees what open transactions have written."""
        if self._asking_log is None:
            self._asking_log = open_consumer(dict(self.config) | {"isolation.level": "read_uncommitted"})
        return self._asking_log

    def admin(self, topic: str) -> AdminClient | None:
        """Return a client for queries about a topic; None if no broker would answer."""
        if self._administering is None:
            cluster = self.consumer().list_topics(topic, self.timeout_s)
            if cluster.controller_id >= 0 and cluster.controller_id not in cluster.brokers:
                # librdkafka's mock cluster names a controller that it does not have, and does not
                # answer such queries.
                return None
            self._administering = open_admin(self.config)
        return self._administering

    def forget_admin(self) -> None:
        """Let the next query of ``admin`` use a new client.

        librdkafka sends such queries to the broker that it knew as the controller, and waits for that one also while
        it is down and the others have a new controller.
        """
        self._administering = None

    def names(self, what: str) -> list[str]:
        """Return the names of all topics that this user may see. ``what`` names the object in errors."""
        with kafka_errors(what):
            found = cluster_metadata(self.consumer(), self.refusals, self.timeout_s).topics
        return [name for name, each in found.items() if each.error is None]

    def close(self) -> None:
        """Release the connections."""
        self._administering = None
        for client in (self._asking, self._asking_log):
            if client is not None:
                client.close()
        self._asking = self._asking_log = None


class KafkaSource:
    """One topic. ``config`` is librdkafka's. Sources of one stream have the same ``clients``.

    One thread uses it. After that thread has read the identity once, another thread may call
    ``fetch``, ``identity`` and ``ask_identity`` at the same time.
    """

    def __init__(
        self,
        topic: str,
        config: Mapping[str, object],
        *,
        timeout_s: float,
        clients: QueryClients | None = None,
    ) -> None:
        self.topic = topic
        self._config = config
        self._timeout_s = timeout_s
        self._clients = clients or QueryClients(config, timeout_s=timeout_s)
        self._clients.opened += 1
        self._known_to_log: list[int] = []

    def ranges(self) -> Mapping[int, OffsetRange]:
        """Return each partition's range. Its end is where the first open transaction begins."""
        partitions = self._partitions()
        earliest, end = self._offsets(partitions, EARLIEST), self._offsets(partitions, LATEST)
        # Asked last: a reader that is there has read all that was written before this query.
        log_end = self._log_ends(partitions)
        return {
            each: OffsetRange(earliest[each], end[each], max(0, log_end[each] - end[each]))
            for each in partitions
        }

    def offsets_at(self, timestamp_ms: int) -> Mapping[int, int]:
        """Return, per partition, the first offset stamped ``timestamp_ms`` or later, else its end."""
        partitions = self._partitions()
        end = self._offsets(partitions, LATEST)
        # Kafka has no negative timestamps: they mean the ends of the log.
        found = self._offsets(partitions, max(0, timestamp_ms))
        return {p: found[p] if found[p] >= 0 else end[p] for p in partitions}

    def load(self) -> None:
        """Load the compiled loops that readers use; see ``api.LoadingSource``."""
        if not isinstance(library(), str):
            from rowtide_connectors.kafka.warm import warm

            warm()

    def reader(self, positions: Mapping[int, int]) -> PartitionReader:
        """Open a reader at exactly these positions; it fetches at once."""
        config = shared_by(self._config, self._clients.opened)
        consumer = open_reading(self.topic, config, positions)
        return KafkaReader(self.topic, consumer, positions, timeout_s=self._timeout_s)

    def fetch(self, partition: int, offsets: Sequence[int]) -> Mapping[int, Fetched]:
        """Return the messages at these offsets; one that no longer exists is left out.

        Raises:
          UnavailableError: the broker did not return them within the time-out.
        """
        found: dict[int, Fetched] = {}
        wanted = sorted(set(offsets))
        if not wanted:
            return found
        consumer = open_consumer(dict(self._config) | FETCH_BUFFER)
        try:
            with kafka_errors(f'topic "{self.topic}"'):
                self._fetch_into(found, consumer, partition, wanted)
        finally:
            consumer.close()
        return found

    def _fetch_into(
        self, found: dict[int, Fetched], consumer: ck.Consumer, partition: int, wanted: list[int]
    ) -> None:
        left = deque(wanted)
        position: int | None = None
        deadline = time.monotonic() + self._timeout_s
        while left:
            if position is None or left[0] > position + FETCH_AHEAD:
                position = left[0]
                consumer.assign([ck.TopicPartition(self.topic, partition, position)])
            message = consumer.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                raise UnavailableError(
                    f'topic "{self.topic}" partition {partition} did not deliver offset {left[0]} '
                    f"within {self._timeout_s:g} s"
                )
            deadline = time.monotonic() + self._timeout_s
            error = message.error()
            if error is None:
                position = place(message)[1] + 1
                while left and left[0] < position:
                    offset = left.popleft()
                    if offset == position - 1:
                        found[offset] = Fetched(
                            message.timestamp()[1], message.value(), message.key(), _headers(message)
                        )
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                return
            elif isinstance(translated(error, ""), GoneError):
                # This one was deleted by retention or is beyond the end; a later one may still exist.
                left.popleft()
                position = None
            else:
                raise ck.KafkaException(error)

    def append(self, partition: int, headers: Sequence[tuple[str, bytes]], timestamp_ms: int) -> int:
        """Append a message without key and value, acknowledged by all replicas; return its offset.

        Raises:
          UnavailableError: the broker did not accept it within the time-out, or this user may not write.
        """
        if partition not in self._partitions():
            raise GoneError(f'topic "{self.topic}" has no partition {partition}')
        return append_message(self._config, self.topic, partition, headers, timestamp_ms, self._timeout_s)

    def has_append_times(self) -> bool:
        """Query the topic's message.timestamp.type; if that fails, assume that producers stamp."""
        return self._setting("message.timestamp.type") == "LogAppendTime"

    def identity(self) -> str | None:
        """Return the topic's id; None if it cannot be queried."""
        return self.ask_identity(self._timeout_s)()

    def ask_identity(self, timeout_s: float) -> Callable[[], str | None]:
        """Begin to query the topic's id; the function that is returned waits for it."""
        with kafka_errors(f'topic "{self.topic}"'):
            admin = self._clients.admin(self.topic)
            if admin is None:
                return lambda: None
            wanted = TopicCollection([self.topic])
            (asked,) = admin.describe_topics(wanted, request_timeout=timeout_s).values()

        def answer() -> str | None:
            with kafka_errors(f'topic "{self.topic}"'):
                described = self._answer(asked, timeout_s)
            return None if described is None else str(described.topic_id)

        return answer

    def is_compacted(self) -> bool:
        """Query the topic's cleanup.policy; if that fails, assume that it is not compacted."""
        return "compact" in (self._setting("cleanup.policy") or "")

    def _setting(self, name: str) -> str | None:
        """Query a setting of the topic; None if the user may not read it, or no broker answers."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.topic)
        with kafka_errors(f'topic "{self.topic}"'):
            admin = self._clients.admin(self.topic)
            if admin is None:
                return None
            (asked,) = admin.describe_configs([resource], request_timeout=self._timeout_s).values()
            described = self._answer(asked, self._timeout_s)
        value: str | None = None if described is None else described[name].value
        return value

    def _answer(self, asked: Future[Any], timeout_s: float) -> Any:
        """Return the result of a query about the topic; None if the user may not read it."""
        try:
            return asked.result(timeout_s)
        except ck.KafkaException as error:
            if error.args[0].code() in _FORBIDDEN:
                return None
            if error.args[0].code() == ck.KafkaError._TIMED_OUT:
                self._clients.forget_admin()
            raise
        except TimeoutError as error:
            self._clients.forget_admin()
            raise UnavailableError(f'topic "{self.topic}" cannot be described: it timed out') from error

    def close(self) -> None:
        """Release the connections for queries; the owners of readers close them."""
        self._clients.close()

    def _partitions(self) -> list[int]:
        with kafka_errors(f'topic "{self.topic}"'):
            metadata = topic_metadata(
                self._clients.consumer(), self._clients.refusals, self.topic, self._timeout_s
            )
        return sorted(metadata.partitions)

    def _log_ends(self, partitions: list[int]) -> Mapping[int, int]:
        client = self._clients.log_consumer()
        if partitions != self._known_to_log:
            # Else this client knows new partitions only after minutes.
            with kafka_errors(f'topic "{self.topic}"'):
                client.list_topics(self.topic, self._timeout_s)
            self._known_to_log = partitions
        return self._offsets(partitions, LATEST, client)

    def _offsets(
        self, partitions: Sequence[int], timestamp: int, client: ck.Consumer | None = None
    ) -> Mapping[int, int]:
        client = client or self._clients.consumer()

        def ask() -> Mapping[int, int]:
            asked = [ck.TopicPartition(self.topic, partition, timestamp) for partition in partitions]
            answers = client.offsets_for_times(asked, self._timeout_s)
            for answer in answers:
                if answer.error is not None:
                    raise ck.KafkaException(answer.error)
            return {answer.partition: answer.offset for answer in answers}

        with kafka_errors(f'topic "{self.topic}"'):
            return with_leaders(ask, self._timeout_s)


def _headers(message: ck.Message) -> list[tuple[str, bytes | None]] | None:
    """Return a message's headers unchanged: names and bytes."""
    return cast("list[tuple[str, bytes | None]] | None", message.headers())
