"""Sends messages at a steady rate, in a separate process, so that it takes no time from the service.

python -m rowtide.bench.feed BROKER TOPIC COUNT RATE
"""

from __future__ import annotations

import sys

from rowtide.bench.events import KEYS
from rowtide.bench.servers import flushed, send
from rowtide.bench.workload import key_name
from rowtide.clock import SystemClock

STEP_S = 0.001
"""How often messages are sent."""


def message(number: int) -> bytes:
    """Return the value of a message: about 100 bytes."""
    key, price, qty = key_name(number * 7919 % KEYS), 10 + number % 9_000 / 100, 1 + number % 200
    return f'{{"key":"{key}","price":{price},"qty":{qty},"note":"{number:050d}"}}'.encode()


def main() -> None:
    """Send the messages."""
    from confluent_kafka import Producer

    broker, topic, count, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    producer = Producer(
        {"bootstrap.servers": broker, "linger.ms": 0, "queue.buffering.max.messages": 500_000}
    )
    clock = SystemClock()
    began, sent = clock.monotonic(), 0
    while sent < count:
        due = min(count, int((clock.monotonic() - began) * rate) + 1)
        for number in range(sent, due):
            send(producer, topic, message(number), 0)
        sent = max(sent, due)
        producer.poll(0)
        clock.sleep(STEP_S)
    flushed(producer)


if __name__ == "__main__":
    main()
