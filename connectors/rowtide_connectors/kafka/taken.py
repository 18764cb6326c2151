"""The messages that one call took from a consumer's queue, as columns over all partitions.

``Consumer`` is the interface of a Kafka client for a reader: ``plain.PlainConsumer`` implements it on
confluent_kafka, ``native.NativeConsumer`` on librdkafka itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rowtide_connectors.errors import ConnectorError

Headers = Sequence[tuple[str, bytes]]


@dataclass(slots=True)
class TakenMessages:
    """Messages in the order of the queue, all columns parallel, and the notices among them.

    ``headers`` is None where no message has any. ``ends`` has, by partition, the position after the
    current end of the log; the reader raises ``error`` after the messages.
    """

    partitions: NDArray[np.int32]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers | None] | None
    ends: Mapping[int, int] = field(default_factory=dict)
    error: ConnectorError | None = None


class Consumer(Protocol):
    """Assigned partitions of one topic; owned by one thread."""

    trouble: str | None
    """The last report of the client about its connections, until ``is_up``. It retries by itself."""

    def take(self, max_messages: int, timeout_s: float) -> TakenMessages | None:
        """Take the available messages, waiting up to ``timeout_s`` for the first; None if none arrived."""

    def is_up(self, timeout_s: float) -> bool:
        """Request the topic from the broker; return whether it responded at all."""

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop fetching and drop messages that were fetched and not taken."""

    def resume(self, partitions: Iterable[int]) -> None:
        """Fetch again, from the first message that was not taken."""

    def close(self) -> None:
        """Leave the broker; called once."""
