"""kafka-json: W2's query from Kafka to a database, committed every second.

The environment names broker and database. The topic (8 partitions, about 100 bytes per message,
closed by bound records) is filled before the clock starts. The clock runs from the service's start to
its last commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

from rowtide.bench.events import BASE_MS, events
from rowtide.bench.servers import BROKER, DATABASE, create_topic, flushed, given, send, service_of
from rowtide.bench.suite import Benchmark, Outcome, close_to
from rowtide.bench.windows import W2_CHECKSUM, W2_EVENTS, W2_ROWS
from rowtide.bench.workload import key_name
from rowtide.clock import Clock
from rowtide.runtime.pace import Pace
from rowtide.runtime.state.observer import Unobserved
from rowtide.sql.pipeline import plan_pipeline

PARTITIONS = 8
COMMIT_MS = 1_000
END_MS = BASE_MS * 2
"""The bound that the producer promises at the end: it closes every window."""
PIPELINE = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{database}');
CREATE FOREIGN STREAM events (ts TIMESTAMP NOT NULL, key VARCHAR(8), price DOUBLE, qty INTEGER)
  SERVER k OPTIONS (topic '{topic}', format 'JSON');
CREATE VIEW ordered AS
  SELECT STREAM ts AS ROWTIME, key, price, qty FROM events ORDER BY ts WITHIN INTERVAL '5' SECOND;
CREATE FOREIGN TABLE {table} (window_start TIMESTAMP, key VARCHAR(8), cnt BIGINT, total BIGINT, lo DOUBLE,
  hi DOUBLE, PRIMARY KEY (window_start, key)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO {table}
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS window_start, key, COUNT(*), SUM(qty), MIN(price), MAX(price)
  FROM ordered GROUP BY FLOOR(ROWTIME TO MINUTE), key;
"""
_CHECK = """
SELECT count(*),
  sum(mod(cast(extract(epoch from window_start) * 1000 as bigint), 1000000) + cnt + total / 1000.0 + lo + hi)
FROM {table}"""


def kafka_json(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run kafka-json.

    Raises:
      StatementError: broker or database is not set.
    """
    import sqlalchemy as sa

    from rowtide.runtime.pipeline import open_pipeline

    broker, database = given(BROKER), given(DATABASE)
    run = uuid.uuid4().hex[:12]
    topic, table = f"bench-{run}", f"bench_{run}"
    fill_topic(broker, topic, count, cache)
    plan = plan_pipeline(PIPELINE.format(broker=broker, database=database, topic=topic, table=f'"{table}"'))
    with open_pipeline(plan, f"bench-{run}") as pipeline:
        pace = Pace(COMMIT_MS, count, None, None)
        service = service_of(pipeline, clock, pace, lambda: False, Unobserved())
        began = clock.monotonic()
        service.run(until_end=True)
        seconds = clock.monotonic() - began
    engine = sa.create_engine(database)
    with engine.begin() as connection:
        rows, checksum = connection.execute(sa.text(_CHECK.format(table=f'"{table}"'))).one()
        connection.execute(sa.text(f'DROP TABLE "{table}"'))
    engine.dispose()
    check = "ok"
    if count == W2_EVENTS:
        check = close_to(float(checksum), W2_CHECKSUM) if rows == W2_ROWS else f"{rows} rows, not {W2_ROWS}"
    return Outcome(seconds, rows, check)


def _messages(count: int, cache: Path) -> Iterator[tuple[int, bytes]]:
    """Yield partition and value of each message, in order of arrival."""
    given = events(count, cache)
    rows = zip(given.ts.tolist(), given.key.tolist(), given.price.tolist(), given.qty.tolist(), strict=True)
    for number, (ts, key, price, qty) in enumerate(rows):
        value = f'{{"ts":{ts},"key":"{key_name(key)}","price":{price},"qty":{qty},"note":"{number:030d}"}}'
        yield number % PARTITIONS, value.encode()


def fill_topic(broker: str, topic: str, count: int, cache: Path) -> None:
    """Create a topic with the first ``count`` events and the bound that closes their windows."""
    from confluent_kafka import Producer

    create_topic(broker, topic, PARTITIONS, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    producer = Producer(
        {
            "bootstrap.servers": broker,
            "linger.ms": 50,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for number, (partition, value) in enumerate(_messages(count, cache)):
        send(producer, topic, value, partition, timestamp=BASE_MS + number)
    for partition in range(PARTITIONS):
        headers: list[tuple[str, str | bytes | None]] = [("rowtide.bound", str(END_MS).encode())]
        send(producer, topic, None, partition, timestamp=BASE_MS + count, headers=headers)
    flushed(producer)


BENCHMARKS = (
    Benchmark(
        "kafka-json", "W2 from a Kafka topic to PostgreSQL, end to end", W2_EVENTS, kafka_json, warm=False
    ),
)
