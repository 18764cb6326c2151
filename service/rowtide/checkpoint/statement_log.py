"""Statements that are sent to a running pipeline: the queue, and the log that a replay obeys.

A text is queued durably, by any process. The process that leads the pipeline executes it, and its commit records
the outcome: the rows that changed, with the rowtime from which the change holds, or the error. A replay applies
the logged rows and executes no text again (docs/decisions/0022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import pyarrow as pa

from rowtide_connectors.api import Transaction


class StatementOutcome(Enum):
    """What has become of a text."""

    QUEUED = "QUEUED"
    """No process has executed it yet."""
    APPLIED = "APPLIED"
    """It was executed, and its changes are committed."""
    REFUSED = "REFUSED"
    """It failed, and has changed nothing."""


@dataclass(frozen=True, slots=True)
class StatementChange:
    """The changes of an executed text. ``number`` counts these; ``rowtime`` (ms) is when they hold.

    ``changes`` has the Arrow form of the rows of each table (``Tray.to_arrow``).
    """

    number: int
    rowtime: int
    changes: Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a text for the commit: ``logged`` with what it did to how many rows, or ``error``."""

    statement_id: int
    logged: StatementChange | None = None
    rows: int = 0
    did: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SentText:
    """A text that was sent. Times are ms since 1970, UTC.

    ``rowtime`` is None also if the change is there from the beginning, before the first row of any stream.
    ``did`` says what each statement did, ``error`` is the whole message, with the place.
    """

    statement_id: int
    text: str
    outcome: StatementOutcome
    sent_at_ms: int
    settled_at_ms: int | None = None
    rowtime: int | None = None
    rows: int | None = None
    did: str | None = None
    error: str | None = None


class StatementLog(Protocol):
    """The statements of one pipeline. Methods without a transaction open their own.

    They raise UnavailableError when the database is down.
    """

    def send(self, text: str) -> int:
        """Queue a text; return its id."""

    def find(self, statement_id: int) -> SentText | None:
        """Return a text and its outcome; None: it does not exist."""

    def newest(self, limit: int) -> Sequence[SentText]:
        """Return the last texts, the oldest of them first."""

    def queued(self) -> Sequence[SentText]:
        """Return the texts that wait, in the order in which they were sent."""

    def settle(self, transaction: Transaction, commits: int, settled: Sequence[Settled]) -> None:
        """Record outcomes with commit ``commits``, whose transaction is open."""

    def applied(self, after: int, commits: int) -> Sequence[StatementChange]:
        """Return the changes with numbers above ``after`` that commits up to ``commits`` have made, in order."""
