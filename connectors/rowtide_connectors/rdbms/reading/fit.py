"""Whether a column of a table can fill a declared column, and which declaration would fit.

The check is by families of types: a value that is too long or too large for the declared type becomes an
error row when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from rowtide_connectors.rdbms.sql_type import SqlType

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_NUMBERS = (*_INTEGERS, "DECIMAL", "DOUBLE", "REAL")
_TIMES = ("DATE", "TIME", "TIMESTAMP")
_TEXTS = ("CHAR", "VARCHAR", "UUID", "JSON")
_BYTES = ("BINARY", "VARBINARY")

_FAMILIES: Sequence[tuple[type[sa.types.TypeEngine[Any]], tuple[str, ...], str]] = (
    (sa.Boolean, ("BOOLEAN",), "BOOLEAN"),
    (sa.BigInteger, (*_NUMBERS, "BOOLEAN", "TIMESTAMP", "DATE"), "BIGINT"),
    (sa.SmallInteger, (*_NUMBERS, "BOOLEAN", "TIMESTAMP", "DATE"), "SMALLINT"),
    (sa.Integer, (*_NUMBERS, "BOOLEAN", "TIMESTAMP", "DATE"), "INTEGER"),
    (sa.Float, ("DOUBLE", "REAL", "DECIMAL"), "DOUBLE"),
    (sa.Numeric, _NUMBERS, "DECIMAL"),
    (sa.DateTime, ("TIMESTAMP", *_TEXTS), "TIMESTAMP"),
    (sa.Date, ("DATE", "TIMESTAMP", *_TEXTS), "DATE"),
    (sa.Time, ("TIME", *_TEXTS), "TIME"),
    (sa.Uuid, _TEXTS, "UUID"),
    (sa.JSON, _TEXTS, "JSON"),
    (sa.LargeBinary, _BYTES, "VARBINARY(1000)"),
    (sa.String, (*_TEXTS, "DECIMAL", *_TIMES), "VARCHAR(100)"),
)
"""Types of databases, the declared types that their values may fit, and the one to propose. The first
that matches counts. Any other type is read as text."""


def declared_for(existing: sa.types.TypeEngine[Any]) -> tuple[tuple[str, ...], str]:
    """Return the names of the types that a column of type ``existing`` can fill, and the type to propose."""
    for kind, declared, proposed in _FAMILIES:
        if isinstance(existing, kind):
            if isinstance(existing, sa.Numeric) and not isinstance(existing, sa.Float):
                return declared, _decimal(existing)
            if isinstance(existing, sa.String) and existing.length is not None:
                return declared, f"VARCHAR({existing.length})"
            return declared, proposed
    if isinstance(existing, sa.types.NullType):
        # SQLite has columns without a type, and types that SQLAlchemy does not know.
        return (*_NUMBERS, *_TIMES, *_TEXTS, *_BYTES, "BOOLEAN"), "VARCHAR(100)"
    return _TEXTS, "VARCHAR(1000)"


def misfit(name: str, existing: sa.types.TypeEngine[Any], shown: str, declared: SqlType) -> str | None:
    """Return why the values of column ``name`` cannot fill a column of type ``declared``; None: they can.

    ``shown`` is the type as the database spells it.
    """
    allowed, proposed = declared_for(existing)
    if declared.name in allowed:
        return None
    wanted = f"{declared.name}{declared.arguments}"
    return f'column "{name}" is {shown}, declared is {wanted}: declare {name.upper()} {proposed}'


def _decimal(existing: sa.Numeric[Any]) -> str:
    if existing.precision is None:
        return "DECIMAL(38, 6)"
    return f"DECIMAL({min(existing.precision, 38)}, {existing.scale or 0})"
