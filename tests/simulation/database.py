"""SQLite behind a network: each statement is a call of a process, and connections break.

The product's own SQLAlchemy code runs on it. A broken connection is a closed one: the server rolls its open
transaction back, and after COMMIT only the reply is lost. As with a server, transactions that only read are in nobody's
way, and another process may have a session ended.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from rowtide_connectors.rdbms.database import SqlDatabase
from rowtide_connectors.rdbms.sqlite import Sqlite

Result = TypeVar("Result")

_CLOSED = "Cannot operate on a closed database."
"""The text by which SQLAlchemy recognizes a lost connection to SQLite."""
_BEGIN = "begin immediate"
"""SQLite's own, which waits for everybody else."""
_NO_WRITES = ("begin", "pragma", "release", "rollback", "savepoint", "select")
_NAMED = re.compile(r'"?(\w+)"?')
_VERBS = frozenset({"insert", "into", "or", "replace", "update", "delete", "from", "select"})


class DatabaseClient(Protocol):
    """A process, as its connections see it."""

    def call(self, name: str, action: Callable[[], Result], breaks: Callable[[], None]) -> Result:
        """Make a call: ``action`` does it, ``breaks`` raises what a broken connection raises."""

    def is_read_only(self) -> bool:
        """Return whether the database takes no writes now."""

    def committed(self) -> None:
        """Note that a transaction was committed; its reply is still on the way."""

    def connected(self, connection: SimulatedConnection) -> None:
        """Note a new connection."""


class SimulatedConnection(sqlite3.Connection):
    """A connection of ``client``. A session that has met a read-only phase stays read-only."""

    client: DatabaseClient
    transactions = 0
    """The transactions that were begun."""
    has_written = False
    """Whether the last one has written."""
    _is_ended = False

    def call(self, name: str, action: Callable[[], Result]) -> Result:
        """Make a call to the database.

        Raises:
          sqlite3.ProgrammingError: the connection is broken, or the session was ended.
        """

        def made() -> Result:
            if self._is_ended:
                self._break()
            return action()

        return self.client.call(f"database: {name}", made, self._break)

    def cursor(self, factory: Any = None) -> Any:
        """Return a cursor whose statements are calls."""
        del factory
        return super().cursor(SimulatedCursor)

    def commit(self) -> None:
        """Commit the open transaction."""
        if self.in_transaction or self._is_ended:
            self.call("commit", self._commit)

    def rollback(self) -> None:
        """Roll the open transaction back. Nothing depends on whether the process hears of it."""
        super().rollback()

    def close(self) -> None:
        """Close, and roll back at once, whoever still holds a cursor: a server notices that a client is gone."""
        with suppress(sqlite3.ProgrammingError):
            super().rollback()
        super().close()

    def end(self) -> None:
        """End the session, as another process asks the server to: its process sees it at its next call."""
        super().rollback()
        self._is_ended = True

    def _commit(self) -> None:
        super().commit()
        self.client.committed()

    def _break(self) -> None:
        self.close()
        raise sqlite3.ProgrammingError(_CLOSED)


class SimulatedCursor(sqlite3.Cursor):
    """A cursor of a ``SimulatedConnection``."""

    connection: SimulatedConnection

    def execute(self, statement: str, parameters: Any = ()) -> SimulatedCursor:
        """Execute a statement."""
        self._made(
            statement, partial(super().execute, "begin" if statement == _BEGIN else statement, parameters)
        )
        return self

    def executemany(self, statement: str, parameters: Any) -> SimulatedCursor:
        """Execute a statement for many rows, in one call."""
        self._made(statement, partial(super().executemany, statement, parameters))
        return self

    def _made(self, statement: str, action: Callable[[], object]) -> None:
        if self.connection.client.is_read_only():
            sqlite3.Cursor.execute(self, "pragma query_only = on")
        self.connection.call(_shown(statement), partial(self._do, statement, action))

    def _do(self, statement: str, action: Callable[[], object]) -> None:
        action()
        connection = self.connection
        if statement == _BEGIN:
            connection.transactions += 1
            connection.has_written = False
        elif not statement.lower().lstrip().startswith(_NO_WRITES):
            connection.has_written = True


class _SimulatedSqlite(Sqlite):
    """SQLite whose connections belong to one process."""

    def __init__(self, client: DatabaseClient) -> None:
        self._client = client

    def create_engine(self, url: sa.URL, connect_timeout_s: int, lock_timeout_s: int) -> sa.Engine:
        """Make the engine. Locks are not waited for, because real time does not pass."""
        engine = super().create_engine(url, connect_timeout_s, lock_timeout_s)

        @sa.event.listens_for(engine, "do_connect")
        def connect(_dialect: object, _record: object, arguments: Any, options: Any) -> SimulatedConnection:
            return self._client.call(
                "database: connect",
                lambda: self._connected(*arguments, **options),
                _refuse,
            )

        @sa.event.listens_for(engine, "connect")
        def hurry(connection: sqlite3.Connection, _: object) -> None:
            # Machines do not crash here, only processes.
            connection.execute("pragma synchronous = off")

        return engine

    def _connected(self, *arguments: Any, **options: Any) -> SimulatedConnection:
        connection = sqlite3.connect(*arguments, **options, factory=SimulatedConnection)
        assert isinstance(connection, SimulatedConnection)
        connection.client = self._client
        self._client.connected(connection)
        return connection


def simulated_database(file: Path, client: DatabaseClient) -> SqlDatabase:
    """Return the database in ``file`` as ``client`` sees it."""
    dialect = _SimulatedSqlite(client)
    url = sa.make_url(f"sqlite:///{file}")
    return SqlDatabase(dialect, dialect.create_engine(url, 0, 0))


def _refuse() -> None:
    raise sqlite3.OperationalError("connection refused")


def _shown(statement: str) -> str:
    """Return verb and table of a statement, for reports."""
    words: Sequence[str] = _NAMED.findall(statement.lower())
    named = [word for word in words[:6] if word not in _VERBS]
    return " ".join([words[0], *named[:1]]) if words else statement
