"""What one call took out of a consumer's queue, as columns over all partitions.

``Consumer`` is what a reader needs of a Kafka client: ``plain.PlainConsumer``
has it from confluent_kafka, ``native.NativeConsumer`` from librdkafka itself.
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

    ``headers`` is None where no message has any. ``ends`` has, by partition, the position behind what
    the log holds now; ``error`` is to be raised after the messages.
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
        """Take what is there, waiting up to ``timeout_s`` for the first; None: nothing came."""

    def is_up(self, timeout_s: float) -> bool:
        """Request the topic from the broker; return whether it answered, with any answer."""

    def pause(self, partitions: Iterable[int]) -> None:
        """Stop fetching and drop what was fetched and not taken."""

    def resume(self, partitions: Iterable[int]) -> None:
        """Fetch again, from the first message that was not taken."""

    def close(self) -> None:
        """Leave the broker; called once."""
