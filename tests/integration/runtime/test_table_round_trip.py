"""A table is written to a topic of upserts and read from it into another table, and both services are killed."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from real.kafka import Broker
from support.registry import FakeRegistry
from support.service import Service, service

WRITES = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{kafka}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{database}');
CREATE FOREIGN STREAM readings (number BIGINT NOT NULL, sensor VARCHAR(16)) SERVER k
  OPTIONS (topic '{source}', format 'JSON');
CREATE TABLE totals (sensor VARCHAR(16) PRIMARY KEY, n BIGINT, total BIGINT);
CREATE PUMP count_them OPTIONS (RETENTION 'UNBOUNDED') AS INSERT INTO totals
  SELECT STREAM sensor, COUNT(*), SUM(number) FROM readings GROUP BY sensor EMIT CHANGES;
CREATE FOREIGN TABLE here (sensor VARCHAR(16) PRIMARY KEY, n BIGINT, total BIGINT) SERVER d;
CREATE FOREIGN STREAM changes (sensor VARCHAR(16), n BIGINT, total BIGINT) SERVER k
  OPTIONS (topic '{topic}', key 'sensor', changes 'upsert', {form});
CREATE PUMP to_here AS INSERT INTO here SELECT * FROM totals WHERE MOD(n, 3) <> 0;
CREATE PUMP to_topic AS INSERT INTO changes SELECT * FROM totals WHERE MOD(n, 3) <> 0;
"""
READS = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{kafka}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{database}');
CREATE TABLE copied (sensor VARCHAR(16) PRIMARY KEY, n BIGINT, total BIGINT) SERVER k
  OPTIONS (topic '{topic}', {form});
CREATE FOREIGN TABLE there (sensor VARCHAR(16) PRIMARY KEY, n BIGINT, total BIGINT) SERVER d;
CREATE PUMP p AS INSERT INTO there SELECT * FROM copied;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
[commit]
interval_ms = 30
max_rows = 500
[pipeline]
name = "{name}"
"""
START = 1_700_000_000_000
FORMS = ("JSON", "AVRO", "DEBEZIUM_JSON", "DEBEZIUM_AVRO")
MESSAGES = 6_000


def rows(url: str, table: str) -> list[tuple[object, ...]]:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            found = connection.execute(sa.text(f"select sensor, n, total from {table} order by sensor"))
            return [tuple(row) for row in found]
    finally:
        engine.dispose()


def kill(made: Service, rng: random.Random) -> None:
    process = made.start()
    made.wait_for_log("running", times=made.log.read_text().count('"event": "running"') + 1)
    time.sleep(rng.random())
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, made.log.read_text()[-3_000:]


@pytest.mark.kafka
@pytest.mark.postgres
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("form", "kills"),
    [
        ("DEBEZIUM_AVRO", 1),
        *(pytest.param(form, 2, marks=pytest.mark.long) for form in FORMS),
    ],
)
def test_the_copy_is_equal(
    kafka: Broker, postgres_url: str, tmp_path: Path, registry: FakeRegistry, form: str, kills: int
) -> None:
    source, topic = kafka.create_topic(2), kafka.create_topic(3, cleanup_policy="delete")
    options = f"format '{form}'" + (f", registry_url '{registry.url}'" if form.endswith("AVRO") else "")
    given = {
        "kafka": kafka.bootstrap_servers,
        "database": postgres_url,
        "source": source,
        "topic": topic,
        "form": options,
    }
    rng = random.Random(5)
    sensors = [f"s{rng.randrange(23)}" for _ in range(MESSAGES)]

    def feed(first: int, last: int) -> None:
        for partition in (0, 1):
            own = [at for at in range(first, last) if at % 2 == partition]
            kafka.produce(
                source,
                [b'{"number":%d,"sensor":"%s"}' % (at, sensors[at].encode()) for at in own],
                partition=partition,
                timestamps=[START + at for at in own],
            )

    with (
        service(tmp_path / "writes", CONFIG.format(name="writes"), sql=WRITES.format(**given)) as writes,
        service(tmp_path / "reads", CONFIG.format(name="reads"), sql=READS.format(**given)) as reads,
    ):
        share = MESSAGES // (kills + 1)
        for number in range(kills):
            feed(number * share, (number + 1) * share)
            kill(writes, rng)
            kill(reads, rng)
        feed(kills * share, MESSAGES)
        writes.finish()
        bound = [[("rowtide.bound", str(START + 10 * MESSAGES).encode())]]
        for partition in range(3):
            kafka.produce(topic, [None], partition=partition, timestamps=[START], headers=bound)
        reads.finish()
        listed = reads.run("errors list", "--json")
    found = rows(postgres_url, "there")
    assert found == rows(postgres_url, "here")
    assert 10 < len(found) < 23
    assert '"errors": []' in listed.stdout, listed.stdout
    if form == "AVRO":
        assert sorted(registry.subjects) == [f"{topic}-key", f"{topic}-value"]
