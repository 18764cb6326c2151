"""What a pipeline has read and not processed stays within its limits, librdkafka's buffers included."""

import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from real.kafka import Broker
from support.service import Service, service
from support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

MIB = 1024 * 1024
MESSAGE_BYTES = 20_000
LIMITS = {"buffer": 4 * MIB, "fetch": 2 * MIB, "queue": 4 * MIB, "held": 8 * MIB, "commit": 4 * MIB}
IN_MEMORY = 4
"""A value may be there as bytes, as the row made of it, and as copies while one is made of the other."""
KEPT = 64 * MIB
"""What the allocators of C, Python and Arrow keep of memory that was freed: more on a machine with other work."""
BOUND = KEPT + IN_MEMORY * sum(LIMITS.values(), start=LIMITS["queue"])
"""What docs/reference/configuration.md promises for one stream: 168 MiB. Without limits it is above 540."""

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'set by the configuration:1');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'set by the configuration');
CREATE FOREIGN STREAM readings (number BIGINT NOT NULL, text VARCHAR(30000))
  SERVER k OPTIONS (topic 'set by the configuration', format 'JSON');
CREATE FOREIGN TABLE seconds (at TIMESTAMP, n BIGINT, characters BIGINT, PRIMARY KEY (at)) SERVER d;
CREATE PUMP to_seconds STARTED AS INSERT INTO seconds
  SELECT STREAM FLOOR(ROWTIME TO SECOND) AS at, COUNT(*) AS n, SUM(CHAR_LENGTH(text)) AS characters
  FROM readings GROUP BY FLOOR(ROWTIME TO SECOND);
"""


def configuration(broker: Broker, topic: str, database: Path) -> str:
    return f"""
[servers.k]
bootstrap_servers = "{broker.bootstrap_servers}"
buffer_kbytes = {LIMITS["buffer"] // 1024}
fetch_kbytes = {LIMITS["fetch"] // 1024}
[servers.d]
url = "sqlite:///{database}"
[streams.readings]
topic = "{topic}"
[service]
listen = "127.0.0.1:0"
[limits]
queue_bytes = {LIMITS["queue"]}
held_bytes = {LIMITS["held"]}
[commit]
max_bytes = {LIMITS["commit"]}
interval_ms = 200
"""


def fill(broker: Broker, topic: str, partition: int, count: int, start: int = 0) -> None:
    broker.produce(
        topic,
        [b'{"number":%d,"text":"%s"}' % (number, b"x" * MESSAGE_BYTES) for number in range(count)],
        partition=partition,
        timestamps=[1_700_000_000_000 + start + number for number in range(count)],
    )


def peak_bytes(process: subprocess.Popen[bytes]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def counted(database: Path) -> tuple[int, int]:
    """Return how many rows and characters are in closed seconds."""
    try:
        with sqlite3.connect(database) as connection:
            found = connection.execute("select sum(n), sum(characters) from seconds").fetchone()
    except sqlite3.OperationalError:
        return 0, 0
    return found[0] or 0, found[1] or 0


def wait_for(database: Path, made: Service, rows: int) -> None:
    wait_until(
        lambda: counted(database)[0] >= rows, lambda: (counted(database), made.log.read_text()[-2_000:])
    )


def test_a_partition_far_ahead_takes_no_more_memory_than_the_limits_say(
    kafka: Broker, tmp_path: Path
) -> None:
    partitions, peaks = 8, {}
    for name, each in (("little", 100), ("much", 1_350)):
        topic = kafka.create_topic(partitions)
        # Partition 0 stands still, while the others could be read to their ends.
        fill(kafka, topic, 0, 1)
        for partition in range(1, partitions):
            fill(kafka, topic, partition, each)
        database = tmp_path / f"{name}.db"
        with service(tmp_path / name, configuration(kafka, topic, database), SQL) as made:
            process = made.start()
            made.wait_for_log("running")
            time.sleep(2)
            assert counted(database) == (0, 0)
            for partition in range(partitions):
                bound = [("rowtide.bound", b"1800000000000")]
                kafka.produce(topic, [None], partition=partition, headers=[bound], timestamps=[0])
            rows = 1 + (partitions - 1) * each
            wait_for(database, made, rows)
            assert counted(database) == (rows, rows * MESSAGE_BYTES)
            peaks[name] = peak_bytes(process)
    assert rows * MESSAGE_BYTES > BOUND
    assert peaks["much"] - peaks["little"] < BOUND
