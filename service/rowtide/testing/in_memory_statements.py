"""Statements sent to a pipeline, in a database in memory: the reference that others are tested against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowtide.checkpoint.statement_log import SentText, Settled, StatementChange, StatementOutcome
from rowtide.checkpoint.texts import storable
from rowtide.clock import Clock
from rowtide.errors import FaultError
from rowtide.rowtime.bound import EARLIEST
from rowtide.testing.in_memory_database import InMemoryDatabase, InMemoryTransaction
from rowtide_connectors.api import Transaction


class InMemoryStatements:
    """The statements of ``pipeline``; see ``checkpoint.statement_log.StatementLog``."""

    def __init__(self, database: InMemoryDatabase, pipeline: str, clock: Clock) -> None:
        self._database = database
        self._pipeline = pipeline
        self._clock = clock

    def send(self, text: str) -> int:
        """Queue a text; return its id."""
        with self._database.begin() as transaction:
            sent = transaction.contents.statements
            number = max(sent, default=0) + 1
            kept = SentText(number, storable(text), StatementOutcome.QUEUED, self._clock.now_ms())
            sent[number] = self._pipeline, kept, None
        return number

    def find(self, statement_id: int) -> SentText | None:
        """Return a text and its outcome."""
        return next((each for each in self._own() if each.statement_id == statement_id), None)

    def newest(self, limit: int) -> Sequence[SentText]:
        """Return the last texts, the oldest of them first."""
        return self._own()[-limit:]

    def queued(self) -> Sequence[SentText]:
        """Return the texts that wait."""
        self._database.before("read")
        return [each for each in self._own() if each.outcome is StatementOutcome.QUEUED]

    def settle(self, transaction: Transaction, commits: int, settled: Sequence[Settled]) -> None:
        """Record outcomes in the transaction of a commit."""
        if not isinstance(transaction, InMemoryTransaction):
            raise FaultError("the statements in memory take part in transactions in memory only")
        sent = transaction.contents.statements
        for each in settled:
            pipeline, text, _ = sent[each.statement_id]
            logged = each.logged
            after = replace(
                text,
                outcome=StatementOutcome.REFUSED if logged is None else StatementOutcome.APPLIED,
                settled_at_ms=self._clock.now_ms(),
                rowtime=None if logged is None or logged.rowtime == EARLIEST else logged.rowtime,
                rows=each.rows,
                did=each.did,
                error=None if each.error is None else storable(each.error),
            )
            sent[each.statement_id] = pipeline, after, None if logged is None else (commits, logged)

    def applied(self, after: int, commits: int) -> Sequence[StatementChange]:
        """Return the logged changes after a number, up to a commit."""
        found = [
            made[1]
            for pipeline, _, made in self._database.contents.statements.values()
            if pipeline == self._pipeline and made is not None and made[0] <= commits
        ]
        return sorted((each for each in found if each.number > after), key=lambda each: each.number)

    def _own(self) -> list[SentText]:
        held = self._database.contents.statements.values()
        return [text for pipeline, text, _ in held if pipeline == self._pipeline]
