"""SQLAlchemy's errors, translated by consequence in one place."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from rowtide_connectors.errors import ConnectorError, DeniedError, GoneError, MismatchError, UnavailableError
from rowtide_connectors.rdbms.refusals import CONSTRAINT, GONE, TIME_OUT, TRIGGER, VALUE, ErrorReport

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
_MYSQL_MISMATCH = frozenset(
    {
        *(1054, 1060, 1072, 1136),  # a column that does not exist, or is there twice
        *(1059, 1103, 1166),  # an invalid name
        *(1063, 1074, 1425, 1426, 1427, 1439, 1253, 1273),  # an invalid type or collation
        *(1069, 1070, 1071, 1075, 1170),  # an invalid key
        *(1117, 1118),  # too many or too wide columns
    }
)
_VERDICTS = ("ExecWithCheckOptions", "exec_stmt_raise", "exec_stmt_assert")
"""Functions of PostgreSQL that report what a policy, a view or a trigger says about a row, in any language."""
_DENIED_FILE = frozenset(
    {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH}
)


class RowDataError(ConnectorError):
    """The database rejects some row of this statement and does not report which one.

    ``of_table``: by its code it may be the fault of the table (``probe``).
    """

    def __init__(self, message: str, *, of_table: bool = False) -> None:
        super().__init__(message)
        self.of_table = of_table


class StatementTimeoutError(UnavailableError):
    """The server has cancelled a statement that took too long; one of fewer rows may not."""


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


@contextmanager
def write_errors(label: str) -> Iterator[None]:
    """Translate the exceptions of a write of rows: a row is at fault, unless it is an outage (``refusals``).

    Raises:
      RowDataError: a row is at fault.
      StatementTimeoutError: the statement took too long.
    """
    try:
        yield
    except exc.SQLAlchemyError as error:
        found = translated(error, label)
        if not isinstance(found, RowDataError) and isinstance(error, exc.DBAPIError):
            report = _report(error)
            if report.is_of(TIME_OUT):
                found = StatementTimeoutError(report.text)
            elif not error.connection_invalidated and not report.is_outage:
                found = RowDataError(report.text, of_table=report.may_be_of_table)
        raise found from error


def translated(error: exc.SQLAlchemyError, label: str) -> Exception:
    """Return the connector error for an exception of SQLAlchemy."""
    text = _text(error)
    if isinstance(error, exc.DBAPIError) and not error.connection_invalidated:
        cause = error.orig
        if (number := _mysql_number(cause)) is not None:
            return _translated_mysql(number, error, text, label)
        report = _report(error)
        state = report.sqlstate or ""
        if _is_of_values(error, report):
            return RowDataError(text)
        if report.is_of(GONE):
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
    report = _report(error)
    if _is_of_values(error, report) or report.is_of(TRIGGER):
        return RowDataError(text)
    if report.is_of(GONE):
        return GoneError(f"{label}: {text}")
    if number in _MYSQL_DENIED:
        return DeniedError(f"{label} refuses: {text}", hint=_MYSQL_DENIED[number])
    if number in _MYSQL_MISMATCH:
        return MismatchError(f"{label}: {text}")
    if isinstance(error, exc.ProgrammingError | exc.NotSupportedError):
        return ConnectorError(f"{label} does not take the statement: {text}")
    return UnavailableError(f"{label} cannot be used: {text}")


def _is_of_values(error: exc.DBAPIError, report: ErrorReport) -> bool:
    """Return whether a statement of any kind has failed because of values."""
    of_values = report.is_of(VALUE) or report.is_of(CONSTRAINT)
    return of_values or isinstance(error, exc.IntegrityError | exc.DataError)


def _report(error: exc.DBAPIError) -> ErrorReport:
    cause: Any = error.orig
    number = _mysql_number(cause)
    diagnosis = getattr(cause, "diag", None)
    return ErrorReport(
        _text(error),
        # PyMySQL has both, and the SQLSTATE of most numbers is HY000.
        sqlstate=getattr(cause, "sqlstate", None) if number is None else None,
        number=number,
        code=_sqlite_code(cause),
        is_verdict=getattr(diagnosis, "source_function", None) in _VERDICTS,
        in_routine=getattr(diagnosis, "context", None) is not None,
    )


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
