"""Message sinks to the memory broker and to real Kafka pass their contract suite, and Kafka's more than that."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from real.kafka import Broker
from rowtide.codec.encode.rows import RecordEncoder
from rowtide.testing.contracts import MessageSinkContract, Read, Topic
from rowtide.testing.contracts.message_sink import MAX_BYTES, START, messages, values
from rowtide.testing.kafka_server import KAFKA_VERSION
from rowtide_connectors.api import (
    Guarantee,
    MessageSink,
    OutgoingMessage,
    TableColumn,
)
from rowtide_connectors.errors import (
    GoneError,
    MismatchError,
    RefusedMessageError,
)
from rowtide_connectors.file_sinks import RecordSinkConnector
from rowtide_connectors.memory import memory_broker
from rowtide_connectors.registry import find_message_sink
from support.files import lines_of, parquet_rows_of
from support.http import receiving

Headers = Sequence[tuple[str, bytes | None]]


KAFKA = pytest.mark.covers("kafka", "message sink", f"Apache Kafka {KAFKA_VERSION}, a real broker")


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
        return [
            (
                number,
                message.key(),
                message.value(),
                message.timestamp()[1],
                [(name, value or b"") for name, value in cast("Headers", message.headers() or ())],
            )
            for number, messages in self.broker.committed(self.topic).items()
            for message in messages
        ]


@pytest.mark.covers("http", "message sink", "Python's own HTTP server, over TCP")
class TestHttp(MessageSinkContract):
    guarantee = Guarantee.AT_LEAST_ONCE
    partitions = False

    @pytest.fixture
    def topic(self) -> Iterator[Topic]:
        with receiving() as receiver:
            yield receiver


class FilesTopic:
    """A folder that files of lines are written to."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.folder = folder
        self.options = options

    def open(self, sender: str) -> MessageSink:
        server = {"url": str(self.folder)}
        return find_message_sink("files").open(server, {"path": "out", **self.options}, sender, MAX_BYTES)

    def read(self) -> Read:
        return [(0, None, line, 0, []) for line in lines_of(self.folder / "out")]


@pytest.mark.covers("files", "message sink", "a folder of this machine")
class TestFiles(MessageSinkContract):
    partitions = keys = headers = null_values = timestamps = False

    @pytest.fixture(params=["NONE", "GZIP"])
    def topic(self, request: pytest.FixtureRequest, tmp_path: Path) -> Topic:
        return FilesTopic(tmp_path, compression=request.param)


class AsRecords:
    """A sink of records that is given values of bytes: each is a record of one column."""

    def __init__(self, sink: MessageSink) -> None:
        self._sink = sink
        self.check, self.begin, self.close = sink.check, sink.begin, sink.close

    def send(self, given: Sequence[OutgoingMessage], number: int) -> None:
        encode = RecordEncoder().encode
        self._sink.send([replace(each, value=encode([each.value])) for each in given], number)


class ParquetTopic:
    """A folder that files of Parquet are written to."""

    def __init__(self, folder: Path, compression: str) -> None:
        self.folder = folder
        self.options = {"path": "out", "compression": compression}

    def open(self, sender: str) -> MessageSink:
        connector = find_message_sink("files")
        assert isinstance(connector, RecordSinkConnector)
        columns = [TableColumn("V", "VARBINARY(100)")]
        return AsRecords(connector.open_records({"url": str(self.folder)}, self.options, sender, columns))

    def read(self) -> Read:
        folders = parquet_rows_of(self.folder / "out")
        return [(0, None, row["v"], 0, []) for rows in folders.values() for row in rows]


@pytest.mark.covers("files", "message sink", "a folder of this machine")
class TestParquet(MessageSinkContract):
    partitions = keys = headers = null_values = timestamps = False

    @pytest.fixture(params=["NONE", "ZSTD"])
    def topic(self, request: pytest.FixtureRequest, tmp_path: Path) -> Topic:
        return ParquetTopic(tmp_path, request.param)


class TestMessageSinks(MessageSinkContract):
    @pytest.fixture(
        params=[
            pytest.param("memory", marks=pytest.mark.covers("memory", "message sink", "the broker itself")),
            pytest.param("kafka", marks=[pytest.mark.kafka, KAFKA]),
        ]
    )
    def topic(self, request: pytest.FixtureRequest) -> Topic:
        return MemoryTopic() if request.param == "memory" else KafkaTopic(request.getfixturevalue("kafka"))


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
