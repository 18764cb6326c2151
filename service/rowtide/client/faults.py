"""The exceptions of PEP 249."""

from __future__ import annotations


class Warning(Exception):
    """Data was lost. The client never raises it: rejected rows are in ``cursor.messages``."""


class Error(Exception):
    """Base of every error of the client."""


class InterfaceError(Error):
    """The client was used in a way that it cannot be used."""


class DatabaseError(Error):
    """The service reported an error."""


class DataError(DatabaseError):
    """A value is wrong."""


class OperationalError(DatabaseError):
    """The service is down, slow or refuses the caller, or a query ended before its end."""


class IntegrityError(DatabaseError):
    """A constraint is violated."""


class InternalError(DatabaseError):
    """The answer is not one of a service of Rowtide."""


class ProgrammingError(DatabaseError):
    """The query is refused; the message has the place and the hint."""


class NotSupportedError(DatabaseError):
    """The service has no such operation."""
