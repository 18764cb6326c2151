"""The outbox in a database in memory: the reference that other outboxes are tested against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from rowtide.checkpoint.outbox import NewMessage, OutboxState
from rowtide.errors import FaultError
from rowtide.testing.in_memory_database import InMemoryDatabase, InMemoryTransaction, OutboxContents
from rowtide_connectors.api import OutgoingMessage, Transaction


class InMemoryOutbox:
    """The outbox of ``relation`` of ``pipeline``; see ``checkpoint.outbox.Outbox``."""

    def __init__(self, database: InMemoryDatabase, pipeline: str, relation: str) -> None:
        self._database = database
        self._pipeline = pipeline
        self._relation = relation

    def open(self) -> OutboxState:
        """Return the state; make the outbox if it does not exist."""
        with self._database.begin() as transaction:
            outboxes = transaction.contents.outboxes
            made = OutboxContents(OutboxState(f"sender-{len(outboxes)}", 0, None), ())
            return outboxes.setdefault((self._pipeline, self._relation), made).state

    def state(self) -> OutboxState | None:
        """Return the state; None: the outbox does not exist."""
        self._database.before("read")
        found = self._database.contents.outboxes.get((self._pipeline, self._relation))
        return None if found is None else found.state

    def add(self, transaction: Transaction, messages: Sequence[NewMessage]) -> None:
        """Add messages with the next numbers."""
        if not isinstance(transaction, InMemoryTransaction):
            raise FaultError("the outbox in memory takes part in transactions in memory only")
        held = self._held(transaction)
        added = tuple(
            OutgoingMessage(number, each.value, each.timestamp_ms, each.key, each.headers, each.partition)
            for number, each in enumerate(messages, held.state.last + 1)
        )
        state = replace(held.state, last=held.state.last + len(added))
        self._put(transaction, OutboxContents(state, held.messages + added))

    def read(self, after: int, messages: int, size: int) -> Sequence[OutgoingMessage]:
        """Return the committed messages after a number, as far as they fit; at least one if there is one."""
        self._database.before("read")
        found = self._database.contents.outboxes[self._pipeline, self._relation]
        left = [each for each in found.messages if each.number > after][:messages]
        taken = 0

        def fits(each: OutgoingMessage) -> bool:
            nonlocal taken
            room = taken < size
            taken += len(each.value or b"")
            return room

        return list(takewhile(fits, left))

    def settle(self, number: int) -> None:
        """Note that all messages up to ``number`` are sent, and delete them."""
        with self._database.begin() as transaction:
            held = self._held(transaction)
            sent = number if held.state.sent is None else max(held.state.sent, number)
            left = tuple(each for each in held.messages if each.number > number)
            self._put(transaction, OutboxContents(replace(held.state, sent=sent), left))

    def _held(self, transaction: InMemoryTransaction) -> OutboxContents:
        found = transaction.contents.outboxes.get((self._pipeline, self._relation))
        if found is None:
            raise FaultError(f'the outbox of "{self._relation}" no longer exists in the checkpoint')
        return found

    def _put(self, transaction: InMemoryTransaction, held: OutboxContents) -> None:
        transaction.contents.outboxes[self._pipeline, self._relation] = held
