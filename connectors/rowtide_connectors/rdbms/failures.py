"""SQLAlchemy's errors, translated by consequence in one place."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import exc

from rowtide_connectors.errors import ConnectorError, DeniedError, GoneError, MismatchError, UnavailableError

_REFUSED_ROW = ("22", "23")
"""SQLSTATE classes: data exception, integrity constraint violation."""
_GONE = frozenset({"42P01", "3F000"})
"""SQLSTATE: undefined table, schema."""
_MISMATCH = frozenset({"42703", "42804", "42P10"})
"""SQLSTATE: undefined column, wrong type, no unique constraint for ON CONFLICT."""

CREDENTIALS_HINT = (
    "Correct the options username and password of the server, or let the database accept the user "
    "(CREATE ROLE, ALTER ROLE .. PASSWORD, pg_hba.conf)."
)
DATABASE_HINT = "Create it (CREATE DATABASE), or correct the option url of the server."
FILE_HINT = "The folder must exist, and the user that runs Rowtide must have the right to write the file."
PRIVILEGE_HINT = "The user needs SELECT, INSERT, UPDATE and DELETE, and CREATE for tables that are missing."


_DENIED = {
    "28000": CREDENTIALS_HINT,
    "28P01": CREDENTIALS_HINT,
    "3D000": DATABASE_HINT,
    "42501": PRIVILEGE_HINT,
}
"""SQLSTATE: invalid authorization, invalid password, undefined database, insufficient privilege."""
_DENIED_TEXTS = (
    (re.compile(r"authentication failed|no password supplied|no pg_hba\.conf entry"), CREDENTIALS_HINT),
    (re.compile(r'role ".*" (does not exist|is not permitted to log in)'), CREDENTIALS_HINT),
    (re.compile(r'database ".*" does not exist'), DATABASE_HINT),
    (re.compile(r"permission denied for database"), PRIVILEGE_HINT),
)
"""PostgreSQL's messages while a connection is made: libpq reports only the text."""
_DENIED_FILE = frozenset(
    {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH}
)


class RowDataError(ConnectorError):
    """The database rejects some row of this statement and does not report which one."""


@contextmanager
def database_errors(label: str) -> Iterator[None]:
    """Translate SQLAlchemy's exceptions in this block; ``label`` names the database.

    Raises:
      RowDataError: a row is at fault, not the database.
    """
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise translated(error, label) from error


def translated(error: exc.SQLAlchemyError, label: str) -> Exception:
    """Return the connector error for an exception of SQLAlchemy."""
    text = _text(error)
    if isinstance(error, exc.DBAPIError) and not error.connection_invalidated:
        cause = error.orig
        state = getattr(cause, "sqlstate", None) or ""
        if state.startswith(_REFUSED_ROW) or isinstance(error, exc.IntegrityError | exc.DataError):
            return RowDataError(text)
        if state in _GONE or (isinstance(cause, sqlite3.OperationalError) and "no such table" in text):
            return GoneError(f"{label}: {text}")
        if state in _MISMATCH or (isinstance(cause, sqlite3.OperationalError) and "no such column" in text):
            return MismatchError(f"{label}: {text}")
        if hint := _denied_hint(cause, state):
            return DeniedError(f"{label} refuses: {text}", hint=hint)
        if _sqlite_code(cause) == sqlite3.SQLITE_NOTADB:
            return MismatchError(f"{label}: {text}", hint="The file of the option url is not of SQLite.")
        if _sqlite_code(cause) == sqlite3.SQLITE_ERROR:
            # A mistake in a statement, which a retry would repeat.
            return ConnectorError(f"{label} does not take the statement: {text}")
        if isinstance(error, exc.ProgrammingError):
            return ConnectorError(f"{label} does not take the statement: {text}")
    return UnavailableError(f"{label} cannot be used: {text}")


def _denied_hint(cause: object, state: str) -> str | None:
    """Return what to change if the database denies access; None if it does not."""
    if state:
        return _DENIED.get(state)
    if isinstance(cause, sqlite3.Error):
        return FILE_HINT if _sqlite_code(cause) in _DENIED_FILE else None
    return next((hint for pattern, hint in _DENIED_TEXTS if pattern.search(str(cause))), None)


def _sqlite_code(cause: object) -> int | None:
    """Return SQLite's primary result code."""
    code = getattr(cause, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def _text(error: exc.SQLAlchemyError) -> str:
    """Return the first line of the database's message, without the statement or its values."""
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def label_of(url: sa.URL) -> str:
    """Name a database without its password, and without the query part, which may hold others."""
    return f'database "{url.set(query={}).render_as_string(hide_password=True)}"'


def refusal(label: str, why: str) -> str:
    """Return the reason of a refused row, with its table."""
    return f'table "{label}" refuses a row: {why}'
