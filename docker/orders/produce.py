"""Sample data: orders over four partitions, a few of them out of order, sent to Kafka at a steady pace.

The orders are made up from a fixed seed, so every run sends the same ones. Their times begin at
2024-01-02 09:00 UTC and go on at a fixed rate, whatever the pace of sending. A run that is repeated sends
everything once more: create the topic again first.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from confluent_kafka import Producer

FIRST_MS = int(datetime(2024, 1, 2, 9, tzinfo=UTC).timestamp() * 1000)
STEP_MS = 120
"""500 orders a minute."""

PARTITIONS = 4
OUT_OF_ORDER = 0.05
MOST_BEHIND_MS = 25_000
"""Within the 30 seconds that the pipeline waits, so no order is late."""

PRICES = {"anchor": "189.00", "buoy": "42.50", "chart": "18.90", "rope": "7.25", "sextant": "640.00"}
FLUSH_EVERY = 1_000


@dataclass(frozen=True)
class Order:
    """One order: ``ordered_at`` in milliseconds since the Unix epoch, UTC."""

    order_id: int
    product: str
    quantity: int
    ordered_at: int

    @property
    def partition(self) -> int:
        """Return the partition it is sent to."""
        return self.order_id % PARTITIONS

    def message(self) -> bytes:
        """Return the order as JSON."""
        fields = {
            "order_id": self.order_id,
            "product": self.product,
            "quantity": self.quantity,
            "price": PRICES[self.product],
            "ordered_at": self.ordered_at,
        }
        return json.dumps(fields).encode()


def orders(count: int) -> Iterator[Order]:
    """Yield the first ``count`` orders."""
    choose = random.Random(2024)
    products = sorted(PRICES)
    for number in range(count):
        behind = choose.randrange(MOST_BEHIND_MS) if choose.random() < OUT_OF_ORDER else 0
        at = max(FIRST_MS, FIRST_MS + number * STEP_MS - behind)
        yield Order(number, choose.choice(products), choose.randint(1, 5), at)


def main() -> None:
    """Send the orders; stop at the first one that the broker refuses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap-servers", default="kafka:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="orders before this one are left out")
    parser.add_argument("--per-second", type=int, default=1_000)
    asked = parser.parse_args()

    refused: list[str] = []

    def answered(error: object, _message: object) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer({"bootstrap.servers": asked.bootstrap_servers, "enable.idempotence": True})
    started = time.monotonic()
    for order in itertools.islice(orders(asked.count), asked.first, None):
        producer.produce(
            asked.topic,
            order.message(),
            partition=order.partition,
            timestamp=order.ordered_at,
            on_delivery=answered,
        )
        producer.poll(0)
        if order.order_id % FLUSH_EVERY == FLUSH_EVERY - 1:
            producer.flush()
            ahead = (order.order_id + 1 - asked.first) / asked.per_second - (time.monotonic() - started)
            time.sleep(max(0.0, ahead))
        if refused:
            break
    producer.flush()
    if refused:
        sys.exit(f"the broker refused an order: {refused[0]}")
    sys.stdout.write(f"sent {asked.count - asked.first} orders to {asked.topic}\n")


if __name__ == "__main__":
    main()
