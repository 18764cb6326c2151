"""A pipeline that writes to a real topic is killed while rows flow: readers of committed messages see each once."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from real.kafka import Broker
from support.registry import FakeRegistry
from support.service import service

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{kafka}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{database}');
CREATE FOREIGN STREAM readings (number BIGINT NOT NULL, sensor VARCHAR(16)) SERVER k
  OPTIONS (topic '{source}', format 'JSON');
CREATE FOREIGN STREAM alerts (number BIGINT NOT NULL, sensor VARCHAR(16), half DECIMAL(12, 1)) SERVER k
  OPTIONS (topic '{sink}', key 'sensor', {form});
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
KILLS, MESSAGES = 6, 16_000
FEW_KILLS, FEW_MESSAGES = 3, 8_000
"""In each run of the tests."""
Message = tuple[bytes | None, int, dict[str, object]]


Decode = Callable[[bytes], dict[str, object]]


def committed(
    broker: Broker, topic: str, decode: Decode, *, settled: bool = True
) -> dict[int, list[Message]]:
    """Return key, timestamp and value of the messages that a reader of committed ones sees, by partition."""
    return {
        number: [(each.key(), each.timestamp()[1], decode(each.value() or b"")) for each in messages]
        for number, messages in broker.committed(topic, settled=settled).items()
    }


@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("form", "kills", "messages"),
    [
        ("JSON", FEW_KILLS, FEW_MESSAGES),
        *(pytest.param(form, KILLS, MESSAGES, marks=pytest.mark.long) for form in ("JSON", "AVRO")),
    ],
)
def test_each_row_is_in_the_topic_once_and_in_order(
    kafka: Broker,
    postgres_url: str,
    tmp_path: Path,
    registry: FakeRegistry,
    form: str,
    kills: int,
    messages: int,
) -> None:
    source, sink = kafka.create_topic(2), kafka.create_topic(3)
    options = "format 'JSON'" if form == "JSON" else f"format 'AVRO', registry_url '{registry.url}'"
    text = SQL.format(
        kafka=kafka.bootstrap_servers, database=postgres_url, source=source, sink=sink, form=options
    )

    def decode(value: bytes) -> dict[str, object]:
        found: Any = json.loads(value) if form == "JSON" else registry.read(value)
        return dict(found)

    rng = random.Random(4)
    numbers = list(range(messages))

    def feed(share: float) -> None:
        nonlocal numbers
        count = int(messages * share)
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
        for kill in range(kills):
            process = made.start()
            made.wait_for_log("running", times=made.log.read_text().count('"event": "running"') + 1)
            for _ in range(3):
                feed(0.03)
                time.sleep(rng.random() * 0.4)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL, made.log.read_text()[-3_000:]
            if kill % 3 == 2:
                now = committed(kafka, sink, decode, settled=False)
                # What was seen once stays as it is.
                assert all(now[partition][: len(seen)] == seen for partition, seen in before.items())
                before = now
        feed(1.0)
        made.finish()
        made.finish()
    found = committed(kafka, sink, decode)
    assert before
    assert all(found[partition][: len(seen)] == seen for partition, seen in before.items())
    everything = [message for held in found.values() for message in held]
    # The last row waits for the other partition.
    assert sorted(int(str(value["number"])) for _, _, value in everything) == list(range(messages - 1))
    assert len({frozenset(key for key, _, _ in held) for held in found.values()}) == 3
    for held in found.values():
        for key, timestamp, value in held:
            number = int(str(value["number"]))
            assert key == b"s%d" % (number % 17)
            assert timestamp == START + number
            assert value == {"number": number, "sensor": f"s{number % 17}", "half": number / 2}
        times = [timestamp for _, timestamp, _ in held]
        assert times == sorted(times)
    # Every start found the schema that the first one registered.
    assert list(registry.schemas) == ([] if form == "JSON" else [1])
