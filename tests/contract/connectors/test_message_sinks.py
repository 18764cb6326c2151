"""What every message sink does, on the memory broker and on real Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import confluent_kafka as ck
import pytest

from real.kafka import Broker
from rowtide_connectors.api import MessageSink, OutgoingMessage
from rowtide_connectors.errors import (
    GoneError,
    MismatchError,
    RefusedMessageError,
    UnavailableError,
)
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.registry import find_message_sink

MAX_BYTES = 100_000
START = 1_700_000_000_000
Headers = Sequence[tuple[str, bytes | None]]
Read = list[tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes]]]]
"""Partition, key, value, timestamp and headers of each message that readers of committed messages see."""


class MemoryTopic:
    def __init__(self) -> None:
        self.topic = f"t-{uuid.uuid4().hex}"
        self.broker = memory_broker("sinks")
        self.broker.create_topic(self.topic, 3)

    def open(self, sender: str, **options: str) -> MessageSink:
        return find_message_sink("memory").open(
            {"broker": "sinks"}, {"topic": self.topic, **options}, sender, MAX_BYTES
        )

    def read(self) -> Read:
        return [
            (number, key, value, stamp, list(headers or ()))
            for number, log in self.broker.topic(self.topic).items()
            for key, value, stamp, headers in zip(
                log.keys, log.values, log.timestamps, log.headers, strict=True
            )
        ]


class KafkaTopic:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.topic = broker.create_topic(3)

    def open(self, sender: str, **options: str) -> MessageSink:
        server = {"bootstrap_servers": self.broker.bootstrap_servers}
        return find_message_sink("kafka").open(server, {"topic": self.topic, **options}, sender, MAX_BYTES)

    def read(self) -> Read:
        return read_committed(self.broker, self.topic)


def read_committed(broker: Broker, topic: str) -> Read:
    """Return what a reader of committed messages sees, by partition."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: Read = []
    try:
        partitions = sorted(consumer.list_topics(topic, 30).topics[topic].partitions)
        consumer.assign([ck.TopicPartition(topic, number, 0) for number in partitions])
        left, until = set(partitions), time.monotonic() + 90
        while left:
            assert time.monotonic() < until
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                assert error.code() == ck.KafkaError._PARTITION_EOF, error
                left.discard(message.partition())
                continue
            found.append(
                (
                    message.partition() or 0,
                    message.key(),
                    message.value(),
                    message.timestamp()[1],
                    [(name, value or b"") for name, value in cast("Headers", message.headers() or ())],
                )
            )
    finally:
        consumer.close()
    return sorted(found, key=lambda each: each[0])


Topic = MemoryTopic | KafkaTopic


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def topic(request: pytest.FixtureRequest) -> Topic:
    return MemoryTopic() if request.param == "memory" else KafkaTopic(request.getfixturevalue("kafka"))


@pytest.fixture
def sink(topic: Topic) -> Iterator[Callable[..., MessageSink]]:
    opened: list[MessageSink] = []
    sender = f"p-{uuid.uuid4().hex}"

    def sink(**options: str) -> MessageSink:
        opened.append(topic.open(sender, **options))
        return opened[-1]

    yield sink
    for each in opened:
        each.close()


def messages(first: int, last: int) -> list[OutgoingMessage]:
    return [
        OutgoingMessage(number, b"v%d" % number, START + number, b"k", partition=0)
        for number in range(first, last + 1)
    ]


def values(topic: Topic) -> list[bytes | None]:
    return [value for _, _, value, _, _ in topic.read()]


def test_the_number_is_that_of_the_last_message_sent(topic: Topic, sink: Callable[..., MessageSink]) -> None:
    first = sink()
    first.check()
    assert first.begin() is None
    first.send((), 0)
    first.send(messages(1, 3), 3)
    first.send(messages(4, 4), 4)
    assert values(topic) == [b"v1", b"v2", b"v3", b"v4"]
    assert sink().begin() == 4
    assert topic.open("another").begin() is None


def test_a_message_keeps_key_timestamp_headers_and_partition(
    topic: Topic, sink: Callable[..., MessageSink]
) -> None:
    one = sink()
    one.begin()
    one.send(
        [
            OutgoingMessage(1, b"a", START, b"key", (("x", b"1"), ("y", b"\xff")), 2),
            OutgoingMessage(2, b"b", START + 1, None, (), 1),
        ],
        2,
    )
    assert topic.read() == [
        (1, None, b"b", START + 1, []),
        (2, b"key", b"a", START, [("x", b"1"), ("y", b"\xff")]),
    ]


def test_messages_of_one_key_are_in_one_partition_in_order(
    topic: Topic, sink: Callable[..., MessageSink]
) -> None:
    one = sink()
    one.begin()
    sent = [OutgoingMessage(at, b"%d" % at, START + at, b"k%d" % (at % 7)) for at in range(1, 101)]
    one.send(sent, 100)
    found = topic.read()
    assert len({partition for partition, *_ in found}) > 1
    for key in {each.key for each in sent}:
        own = [(partition, value) for partition, read, value, _, _ in found if read == key]
        assert len({partition for partition, _ in own}) == 1
        assert [value for _, value in own] == [each.value for each in sent if each.key == key]


def test_after_another_has_taken_over_a_sink_sends_nothing(
    topic: Topic, sink: Callable[..., MessageSink]
) -> None:
    older = sink()
    older.begin()
    older.send(messages(1, 2), 2)
    newer = sink()
    assert newer.begin() == 2
    with pytest.raises(UnavailableError):
        older.send(messages(3, 4), 4)
    newer.send(messages(3, 3), 3)
    assert values(topic) == [b"v1", b"v2", b"v3"]
    assert older.begin() == 3
    older.send(messages(4, 4), 4)
    with pytest.raises(UnavailableError):
        newer.send(messages(4, 4), 4)
    assert values(topic) == [b"v1", b"v2", b"v3", b"v4"]


def test_a_message_for_a_partition_that_does_not_exist_is_named_and_nothing_is_sent(
    topic: Topic, sink: Callable[..., MessageSink]
) -> None:
    one = sink()
    one.begin()
    given = [*messages(1, 2), OutgoingMessage(3, b"x", START, partition=9)]
    with pytest.raises(RefusedMessageError) as caught:
        one.send(given, 3)
    assert caught.value.number == 3
    assert one.begin() is None
    assert values(topic) == []


@pytest.mark.kafka
def test_murmur2_of_the_key_chooses_the_partition_as_java_clients_do(kafka: Broker) -> None:
    topic = KafkaTopic(kafka)
    one = topic.open("java")
    one.begin()
    one.send([OutgoingMessage(at, b"", START, b"key-%d" % at) for at in range(1, 7)], 6)
    # toPositive(murmur2(key)) % 3, which Java's clients and tools use.
    wanted = {b"key-%d" % at: (_murmur2(b"key-%d" % at) & 0x7FFFFFFF) % 3 for at in range(1, 7)}
    assert {key: partition for partition, key, *_ in topic.read()} == wanted
    one.close()


@pytest.mark.kafka
def test_a_topic_that_takes_smaller_messages_fails_the_check(kafka: Broker) -> None:
    topic = KafkaTopic(kafka)
    topic.topic = kafka.create_topic(1, max_message_bytes="50000")
    one = topic.open("small")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        # A new topic is not known to the broker at once.
        try:
            one.check()
        except GoneError:
            time.sleep(0.1)
        except MismatchError:
            break
    with pytest.raises(MismatchError, match="takes messages of at most 50000 bytes") as caught:
        one.check()
    assert "max_message_bytes '45904'" in (caught.value.hint or "")
    one.begin()
    with pytest.raises(RefusedMessageError, match="does not take message 7 ") as refused:
        one.send([OutgoingMessage(7, bytes(60_000), START)], 7)
    assert refused.value.number == 7
    one.close()


@pytest.mark.kafka
def test_a_topic_that_does_not_exist_fails_the_check_and_is_not_created(kafka: Broker) -> None:
    topic = KafkaTopic(kafka)
    topic.topic = f"missing-{uuid.uuid4().hex}"
    one = topic.open("missing")
    for _ in range(2):
        with pytest.raises(GoneError, match="does not exist"):
            one.check()
    one.close()


@pytest.mark.kafka
def test_at_least_once_sends_without_a_transaction_and_keeps_no_number(kafka: Broker) -> None:
    topic = KafkaTopic(kafka)
    one = topic.open("repeats", delivery="at-least-once")
    assert one.begin() is None
    one.send(messages(1, 2), 2)
    assert one.begin() is None
    one.send(messages(2, 3), 3)
    assert values(topic) == [b"v1", b"v2", b"v2", b"v3"]
    one.close()


def _murmur2(data: bytes) -> int:
    """Kafka's hash of keys."""
    m, seed = 0x5BD1E995, 0x9747B28C
    h = (seed ^ len(data)) & 0xFFFFFFFF
    for at in range(0, len(data) - len(data) % 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & 0xFFFFFFFF
        k = (k ^ k >> 24) * m & 0xFFFFFFFF
        h = (h * m & 0xFFFFFFFF) ^ k
    rest = data[len(data) - len(data) % 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & 0xFFFFFFFF
    h = (h ^ h >> 13) * m & 0xFFFFFFFF
    return h ^ h >> 15
