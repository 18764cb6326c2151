"""A client of a running service, as PEP 249 has it (DB-API 2.0): ``rowtide.connect``. It needs no other module."""

from __future__ import annotations

from rowtide.client.cursor import ServiceConnection, ServiceCursor, connect
from rowtide.client.faults import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from rowtide.client.types import BINARY, DATETIME, NUMBER, ROWID, STRING

apilevel = "2.0"
threadsafety = 1
"""Threads may share this module, but not connections."""
paramstyle = "qmark"
"""PEP 249 wants one. Queries take no parameters."""

__all__ = [
    "connect",
    "apilevel",
    "threadsafety",
    "paramstyle",
    "ServiceConnection",
    "ServiceCursor",
    "Warning",
    "Error",
    "InterfaceError",
    "DatabaseError",
    "DataError",
    "OperationalError",
    "IntegrityError",
    "InternalError",
    "ProgrammingError",
    "NotSupportedError",
    "STRING",
    "BINARY",
    "NUMBER",
    "DATETIME",
    "ROWID",
]
