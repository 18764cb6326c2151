"""A Kafka broker inside this process: the mock cluster of librdkafka, for the demo and for experiments.

It supports Kafka's protocol but keeps everything in memory, does not fence and has no timestamp
look-ups, so its tests prove nothing about a real broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import Producer

from rowtide.demo.flights import Message
from rowtide.errors import TransientError

_STEP = 5_000
"""Messages between two signs of progress."""


class EmbeddedBroker:
    """One broker on a free port of this machine, which runs as long as the object exists."""

    def __init__(self) -> None:
        # Compressed, a year of flights stays below what the mock cluster keeps of a partition.
        self._producer = Producer(
            {
                "bootstrap.servers": "embedded",
                "test.mock.num.brokers": 1,
                "compression.type": "zstd",
                "linger.ms": 50,
                "batch.num.messages": 10_000,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
            }
        )
        brokers = list(self._producer.list_topics(timeout=10).brokers.values())
        if not brokers:
            raise TransientError("the embedded broker does not start")
        self.bootstrap_servers = f"{brokers[0].host}:{brokers[0].port}"

    def create(self, topic: str) -> None:
        """Create a topic: the mock cluster creates the topics of metadata requests."""
        self._producer.list_topics(topic, timeout=10)

    def send(self, messages: Iterable[Message], progress: Callable[[int], None]) -> None:
        """Append messages in order; ``progress`` is called with the number of further messages."""
        sent = 0
        for message in messages:
            self._producer.produce(
                message.topic, value=message.value, partition=message.partition, timestamp=message.timestamp
            )
            sent += 1
            if sent % _STEP == 0:
                self._producer.poll(0)
                progress(_STEP)
        self._flush()
        progress(sent % _STEP)

    def send_bound(self, topic: str, partition: int, bound_ms: int) -> None:
        """Promise that nothing earlier than ``bound_ms`` will follow in a partition: a bound record."""
        self._producer.produce(
            topic,
            value=None,
            partition=partition,
            timestamp=bound_ms,
            headers={"rowtide.bound": str(bound_ms).encode()},
        )
        self._flush()

    def _flush(self) -> None:
        if left := self._producer.flush(30):
            raise TransientError(f"the embedded broker did not take {left} messages")
