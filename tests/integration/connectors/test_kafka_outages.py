"""What only a real broker can answer: outages, open transactions, compaction, a topic that is deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from real.kafka import Broker, JavaBroker
from rowtide_connectors.api import Messages, PartitionReader, TopicSource
from rowtide_connectors.errors import GoneError, UnavailableError
from rowtide_connectors.kafka import CONNECTOR
from rowtide_connectors.registry import find_source

pytestmark = pytest.mark.kafka

PATIENCE_S = 60.0
"""A loaded machine takes this long where an idle one takes a second."""

SHORT, LONG = "3", "60"
"""``timeout_s`` where a broker is down and is to be missed soon, and where it is up and only slow."""

Answer = TypeVar("Answer")


@pytest.fixture(params=["compiled", "plain"])
def consumer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr("rowtide_connectors.kafka.reader.library", lambda: "not wanted")
    return str(request.param)


def source(broker: Broker, topic: str, timeout_s: str = LONG) -> TopicSource:
    return find_source("kafka").open(
        {"bootstrap_servers": broker.bootstrap_servers, "timeout_s": timeout_s}, {"topic": topic}
    )


def once_up(ask: Callable[[], Answer]) -> Answer:
    """Return what a source answers: ask until the broker answers, or time is up."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def poll_for(reader: PartitionReader, wanted: int) -> list[bytes | None]:
    """Poll until so many values have come, or time is up."""
    values: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < wanted and time.monotonic() < deadline:
        values += values_of(reader.poll(1000, 0.2))
    return values


def values_of(polled: Sequence[Messages]) -> list[bytes | None]:
    return [value for messages in polled for value in messages.values]


@pytest.mark.parametrize(
    "consumer", ["compiled", pytest.param("plain", marks=pytest.mark.long)], indirect=True
)
@pytest.mark.timeout(600)  # Two starts of a broker, each of which may take a minute and a half.
def test_a_reader_outlives_its_broker_and_loses_nothing(own_kafka: JavaBroker, consumer: str) -> None:
    topic = own_kafka.create_topic()
    own_kafka.produce(topic, [b"%d" % number for number in range(100)])
    reading = source(own_kafka, topic, SHORT)
    reader = reading.reader({0: 0})
    values = poll_for(reader, 100)
    own_kafka.stop(kill=True)
    deadline = time.monotonic() + PATIENCE_S
    with pytest.raises(UnavailableError, match=topic):
        while time.monotonic() < deadline:
            reader.poll(1000, 0.2)
    with pytest.raises(UnavailableError):
        reading.ranges()
    own_kafka.start()
    own_kafka.produce(topic, [b"%d" % number for number in range(100, 200)])
    # The broker took its time to start: what the reader may take begins now.
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < 200 and time.monotonic() < deadline:
        values += once_up(lambda: values_of(reader.poll(1000, 0.2)))
    assert values == [b"%d" % number for number in range(200)]
    assert once_up(reading.ranges)[0].end == 200
    reader.close()
    reading.close()


def test_an_open_transaction_is_not_read_and_is_not_in_the_range(kafka: Broker, consumer: str) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"before"])
    reading = source(kafka, topic)
    reader = reading.reader({0: 0})
    with kafka.transaction(topic) as producer:
        producer.produce(topic, b"within", partition=0)
        producer.flush(30)
        assert poll_for(reader, 1) == [b"before"]
        assert not any(messages.values for messages in reader.poll(10, 1.0))
        assert reading.ranges()[0].end == 1
    assert poll_for(reader, 1) == [b"within"]
    assert reading.ranges()[0].end == 3, "the commit has left a control record"
    reader.close()
    reading.close()


def test_a_topic_that_does_not_exist_is_gone(kafka: Broker) -> None:
    reading = source(kafka, "no-such-topic")
    with pytest.raises(GoneError, match='topic "no-such-topic" does not exist'):
        reading.ranges()
    reading.close()


def test_a_check_tells_what_answered_and_what_did_not(kafka: Broker) -> None:
    answer = CONNECTOR.check({"bootstrap_servers": kafka.bootstrap_servers})
    assert answer.startswith(f'Kafka at "{kafka.bootstrap_servers}": 1 broker(s)')
    with pytest.raises(UnavailableError, match="Connection refused"):
        CONNECTOR.check({"bootstrap_servers": "127.0.0.1:1", "timeout_s": "2"})


def test_many_messages_with_keys_and_headers_come_alike_from_both_consumers(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic(3)
    for partition in range(3):
        kafka.produce(
            topic,
            [None if number % 17 == 0 else b"v" * (number % 300) for number in range(4000)],
            partition=partition,
            timestamps=[1_600_000_000_000 + number for number in range(4000)],
            keys=[None if number % 5 else b"k%d" % number for number in range(4000)],
            headers=[None if number % 7 else [("a", b"\x00\xff"), ("a", b"")] for number in range(4000)],
        )

    def read() -> dict[int, list[tuple[object, ...]]]:
        reader = source(kafka, topic).reader(dict.fromkeys(range(3), 0))
        rows: dict[int, list[tuple[Any, ...]]] = {0: [], 1: [], 2: []}
        deadline = time.monotonic() + PATIENCE_S
        while sum(map(len, rows.values())) < 12_000 and time.monotonic() < deadline:
            for messages in reader.poll(1_000, 0.5):
                headers = messages.headers or [None] * len(messages.values)
                rows[messages.partition] += zip(
                    messages.offsets.tolist(),
                    messages.timestamps.tolist(),
                    messages.keys,
                    messages.values,
                    [each and [(name, value) for name, value in each] for each in headers],
                    strict=True,
                )
        reader.close()
        return rows

    compiled = read()
    monkeypatch.setattr("rowtide_connectors.kafka.reader.library", lambda: "not wanted")
    assert compiled == read()
    assert [len(rows) for rows in compiled.values()] == [4000] * 3
