"""SQLAlchemy's errors, translated by consequence in one place."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import exc

from rowtide_connectors.errors import ConnectorError, GoneError, MismatchError, UnavailableError

_REFUSED_ROW = ("22", "23")
"""SQLSTATE classes: data exception, integrity constraint violation."""
_GONE = frozenset({"42P01", "3F000", "3D000"})
"""SQLSTATE: undefined table, schema, database."""
_MISMATCH = frozenset({"42703", "42804", "42P10"})
"""SQLSTATE: undefined column, wrong type, no unique constraint for ON CONFLICT."""

PRIVILEGE_HINT = "The user needs SELECT, INSERT, UPDATE and DELETE, and CREATE for tables that are missing."


class RowDataError(ConnectorError):
    """The database does not take some row of this statement; which one, it does not say."""


@contextmanager
def database_errors(label: str) -> Iterator[None]:
    """Translate what SQLAlchemy raises in this block; ``label`` names the database.

    Raises:
      RowDataError: a row is at fault, not the database.
    """
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise translated(error, label) from error


def translated(error: exc.SQLAlchemyError, label: str) -> Exception:
    """Give our error for one of SQLAlchemy's."""
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
        if state == "42501":
            return UnavailableError(f"{label} refuses: {text}", hint=PRIVILEGE_HINT)
        if isinstance(error, exc.ProgrammingError):
            return ConnectorError(f"{label} does not take the statement: {text}")
    return UnavailableError(f"{label} cannot be used: {text}")


def _text(error: exc.SQLAlchemyError) -> str:
    """Give the first line of what the database said; never the statement or its values."""
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def label_of(url: sa.URL) -> str:
    """Name a database without its password."""
    return f'database "{url.render_as_string(hide_password=True)}"'
