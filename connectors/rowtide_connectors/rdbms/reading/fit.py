"""Whether a column of a table can fill a declared column, and which declaration would fit.

The check is by families of types: a value that is too long or too large for the declared type becomes an
error row when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from rowtide_connectors.rdbms.sql_type import TIMESTAMPS, SqlType

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_NUMBERS = (*_INTEGERS, "DECIMAL", "DOUBLE", "REAL")
_TIMES = ("DATE", "TIME", *TIMESTAMPS)
_TEXTS = ("CHAR", "VARCHAR", "UUID", "JSON")
_DOCUMENTS = (*_TEXTS, "ARRAY")
_BYTES = ("BINARY", "VARBINARY")

_FAMILIES: Sequence[tuple[type[sa.types.TypeEngine[Any]], tuple[str, ...], str]] = (
    (sa.Boolean, ("BOOLEAN",), "BOOLEAN"),
    (sa.BigInteger, (*_NUMBERS, "BOOLEAN", *TIMESTAMPS, "DATE"), "BIGINT"),
    (sa.SmallInteger, (*_NUMBERS, "BOOLEAN", *TIMESTAMPS, "DATE"), "SMALLINT"),
    (sa.Integer, (*_NUMBERS, "BOOLEAN", *TIMESTAMPS, "DATE"), "INTEGER"),
    (sa.Float, ("DOUBLE", "REAL", "DECIMAL"), "DOUBLE"),
    (sa.Numeric, _NUMBERS, "DECIMAL"),
    (sa.DateTime, (*TIMESTAMPS, *_TEXTS), "TIMESTAMP"),
    (sa.Date, ("DATE", *TIMESTAMPS, *_TEXTS), "DATE"),
    (sa.Time, ("TIME", *_TEXTS), "TIME"),
    (sa.Uuid, _TEXTS, "UUID"),
    (sa.JSON, _DOCUMENTS, "JSON"),
    (sa.LargeBinary, _BYTES, "VARBINARY(1000)"),
    (sa.String, (*_DOCUMENTS, "DECIMAL", *_TIMES), "VARCHAR(100)"),
)
"""Types of databases, the declared types that their values may fit, and the one to propose. The first
that matches counts. Any other type is read as text."""


def declared_for(existing: sa.types.TypeEngine[Any]) -> tuple[tuple[str, ...], str]:
    """Return the names of the types that a column of type ``existing`` can fill, and the type to propose."""
    if isinstance(existing, sa.ARRAY):
        _, proposed = declared_for(existing.item_type)
        return _DOCUMENTS, f"{proposed} ARRAY"
    for kind, declared, proposed in _FAMILIES:
        if isinstance(existing, kind):
            if isinstance(existing, sa.Numeric) and not isinstance(existing, sa.Float):
                return declared, _decimal(existing)
            if isinstance(existing, sa.String) and existing.length is not None:
                return declared, f"VARCHAR({existing.length})"
            if isinstance(existing, sa.DateTime) and existing.timezone:
                return declared, "TIMESTAMP WITH TIME ZONE"
            return declared, proposed
    if isinstance(existing, sa.types.NullType):
        # SQLite has columns without a type, and types that SQLAlchemy does not know.
        return (*_NUMBERS, *_TIMES, *_DOCUMENTS, *_BYTES, "BOOLEAN"), "VARCHAR(100)"
    return _TEXTS, "VARCHAR(1000)"


def misfit(name: str, existing: sa.types.TypeEngine[Any], shown: str, declared: SqlType) -> str | None:
    """Return why the values of column ``name`` cannot fill a column of type ``declared``; None: they can.

    ``shown`` is the type as the database spells it.
    """
    allowed, proposed = declared_for(existing)
    fits = declared.name in allowed
    if isinstance(existing, sa.ARRAY) and declared.element is not None:
        fits = declared.element.name in declared_for(existing.item_type)[0]
    if fits:
        return None
    return f'column "{name}" is {shown}, declared is {declared.spelled}: declare {name.upper()} {proposed}'


def _decimal(existing: sa.Numeric[Any]) -> str:
    if existing.precision is None:
        return "DECIMAL(38, 6)"
    return f"DECIMAL({min(existing.precision, 38)}, {existing.scale or 0})"
