"""Connector errors by consequence; the service maps them to its own."""

from __future__ import annotations

from collections.abc import Mapping


class ConnectorError(Exception):
    """Base: a message in lower case that names the thing, and a hint of whole sentences."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class OptionError(ConnectorError):
    """An option is unknown, missing or has a wrong value; nothing was opened. ``option`` is its name."""

    def __init__(self, message: str, *, hint: str | None = None, option: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.option = option


class MissingOptionError(OptionError):
    """A required option is not given: the configuration may still bring it."""


class UnavailableError(ConnectorError):
    """The broker or database is down or refuses for now: back off and try again."""


class DeniedError(UnavailableError):
    """The broker or database refuses who asks: a password, a right, the name of a database.

    It ends a start. While a pipeline runs it is an outage like others: passwords are changed in two places.
    """


class GoneError(ConnectorError):
    """What was asked for no longer exists: offsets aged out, topic or table deleted."""


class MismatchError(ConnectorError):
    """What exists does not fit what was declared, such as a table with other columns."""


class RefusedRowsError(ConnectorError):
    """The database does not take some rows of a call, because of their values.

    ``rows`` are the reasons by the row's place among those of the call, if the transaction is one that finds
    them (``api.Database.sift``). Else they are unknown, and the transaction is rolled back.
    """

    def __init__(self, message: str, *, table: str, rows: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.table = table
        self.rows = rows or {}


class RefusedStageError(ConnectorError):
    """A table does not take some row of its staging table; which one is not known, nothing has moved."""
