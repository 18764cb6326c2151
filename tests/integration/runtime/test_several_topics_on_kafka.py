"""A stream of several topics of a real broker: killed, with new partitions, and equal to what was written."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from real.kafka import Broker
from support.service import service

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{kafka}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{database}');
CREATE FOREIGN STREAM orders (number BIGINT) SERVER k OPTIONS (topic '{topics}', format 'JSON');
CREATE FOREIGN TABLE log (number BIGINT, topic VARCHAR(40), part INTEGER, place BIGINT) SERVER d;
CREATE PUMP p AS INSERT INTO log SELECT STREAM number, KAFKA_TOPIC, KAFKA_PARTITION, KAFKA_OFFSET FROM orders;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
[commit]
interval_ms = 30
max_rows = 300
"""
START = 1_700_000_000_000


@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kills", [2, pytest.param(3, marks=pytest.mark.long)])
def test_every_message_of_every_topic_is_written_once(
    kafka: Broker, postgres_url: str, tmp_path: Path, kills: int
) -> None:
    topics = [kafka.create_topic(count) for count in (1, 3, 2)]
    text = SQL.format(kafka=kafka.bootstrap_servers, database=postgres_url, topics=",".join(topics))
    rng = random.Random(8)
    sizes = {
        (topic, number): 0 for topic, count in zip(topics, (1, 3, 2), strict=True) for number in range(count)
    }
    wanted: list[tuple[object, ...]] = []
    clock = START

    def feed(rounds: int) -> None:
        nonlocal clock
        for (topic, number), first in sorted(sizes.items()):
            values = []
            for at in range(rounds):
                wanted.append((len(wanted), topic, number, first + at))
                values.append(b'{"number":%d}' % (len(wanted) - 1))
            stamps = [clock + at for at in range(rounds)]
            kafka.produce(topic, values, partition=number, timestamps=stamps)
            sizes[topic, number] = first + rounds
        clock += rounds

    with service(tmp_path, CONFIG, sql=text) as made:
        feed(150)
        for kill in range(kills):
            process = made.start()
            made.wait_for_log("running", times=made.log.read_text().count('"event": "running"') + 1)
            if kill == 1:
                kafka.add_partitions(topics[0], 3)
                sizes |= {(topics[0], 1): 0, (topics[0], 2): 0}
                time.sleep(1)
            feed(60)
            time.sleep(rng.random() * 2)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL, made.log.read_text()[-3_000:]
        feed(40)
        made.finish()
        bound = [[("rowtide.bound", str(clock + 100_000).encode())]]
        for topic, number in sizes:
            kafka.produce(topic, [None], partition=number, timestamps=[clock], headers=bound)
        made.finish()
        answer = json.loads(made.run("positions", "--json").stdout)
    engine = sa.create_engine(postgres_url)
    with engine.connect() as connection:
        query = "select number, topic, part, place from log"
        found = [tuple(row) for row in connection.execute(sa.text(query))]
        query = 'select topic, "partition", message_offset from rowtide.errors'
        late = [tuple(row) for row in connection.execute(sa.text(query))]
    engine.dispose()
    # Rows of partitions that were added may be late: each message is a row of the table or an error row.
    by_place = {each[1:]: each for each in wanted}
    found += [by_place[place] for place in late]
    assert sorted(found) == wanted
    assert {place[:2] for place in late} <= {(topics[0], 1), (topics[0], 2)}
    assert {(each["topic"], each["partition"]): each["lag"] for each in answer["positions"]} == dict.fromkeys(
        sizes, 0
    )
