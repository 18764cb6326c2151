"""Ledgers of any database, for the suites of parts of the checkpoint."""

from __future__ import annotations

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.clock import SystemClock
from rowtide.testing.in_memory_database import InMemoryDatabase
from rowtide.testing.in_memory_ledger import InMemoryLedger
from rowtide_connectors.api import Database

AnyLedger = DatabaseLedger | InMemoryLedger


def ledger_of(database: Database, pipeline: str) -> AnyLedger:
    """Return the ledger of a pipeline."""
    if isinstance(database, InMemoryDatabase):
        return InMemoryLedger(database, pipeline, SystemClock())
    return DatabaseLedger(database, pipeline)
