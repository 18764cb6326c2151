"""Sinks over the broker in memory: messages and their number are added together."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from rowtide_connectors.api import OutgoingMessage
from rowtide_connectors.errors import RefusedMessageError, UnavailableError
from rowtide_connectors.memory.broker import MemoryBroker


class MemorySink:
    """One topic of ``broker`` and one outbox; see ``api.MessageSink``."""

    def __init__(self, broker: MemoryBroker, topic: str, sender: str) -> None:
        self._broker = broker
        self._topic = topic
        self._sender = sender

    def check(self) -> None:
        """Look the topic up."""
        with self._broker.changed:
            self._broker.serve(self._topic)

    def begin(self) -> int | None:
        """Become the only sink of the sender, and return its number."""
        with self._broker.changed:
            self._broker.serve(self._topic)
            self._broker.senders[self._sender] = self
            return self._broker.sent.get(self._sender)

    def send(self, messages: Sequence[OutgoingMessage], number: int) -> None:
        """Add messages and store the number."""
        with self._broker.changed:
            partitions = self._broker.serve(self._topic)
            if self._broker.senders.get(self._sender) is not self:
                raise UnavailableError(f'topic "{self._topic}": another sender took over')
            for each in messages:
                if each.partition is not None and each.partition not in partitions:
                    raise RefusedMessageError(
                        f'topic "{self._topic}" has no partition {each.partition}', number=each.number
                    )
            for each in messages:
                by_key = 0 if each.key is None else zlib.crc32(each.key) % len(partitions)
                self._broker.produce(
                    self._topic,
                    [each.value],
                    timestamps=[each.timestamp_ms],
                    partition=by_key if each.partition is None else each.partition,
                    keys=[each.key],
                    headers=[list(each.headers) or None],
                )
            self._broker.sent[self._sender] = number

    def close(self) -> None:
        """Release nothing: the broker stays."""
