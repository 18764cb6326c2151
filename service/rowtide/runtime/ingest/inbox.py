"""The inbox, in which deliveries of all foreign streams wait for the thread that owns the flow.

``ThreadedInbox`` reads each stream in its own thread, so that reading and
decoding continue while the database commits. Its size is limited: a thread whose
share is full stops polling. ``DirectInbox`` polls in the caller's thread. Either
retries a broker that is down (``runtime.retry``).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rowtide.clock import Clock
from rowtide.runtime.ingest.intake import Channel, Delivery, StreamReader
from rowtide.runtime.retry import Retry, StoppedError

Paused = Mapping[str, frozenset[int]]
"""The partitions of each relation that are not to be read for now."""

QUEUE_MESSAGES = 100_000
"""Maximum waiting messages of one stream: about a second of work, so that a commit does not stall reading."""
QUEUE_BYTES = 64 * 1024 * 1024
"""Maximum waiting bytes of one stream: bounds memory if messages are large."""
_POLL_S = 0.1
"""Longest wait inside one poll, so that a thread checks often enough whether to stop."""
_JOIN_S = 5.0
"""Longest time that closing waits for a thread inside a poll."""


class Pausable(Protocol):
    """A reader that can pause partitions."""

    def pause(self, partitions: Paused) -> None:
        """Read all partitions except these from now on."""


class Inbox(Pausable, Protocol):
    """Returns the deliveries of all streams; within one partition in log order."""

    def take(self, timeout_s: float) -> list[Delivery]:
        """Return the waiting deliveries; wait up to ``timeout_s`` if there are none.

        Raises:
          TransientError: a broker is down and waiting is not wanted.
          StoppedError: the service was asked to stop while a broker was down.
          GoneError: a position is no longer in the log.
        """

    def join(self, channel: Channel, positions: Mapping[int, int], identity: str | None) -> None:
        """Read these partitions of a stream too from now on, through ``channel``.

        ``identity`` is the known id of its topics from then on.
        """

    def close(self) -> None:
        """Close the readers; deliveries not taken are dropped, their positions were never committed."""


class DirectInbox:
    """Polls one stream after the other in the caller's thread."""

    def __init__(self, intakes: Sequence[tuple[StreamReader, Retry]], clock: Clock) -> None:
        self._intakes = intakes
        self._clock = clock
        self._paused: Paused = {}

    def take(self, timeout_s: float) -> list[Delivery]:
        found: list[Delivery] = []
        for intake, retry in self._intakes:
            paused = self._paused.get(intake.channel.relation, frozenset())
            found += retry.call(_polling(intake, 0.0, paused))
        if not found and timeout_s > 0:
            self._clock.sleep(timeout_s)
        return found

    def pause(self, partitions: Paused) -> None:
        self._paused = dict(partitions)

    def join(self, channel: Channel, positions: Mapping[int, int], identity: str | None) -> None:
        _join(self._intakes, channel, positions, identity)

    def close(self) -> None:
        for intake, _ in self._intakes:
            intake.close()


class ThreadedInbox:
    """Reads each stream in a separate thread."""

    def __init__(
        self,
        intakes: Sequence[tuple[StreamReader, Retry]],
        max_messages: int = QUEUE_MESSAGES,
        max_bytes: int = QUEUE_BYTES,
    ) -> None:
        self._intakes = intakes
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._waiting: deque[Delivery] = deque()
        self._messages: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._paused: Paused = {}
        self._failure: BaseException | None = None
        self._closing = False
        self._threads = [
            threading.Thread(
                target=self._read, args=each, name=f"intake {each[0].channel.relation}", daemon=True
            )
            for each in intakes
        ]
        for thread in self._threads:
            thread.start()

    def take(self, timeout_s: float) -> list[Delivery]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._failure is not None, timeout_s)
            if self._failure is not None and not self._waiting:
                raise self._failure
            found = list(self._waiting)
            self._waiting.clear()
            self._messages.clear()
            self._bytes.clear()
            self._changed.notify_all()
        return found

    def pause(self, partitions: Paused) -> None:
        with self._changed:
            self._paused = dict(partitions)

    def join(self, channel: Channel, positions: Mapping[int, int], identity: str | None) -> None:
        _join(self._intakes, channel, positions, identity)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def _read(self, intake: StreamReader, retry: Retry) -> None:
        """Read until closed; a thread's body."""
        try:
            while self._has_room(intake.channel.relation):
                paused = self._paused.get(intake.channel.relation, frozenset())
                for delivery in retry.call(_polling(intake, _POLL_S, paused)):
                    self._put(delivery)
        except BaseException as error:  # noqa: BLE001 - take() raises it again
            with self._changed:
                if not (self._closing and isinstance(error, StoppedError)):
                    self._failure = error
                self._changed.notify_all()
        finally:
            intake.close()

    def _has_room(self, relation: str) -> bool:
        """Wait until more of a stream may be read. Return False once the inbox closes."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._is_below_limits(relation))
            return not self._closing

    def _is_below_limits(self, relation: str) -> bool:
        return (
            self._messages.get(relation, 0) < self._max_messages
            and self._bytes.get(relation, 0) < self._max_bytes
        )

    def _put(self, delivery: Delivery) -> None:
        with self._changed:
            self._waiting.append(delivery)
            relation = delivery.relation
            self._messages[relation] = self._messages.get(relation, 0) + len(delivery)
            self._bytes[relation] = self._bytes.get(relation, 0) + delivery.raw_bytes
            self._changed.notify_all()


def _join(
    intakes: Sequence[tuple[StreamReader, Retry]],
    channel: Channel,
    positions: Mapping[int, int],
    identity: str | None,
) -> None:
    """Hand partitions to the intake of their stream."""
    for intake, _ in intakes:
        if intake.channel.relation == channel.relation:
            intake.join(channel, positions, identity)


def _polling(intake: StreamReader, timeout_s: float, paused: frozenset[int]) -> Callable[[], list[Delivery]]:
    return lambda: intake.poll(timeout_s, paused)
