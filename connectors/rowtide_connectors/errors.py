"""Connector errors by consequence; the service maps them to its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping


class ConnectorError(Exception):
    """Base: a message in lower case that names the thing, and a hint of whole sentences."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class OptionError(ConnectorError):
    """An option ``option`` is unknown, missing or has a wrong value; no connection was opened."""

    def __init__(self, message: str, *, hint: str | None = None, option: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.option = option


class MissingOptionError(OptionError):
    """A required option is missing; the configuration may still set it."""


class UnavailableError(ConnectorError):
    """The broker or database is down or refuses for now: back off and try again."""


class DeniedError(UnavailableError):
    """The broker or database denies access: a password, a right, the name of a database.

    It ends a start. In a running pipeline it is an outage like others, because a password changes in
    two places.
    """


class RefusedMessageError(UnavailableError):
    """The receiver does not take the message ``number``, and would not take it again as things are."""

    def __init__(self, message: str, *, number: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.number = number


class GoneError(ConnectorError):
    """The requested object no longer exists: offsets aged out, topic or table deleted."""


class MismatchError(ConnectorError):
    """An existing object does not fit its declaration, such as a table with other columns."""


class RefusedRowsError(ConnectorError):
    """The database does not take some rows of a call, because of their values.

    ``rows`` has the reasons by the row's index in the call, if the transaction finds them
    (``api.Database.sift``). Else they are unknown, and the transaction is rolled back. ``of_table`` has those of
    them for which the table may be at fault, such as a trigger with a mistake (``Transaction.reasons_of_table``).
    """

    def __init__(
        self,
        message: str,
        *,
        table: str,
        rows: Mapping[int, str] | None = None,
        of_table: Collection[int] = (),
    ) -> None:
        super().__init__(message)
        self.table = table
        self.rows = rows or {}
        self.of_table = of_table


class RefusedStageError(ConnectorError):
    """A table does not take some unknown row of its staging table; no row has moved."""
