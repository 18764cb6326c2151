"""spark-live: ``rowtide run --runner spark`` from Kafka to PostgreSQL, and its recovery after kill -9.

The query is W2's groups as they change (EMIT CHANGES), on two cores. A first batch has started the JVM, the workers
and the kernels. Then come

* as many messages as are asked for, as fast as the broker takes them: ``seconds`` pass from the first of them to the
  commit of the last;
* 200 messages per second for 20 seconds: ``p50_ms`` and ``p99_ms`` are from the timestamp of each message to its
  commit, as another process sees it in the database;
* kill -9, and some messages: ``recovery_s`` pass from the next start of the process to the first new commit.

Every message must be counted once in the table.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from rowtide.bench.processes import compile_modules, started, wait_until
from rowtide.bench.servers import BROKER, DATABASE, committed_messages, create_topic, flushed, given, send
from rowtide.bench.suite import Benchmark, Outcome
from rowtide.clock import Clock

EVENTS = 100_000
FIRST = 1_000
"""Messages of the first batch, which does not count, and of the first one after the kill."""
RATE = 200
PACED_S = 20
PARTITIONS = 2
MASTER = f"local[{PARTITIONS}]"
KEYS = 1_000
CLOSING = "close"
POLL_S = 0.005
_SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{database}');
CREATE FOREIGN STREAM events (key VARCHAR(8), price DOUBLE, qty INTEGER)
  SERVER k OPTIONS (topic '{topic}', format 'JSON');
CREATE FOREIGN TABLE {table} (window_start TIMESTAMP, key VARCHAR(8), cnt BIGINT, total BIGINT, lo DOUBLE,
  hi DOUBLE, PRIMARY KEY (window_start, key)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO {table}
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS window_start, key, COUNT(*), SUM(qty), MIN(price), MAX(price)
  FROM events GROUP BY FLOOR(ROWTIME TO MINUTE), key EMIT CHANGES;
"""
_CONFIG = """
[service]
listen = "127.0.0.1:0"
[commit]
interval_ms = 100
"""


class _Feed:
    """Sends messages with their timestamps to the partitions in turn."""

    def __init__(self, broker: str, topic: str, clock: Clock) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": broker, "linger.ms": 1})
        self._topic = topic
        self._clock = clock
        self.stamps: list[int] = []
        """The timestamps of all messages."""

    def add(self, count: int) -> None:
        """Send some messages now."""
        for _ in range(count):
            number = len(self.stamps)
            # A clock that is set back would make them late.
            self.stamps.append(max(self._clock.now_ms(), self.stamps[-1] if self.stamps else 0))
            value = f'{{"key":"k{number % KEYS}","price":{number % 97}.5,"qty":{number % 11}}}'.encode()
            partition = number % PARTITIONS
            send(self._producer, self._topic, value, partition, timestamp=self.stamps[-1])
        self._producer.poll(0)

    def close(self) -> None:
        """Send a later message of each partition, so that no other one waits for the other partition."""
        later = self.stamps[-1] + 1
        for partition in range(PARTITIONS):
            value = f'{{"key":"{CLOSING}","price":0.5,"qty":0}}'.encode()
            send(self._producer, self._topic, value, partition, timestamp=later)
            self.stamps.append(later)

    def flush(self) -> None:
        """Wait until the broker has them."""
        flushed(self._producer)


def spark_live(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run it; ``count`` is the number of messages that come at once.

    Raises:
      StatementError: broker or database is not set.
      TransientError: the service did not get far enough within a quarter of an hour.
    """
    import sqlalchemy as sa

    broker, database = given(BROKER), given(DATABASE)
    compile_modules()
    run = uuid.uuid4().hex[:12]
    topic, table = f"spark-live-{run}", f'"spark_live_{run}"'
    create_topic(broker, topic, PARTITIONS, {})
    engine = sa.create_engine(database, isolation_level="AUTOCOMMIT")
    feed = _Feed(broker, topic, clock)
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        file, config = Path(folder) / f"spark_live_{run}.sql", Path(folder) / "config.toml"
        file.write_text(_SQL.format(broker=broker, database=database, topic=topic, table=table))
        config.write_text(_CONFIG)
        command = ["run", str(file), "--config", str(config), "--runner", "spark", "--master", MASTER]
        with engine.connect() as connection, (Path(folder) / "log").open("wb") as log:
            committed = partial(committed_messages, connection, file.stem)

            def is_read() -> bool:
                return committed() >= len(feed.stamps)

            feed.add(FIRST)
            feed.flush()
            process = started(command, log)
            try:
                wait_until(is_read, process, clock)
                began = clock.monotonic()
                feed.add(count)
                feed.flush()
                wait_until(is_read, process, clock)
                seconds = clock.monotonic() - began
                latencies = _paced(feed, committed, clock)
            finally:
                process.kill()
                process.wait()
            before = len(feed.stamps)
            feed.add(FIRST)
            feed.close()
            feed.flush()
            began = clock.monotonic()
            process = started(command, log)
            try:
                wait_until(lambda: committed() > before, process, clock)
                recovery = clock.monotonic() - began
                wait_until(is_read, process, clock)
            finally:
                process.kill()
                process.wait()
            counted = f"SELECT count(*), sum(cnt) FROM {table} WHERE key <> '{CLOSING}'"
            rows, messages = connection.execute(sa.text(counted)).one()
            connection.execute(sa.text(f"DROP TABLE {table}"))
    engine.dispose()
    more = {f"p{each}_ms": float(np.percentile(latencies, each)) for each in (50, 99)}
    wanted = len(feed.stamps) - PARTITIONS
    check = "ok" if messages == wanted else f"{messages} of {wanted} messages are counted"
    return Outcome(seconds, rows, check, more | {"recovery_s": recovery})


def _paced(feed: _Feed, committed: Callable[[], int], clock: Clock) -> list[int]:
    """Send messages at the rate, and return how long each of them took until its commit was seen (ms)."""
    first, total = len(feed.stamps), RATE * PACED_S
    began, seen = clock.monotonic(), first
    found: list[int] = []
    while len(found) < total:
        due = min(int((clock.monotonic() - began) * RATE), total) - (len(feed.stamps) - first)
        if due > 0:
            feed.add(due)
        reached, now = committed(), clock.now_ms()
        # Both partitions get every second message, and are committed together.
        found += [now - stamp for stamp in feed.stamps[seen:reached]]
        seen = max(seen, reached)
        clock.sleep(POLL_S)
    return found


BENCHMARKS = (
    Benchmark(
        "spark-live",
        "live on Spark, local[2]: messages at once; 200/s, message to commit; kill -9 to the next commit",
        EVENTS,
        spark_live,
        warm=False,
    ),
)
