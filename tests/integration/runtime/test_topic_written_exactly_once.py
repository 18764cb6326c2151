"""A pipeline that writes to a real topic is killed while rows flow: readers of committed messages see each once."""

from __future__ import annotations

import json
import random
import signal
import time
import uuid
from pathlib import Path

import confluent_kafka as ck
import pytest

from real.kafka import Broker
from service_kit import service

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{kafka}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{database}');
CREATE FOREIGN STREAM readings (number BIGINT NOT NULL, sensor VARCHAR(16)) SERVER k
  OPTIONS (topic '{source}', format 'JSON');
CREATE FOREIGN STREAM alerts (number BIGINT NOT NULL, sensor VARCHAR(16), half DECIMAL(12, 1)) SERVER k
  OPTIONS (topic '{sink}', format 'JSON', key 'sensor');
CREATE FOREIGN TABLE log (number BIGINT) SERVER d;
CREATE PUMP to_alerts STARTED AS INSERT INTO alerts
  SELECT STREAM number, sensor, CAST(number AS DECIMAL(12, 1)) / 2 FROM readings;
CREATE PUMP to_log STARTED AS INSERT INTO log SELECT STREAM number FROM readings;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
[commit]
interval_ms = 30
max_rows = 500
"""
START = 1_700_000_000_000
KILLS = 8
MESSAGES = 16_000
Message = tuple[bytes | None, int, dict[str, object]]


def committed(broker: Broker, topic: str) -> dict[int, list[Message]]:
    """Return key, timestamp and value of the messages that a reader of committed ones sees, by partition."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([ck.TopicPartition(topic, number, 0) for number in partitions])
        found: dict[int, list[Message]] = {number: [] for number in partitions}
        left, until = set(partitions), time.monotonic() + 90
        while left:
            assert time.monotonic() < until
            for message in consumer.consume(5_000, 0.5):
                if message.error() is not None:
                    left.discard(message.partition() or 0)
                else:
                    value = json.loads(message.value() or b"")
                    row = (message.key(), message.timestamp()[1], value)
                    found[message.partition() or 0].append(row)
    finally:
        consumer.close()
    return found


@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_each_row_is_in_the_topic_once_and_in_order(kafka: Broker, postgres_url: str, tmp_path: Path) -> None:
    source, sink = kafka.create_topic(2), kafka.create_topic(3)
    text = SQL.format(kafka=kafka.bootstrap_servers, database=postgres_url, source=source, sink=sink)
    rng = random.Random(4)
    numbers = list(range(MESSAGES))

    def feed(share: float) -> None:
        nonlocal numbers
        count = int(MESSAGES * share)
        now, numbers = numbers[:count], numbers[count:]
        for partition in (0, 1):
            own = [each for each in now if each % 2 == partition]
            kafka.produce(
                source,
                [b'{"number":%d,"sensor":"s%d"}' % (each, each % 17) for each in own],
                partition=partition,
                timestamps=[START + each for each in own],
            )

    before: dict[int, list[Message]] = {}
    with service(tmp_path, CONFIG, sql=text) as made:
        feed(0.2)
        for kill in range(KILLS):
            process = made.start()
            made.wait_for_log("running", times=made.log.read_text().count('"event": "running"') + 1)
            for _ in range(3):
                feed(0.03)
                time.sleep(rng.random() * 0.4)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL, made.log.read_text()[-3_000:]
            if kill % 3 == 2:
                now = committed(kafka, sink)
                # What was seen once stays as it is.
                assert all(now[partition][: len(seen)] == seen for partition, seen in before.items())
                before = now
        feed(1.0)
        made.finish()
        made.finish()
    found = committed(kafka, sink)
    assert before
    assert all(found[partition][: len(seen)] == seen for partition, seen in before.items())
    everything = [message for messages in found.values() for message in messages]
    # The last row waits for the other partition.
    assert sorted(int(str(value["number"])) for _, _, value in everything) == list(range(MESSAGES - 1))
    assert len({frozenset(key for key, _, _ in messages) for messages in found.values()}) == 3
    for messages in found.values():
        for key, timestamp, value in messages:
            number = int(str(value["number"]))
            assert key == b"s%d" % (number % 17)
            assert timestamp == START + number
            assert value == {"number": number, "sensor": f"s{number % 17}", "half": number / 2}
        times = [timestamp for _, timestamp, _ in messages]
        assert times == sorted(times)
