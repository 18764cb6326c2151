"""A broker or database that is down at the start, or goes down later: nothing is lost, and it is said."""

import base64
import json
import random
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from real.kafka import Broker, JavaBroker
from real.postgres import PostgresServer
from rowtide.testing.processes import free_port
from support.service import (
    Reading,
    Service,
    assert_equal,
    config_for,
    positions_in,
    recomputed,
    sample,
    service,
)
from support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.timeout(300)]

COMMIT = {"interval_ms": 20, "max_rows": 500}


def readings(count: int, partitions: int = 2, start: int = 1_700_000_000_000) -> list[list[Reading]]:
    rng = random.Random(count)
    logs: list[list[Reading]] = [[] for _ in range(partitions)]
    for number in range(count):
        timestamp = start + 20 * number - rng.choice((0, 0, 0, 1_500))
        reading = Reading(timestamp, number, f"s{rng.randrange(50)}", rng.randrange(10**6))
        logs[number % partitions].append(reading)
    return logs


def produce(broker: Broker, topic: str, logs: list[list[Reading]], start: int = 0) -> None:
    for partition, log in enumerate(logs):
        broker.produce(
            topic,
            [each.value() for each in log[start:]],
            partition=partition,
            timestamps=[each.timestamp for each in log[start:]],
        )


def wait_for_positions(url: str, made: Service, positions: list[int]) -> None:
    """Wait until exactly these positions are committed."""
    wanted = dict(enumerate(positions))
    wait_until(
        lambda: positions_in(url) == wanted, lambda: (positions_in(url), made.log.read_text()[-3_000:])
    )


def page(listen: str, name: str) -> int:
    return httpx.get(f"http://{listen}/{name}").status_code


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 0


def check(url: str, logs: list[list[Reading]]) -> None:
    seen = sample(url)
    assert seen is not None
    assert seen.positions == {partition: len(log) for partition, log in enumerate(logs)}
    assert_equal(seen, recomputed(logs, seen.positions))


def test_a_database_that_breaks_every_connection_again_and_again_gets_everything_once(
    kafka: Broker, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = postgres_server.create_database()
    topic = kafka.create_topic(2)
    logs = readings(30_000)
    with service(tmp_path, config_for(kafka.bootstrap_servers, topic, url, commit=COMMIT)) as made:
        process = made.start()
        made.wait_for_log("running")
        for share in range(1, 11):
            size = len(logs[0]) // 10
            produce(kafka, topic, [log[: size * share] for log in logs], start=size * (share - 1))
            until = time.monotonic() + 0.5
            while time.monotonic() < until:
                postgres_server.drop_connections(url)
        wait_for_positions(url, made, [len(log) for log in logs])
        stop(process)
        assert '"event": "dependency_down"' in made.log.read_text()
    check(url, logs)


def test_a_broker_that_is_killed_and_comes_back_is_read_on(
    own_kafka: JavaBroker, postgres_url: str, tmp_path: Path
) -> None:
    topic = own_kafka.create_topic(2)
    logs = readings(4_000)
    config = config_for(own_kafka.bootstrap_servers, topic, postgres_url, commit=COMMIT)
    with service(tmp_path, config) as made:
        produce(own_kafka, topic, [log[:1_000] for log in logs])
        listen = f"127.0.0.1:{free_port()}"
        process = made.start(ROWTIDE_SERVICE__LISTEN=listen)
        wait_for_positions(postgres_url, made, [1_000, 1_000])
        assert (page(listen, "readyz"), page(listen, "healthz")) == (200, 200)
        own_kafka.stop(kill=True)
        made.wait_for_log("dependency_down")
        assert process.poll() is None
        # Not ready, but alive: a restart would not help.
        assert (page(listen, "readyz"), page(listen, "healthz")) == (503, 200)
        own_kafka.start()
        produce(own_kafka, topic, logs, start=1_000)
        wait_for_positions(postgres_url, made, [len(log) for log in logs])
        made.wait_for_log("dependency_back")
        assert page(listen, "readyz") == 200
        metrics = httpx.get(f"http://{listen}/metrics").text
        assert 'rowtide_position{partition="1",topic=' in metrics
        assert 'rowtide_retries_total{dependency="broker of \\"READINGS\\""}' in metrics
        stop(process)
    check(postgres_url, logs)


def test_a_start_waits_for_what_is_down_and_with_no_wait_leaves_with_3(
    own_kafka: JavaBroker, postgres_url: str, tmp_path: Path
) -> None:
    topic = own_kafka.create_topic(2)
    logs = readings(500)
    produce(own_kafka, topic, logs)
    config = config_for(own_kafka.bootstrap_servers, topic, postgres_url, commit=COMMIT)
    nobody = f"postgresql://no one@127.0.0.1:{free_port()}/nothing"
    without_database = config_for(own_kafka.bootstrap_servers, topic, nobody)
    with service(tmp_path / "no-database", without_database) as made:
        ended = made.run("run", "--no-wait")
        assert ended.exit_code == 3
        assert "database" in ended.output
        waiting = made.start()
        made.wait_for_log("dependency_down")
        stop(waiting)
    own_kafka.stop()
    with service(tmp_path / "no-broker", config) as made:
        assert made.run("run", "--no-wait").exit_code == 3
        process = made.start()
        made.wait_for_log("dependency_down")
        own_kafka.start()
        wait_for_positions(postgres_url, made, [len(log) for log in logs])
        stop(process)
    check(postgres_url, logs)


def test_bad_input_becomes_error_rows_and_the_pipeline_goes_on(
    kafka: Broker, postgres_url: str, tmp_path: Path
) -> None:
    sql = """
    CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'x:1');
    CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'x');
    CREATE FOREIGN STREAM readings
      (number BIGINT NOT NULL, sensor VARCHAR(4), amount DECIMAL(6, 2), at TIMESTAMP)
      SERVER k OPTIONS (topic 'x', format 'JSON', max_ahead '1 HOUR');
    CREATE VIEW timed AS SELECT STREAM at AS ROWTIME, number, sensor, amount FROM readings;
    CREATE TABLE latest_of (sensor VARCHAR(4), number BIGINT, PRIMARY KEY (sensor));
    CREATE FOREIGN TABLE latest (sensor VARCHAR(4), number BIGINT, PRIMARY KEY (sensor)) SERVER d;
    CREATE FOREIGN TABLE ratios (number BIGINT, ratio DECIMAL(12, 4)) SERVER d;
    CREATE PUMP p1 STARTED AS INSERT INTO latest_of SELECT STREAM sensor, number FROM timed;
    CREATE PUMP p2 STARTED AS INSERT INTO latest SELECT sensor, number FROM latest_of;
    CREATE PUMP p3 STARTED AS INSERT INTO ratios SELECT STREAM number, amount / number FROM timed;
    """
    at = 1_700_000_000_000
    messages: list[tuple[int, bytes | None]] = [
        (at, b'{"number":1,"sensor":"a","amount":1,"at":%d}' % at),
        (at + 1, b"{broken"),
        (at + 2, b'{"sensor":"a","at":%d}' % at),
        (at + 3, b'{"number":"4","sensor":"a","at":%d}' % at),
        (at + 4, None),
        (at + 5, b'{"number":6,"sensor":"a","at":%d}' % (at + 7_200_000)),
        (at + 6, b'{"number":7,"sensor":null,"amount":1,"at":%d}' % (at + 6)),
        (at + 7, b'{"number":8,"sensor":"late","amount":1,"at":%d}' % (at - 1)),
        (at + 8, b'{"number":9,"sensor":"toolong","amount":1,"at":%d}' % (at + 8)),
        (at + 9, b'{"number":0,"sensor":"b","amount":1,"at":%d}' % (at + 9)),
        (at + 10, b'{"number":11,"sensor":"b","amount":1,"at":%d}' % (at + 10)),
        (at + 11, b'{"number":12,"sensor":"b","amount":1}'),
        (at + 12, b'{"number":13,"sensor":"c","amount":1,"at":%d}' % (at + 12)),
    ]
    topic = kafka.create_topic(1)
    kafka.produce(topic, [value for _, value in messages], timestamps=[stamp for stamp, _ in messages])
    with service(tmp_path, config_for(kafka.bootstrap_servers, topic, postgres_url), sql=sql) as made:
        made.finish()
        answer = made.run("errors list", "--json")
    rows = json.loads(answer.stdout)["errors"]
    found = {(row["offset"], row["relation"], row["reason"].split(":")[0]) for row in rows}
    assert found == {
        (1, "READINGS", "DECODE"),
        (2, "READINGS", "MISSING_FIELD"),
        (3, "READINGS", "TYPE"),
        (4, "READINGS", "TOMBSTONE"),
        (5, "TIMED", "FUTURE"),
        (6, "LATEST_OF", "NULL_KEY"),
        (7, "TIMED", "LATE"),
        (8, "READINGS", "TYPE"),
        (9, "P3", "DIVISION_BY_ZERO"),
        (11, "TIMED", "MISSING_FIELD"),
    }
    raws = {row["offset"]: row["raw_base64"] and base64.b64decode(row["raw_base64"]) for row in rows}
    assert raws == {offset: messages[offset][1] for offset in raws}
