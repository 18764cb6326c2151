"""kafka-ingest: processor time of reading a topic and decoding its messages, by each client.

The service uses the compiled client, which reads librdkafka's messages in machine code; the plain one
makes a Python object of every message, as confluent_kafka does. Both read the topic of kafka-json in
turn, twice: without and with decoding. Time is that of the process, all threads of librdkafka
included, so that a busy machine distorts it little.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from rowtide.bench.kafka import PARTITIONS, fill_topic
from rowtide.bench.servers import BROKER, given
from rowtide.bench.suite import Benchmark, Outcome
from rowtide.clock import Clock
from rowtide.codec.registry import decoder_for
from rowtide.errors import StatementError
from rowtide.rows.tray import Tray
from rowtide.runtime.ingest.intake import deliver
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.api import Messages, PartitionReader
from rowtide_connectors.kafka.connector import client_config, read_server

EVENTS = 1_000_000
POLL_MESSAGES = 10_000
TIMEOUT_S = 10.0
STREAM = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'unused');
CREATE FOREIGN STREAM events (ts TIMESTAMP NOT NULL, key VARCHAR(8), price DOUBLE, qty INTEGER)
  SERVER k OPTIONS (topic 'unused', format 'JSON');
"""

OpenReader = Callable[[], PartitionReader]


def kafka_ingest(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run kafka-ingest; the seconds are those of the compiled client with decoding.

    Raises:
      StatementError: the broker is not set, or the compiled client cannot be used.
    """
    broker = given(BROKER)
    topic = f"bench-{uuid.uuid4().hex[:12]}"
    fill_topic(broker, topic, count, cache)
    decode = _decoding()
    found: dict[str, float] = {}
    rows: dict[str, int] = {}
    seconds = 0.0
    for client, open_reader in _readers(broker, topic).items():
        for step, use in (("read", _offsets), ("decoded", decode)):
            name = f"{client}_{step}"
            began = clock.monotonic()
            rows[name], cpu = _consume(open_reader, count + PARTITIONS, use)
            found[f"{name}_cpu_s_per_million"] = cpu / count * 1_000_000
            if name == "compiled_decoded":
                seconds = clock.monotonic() - began
    wrong = {name: got for name, got in rows.items() if got != count + PARTITIONS * name.endswith("read")}
    return Outcome(seconds, rows["compiled_decoded"], f"{wrong} of {count}" if wrong else "ok", found)


def _readers(broker: str, topic: str) -> Mapping[str, OpenReader]:
    from rowtide_connectors.kafka.native import NativeConsumer, library
    from rowtide_connectors.kafka.plain import PlainConsumer
    from rowtide_connectors.kafka.reader import KafkaReader

    found = library()
    if isinstance(found, str):
        raise StatementError(f"the compiled client of Kafka cannot be used: {found}")
    config = client_config(read_server({"bootstrap_servers": broker}))
    positions = dict.fromkeys(range(PARTITIONS), 0)

    def compiled() -> PartitionReader:
        consumer = NativeConsumer(found, topic, config, positions)
        return KafkaReader(topic, consumer, positions, timeout_s=TIMEOUT_S)

    def plain() -> PartitionReader:
        consumer = PlainConsumer(topic, config, positions)
        return KafkaReader(topic, consumer, positions, timeout_s=TIMEOUT_S)

    return {"compiled": compiled, "plain": plain}


def _consume(open_reader: OpenReader, messages: int, use: Callable[[Messages], int]) -> tuple[int, float]:
    """Read a topic to its end; return the sum of what ``use`` returned, and the processor time in seconds."""
    began = time.process_time()
    reader = open_reader()
    used, left = 0, messages
    try:
        while left:
            for each in reader.poll(POLL_MESSAGES, TIMEOUT_S):
                left -= len(each.offsets)
                used += use(each)
        return used, time.process_time() - began
    finally:
        reader.close()


def _offsets(messages: Messages) -> int:
    return len(messages.offsets)


def _decoding() -> Callable[[Messages], int]:
    """Return a function that decodes messages and returns the number of rows."""
    (stream,) = plan_pipeline(STREAM).foreign_streams
    decoder = decoder_for("JSON", stream.name, stream.row_type)

    def decode(messages: Messages) -> int:
        parts = deliver(stream, decoder, 0, messages).parts
        return sum(len(part) for part in parts if isinstance(part, Tray))

    return decode


BENCHMARKS = (
    Benchmark(
        "kafka-ingest",
        "processor time of reading and decoding a Kafka topic, compiled and plain client in turn",
        EVENTS,
        kafka_ingest,
    ),
)
