"""The sessions of a server, which knows the one that is silent within a transaction, and ends it.

SQLite has no server. Here it has one, as PostgreSQL: whoever claims the pipeline asks it for the open transaction
that is in the way (docs/decisions/0031).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field

from rowtide.checkpoint.database import DatabaseLedger
from rowtide.checkpoint.leadership import DatabaseLeadership
from rowtide.checkpoint.ledger import Record, Writer, takes_any
from rowtide.testing.virtual_clock import VirtualClock
from rowtide_connectors.api import Database
from simulation.database import SimulatedConnection
from simulation.turns import Condition, Process


@dataclass(slots=True)
class Sessions:
    """The sessions of all processes of a world."""

    clock: VirtualClock
    ended: int = 0
    """The sessions that were ended."""
    _all: list[tuple[Process, SimulatedConnection]] = field(default_factory=list)
    _silent_since: dict[int, float] = field(default_factory=dict)

    def add(self, process: Process, connection: SimulatedConnection) -> None:
        """Note a session of a process."""
        self._all.append((process, connection))

    def fall_silent(self, process: Process) -> None:
        """Note that a process is suspended now."""
        self._silent_since[process.number] = self.clock.monotonic()

    def writer(self, asking: Process) -> Writer | None:
        """Return the session of another process that has written in an open transaction."""
        for number, (process, connection) in enumerate(self._all):
            if process is not asking and _has_written(connection):
                is_silent = process.condition is Condition.PAUSED
                silent_s = self.clock.monotonic() - self._silent_since[process.number] if is_silent else None
                return Writer(number, str(connection.transactions), silent_s)
        return None

    def end(self, writer: Writer) -> None:
        """End a session if it is silent in this transaction."""
        process, connection = self._all[writer.session]
        is_same = _has_written(connection) and str(connection.transactions) == writer.transaction
        if is_same and process.condition is Condition.PAUSED:
            connection.end()
            self.ended += 1


def _has_written(connection: SimulatedConnection) -> bool:
    try:
        return connection.in_transaction and connection.has_written
    except sqlite3.ProgrammingError:
        # It is closed.
        return False


class SimulatedLeadership(DatabaseLeadership):
    """The signs of life, in a database with sessions. Its questions are calls of the process, and may fail."""

    def __init__(self, database: Database, pipeline: str, process: Process, sessions: Sessions) -> None:
        super().__init__(database, pipeline)
        self._process = process
        self._sessions = sessions

    def writer(self) -> Writer | None:
        """Return the session that is in the way."""
        super().writer()
        return self._sessions.writer(self._process)

    def end_writer(self, writer: Writer) -> None:
        """End it."""
        super().end_writer(writer)
        self._sessions.end(writer)


class SimulatedLedger(DatabaseLedger):
    """The checkpoint, in a database with sessions. ``claims`` is called before each claim."""

    def __init__(
        self,
        database: Database,
        pipeline: str,
        process: Process,
        sessions: Sessions,
        claims: Callable[[], None],
    ) -> None:
        super().__init__(database, pipeline)
        self._signs = SimulatedLeadership(database, pipeline, process, sessions)
        self._claims = claims

    def leadership(self) -> SimulatedLeadership:
        """Return the signs of life."""
        return self._signs

    def claim(
        self,
        digest: str,
        holder: str,
        refuse: Callable[[Record], None] = takes_any,
        text: str | None = None,
    ) -> Record:
        """Take the next epoch."""
        self._claims()
        return super().claim(digest, holder, refuse, text)
