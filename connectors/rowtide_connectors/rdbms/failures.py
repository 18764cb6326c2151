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
_MYSQL_USER_HINT = (
    "Correct the options username and password of the server, or let the database accept the user "
    "(CREATE USER, ALTER USER)."
)
_MYSQL_DENIED = {
    1044: DATABASE_HINT,
    1045: _MYSQL_USER_HINT,
    1049: DATABASE_HINT,
    1130: _MYSQL_USER_HINT,
    1142: PRIVILEGE_HINT,
    1143: PRIVILEGE_HINT,
    1227: PRIVILEGE_HINT,
    1370: PRIVILEGE_HINT,
    1698: _MYSQL_USER_HINT,
}
"""Error numbers of MySQL and MariaDB: access denied to a database, user, table, column or routine."""
_MYSQL_REFUSED_ROW = frozenset(
    {
        *(1048, 1364),  # NULL where none may be
        *(1062, 1169, 1586),  # a key that exists
        *(1264, 1265, 1292, 1366, 1367, 1406, 1411, 1441, 1525, 1690),  # a value that does not fit its column
        *(1216, 1217, 1451, 1452, 1761, 1762),  # FOREIGN KEY
        *(3819, 4025),  # CHECK
        1644,  # SIGNAL in a trigger
        3140,  # invalid JSON
    }
)
_MYSQL_NO_TABLE = 1146
_MYSQL_MISMATCH = frozenset(
    {
        *(1054, 1060, 1072, 1136),  # a column that does not exist, or is there twice
        *(1059, 1103, 1166),  # an invalid name
        *(1063, 1074, 1425, 1426, 1427, 1439, 1253, 1273),  # an invalid type or collation
        *(1069, 1070, 1071, 1075, 1170),  # an invalid key
        *(1117, 1118),  # too many or too wide columns
    }
)
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
        if (number := _mysql_number(cause)) is not None:
            return _translated_mysql(number, error, text, label)
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


def _translated_mysql(number: int, error: exc.DBAPIError, text: str, label: str) -> Exception:
    """Return the connector error for an error of MySQL or MariaDB."""
    if number in _MYSQL_REFUSED_ROW or isinstance(error, exc.IntegrityError | exc.DataError):
        return RowDataError(text)
    if number == _MYSQL_NO_TABLE:
        return GoneError(f"{label}: {text}")
    if number in _MYSQL_DENIED:
        return DeniedError(f"{label} refuses: {text}", hint=_MYSQL_DENIED[number])
    if number in _MYSQL_MISMATCH:
        return MismatchError(f"{label}: {text}")
    if isinstance(error, exc.ProgrammingError | exc.NotSupportedError):
        return ConnectorError(f"{label} does not take the statement: {text}")
    return UnavailableError(f"{label} cannot be used: {text}")


def _mysql_number(cause: object) -> int | None:
    """Return the error number of PyMySQL, which is not imported here: it may not be installed."""
    if not type(cause).__module__.startswith("pymysql."):
        return None
    arguments = getattr(cause, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


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
    reported = cause.args[-1] if _mysql_number(cause) and cause is not None else cause
    lines = str(reported).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def label_of(url: sa.URL) -> str:
    """Name a database without its password, and without the query part, which may hold others."""
    return f'database "{url.set(query={}).render_as_string(hide_password=True)}"'


def refusal(label: str, why: str) -> str:
    """Return the reason of a refused row, with its table."""
    return f'table "{label}" refuses a row: {why}'
