"""The outbox of a foreign stream: messages that are committed and not yet known as sent.

A commit adds its messages, each with the next number; numbers have no gaps, and a message never changes. So the
number of the last message sent says which messages are left (docs/decisions/0010-the-outbox.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rowtide_connectors.api import OutgoingMessage, Transaction


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message of a commit, before it has a number. ``value`` None: it has none."""

    value: bytes | None
    timestamp_ms: int
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class OutboxState:
    """``last`` is the number of the newest message, ``sent`` the last that is known as sent.

    ``sender`` is an id of this outbox, which differs from that of any other and of an earlier one of the same name.
    ``sent`` None: no sender has begun yet.
    """

    sender: str
    last: int
    sent: int | None

    @property
    def pending(self) -> int:
        """The number of messages that are not known as sent."""
        return self.last - (self.sent or 0)


class Outbox(Protocol):
    """One outbox. Methods without a transaction open their own, and raise UnavailableError."""

    def open(self) -> OutboxState:
        """Return the state; make the outbox if it does not exist."""

    def state(self) -> OutboxState | None:
        """Return the state; None: the outbox does not exist. Changes nothing."""

    def add(self, transaction: Transaction, messages: Sequence[NewMessage]) -> None:
        """Add the messages of a commit, in order, within its transaction, which holds the pipeline's lock."""

    def read(self, after: int, messages: int, size: int) -> Sequence[OutgoingMessage]:
        """Return the committed messages after a number, in order: at most ``messages``, of about ``size`` bytes."""

    def settle(self, number: int) -> None:
        """Note that all messages up to ``number`` are sent, and delete them; never goes back."""
