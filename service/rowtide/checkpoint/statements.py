"""Statements and values in the forms that databases and their drivers require."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from rowtide.checkpoint.snapshot import Chunk
from rowtide.checkpoint.tables import named, schema_of
from rowtide_connectors.api import TableColumn, TargetTable

CHUNKS_AT_ONCE = 8
"""Chunks in one round trip: 32 MiB of memory on either side."""


def insert_of(connection: sa.Connection) -> Any:
    """Return the INSERT of this database that supports ON CONFLICT."""
    return sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert


def binary_chunks(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Chunk]:
    """Read chunks in binary form: as text, SQLAlchemy's default, they are twice as long and slow."""
    compiled = query.compile(connection.engine, compile_kwargs={"literal_binds": True})
    psycopg_connection: Any = connection.connection.driver_connection
    with psycopg_connection.cursor("rowtide_chunks", binary=True) as cursor:
        cursor.itersize = CHUNKS_AT_ONCE
        cursor.execute(str(compiled))
        for row in cursor:
            yield Chunk(*row)


def errors_target(connection: sa.Connection) -> TargetTable:
    """Return the table of errors in the form of the connectors, which write many rows fast."""
    dialect = connection.dialect.name
    schema = schema_of(dialect)
    name = named(dialect, "errors")
    columns = tuple(
        TableColumn(column, sql_type, nullable)
        for column, sql_type, nullable in (
            ("pipeline", "VARCHAR", False),
            ("kind", "VARCHAR", False),
            ("relation", "VARCHAR", False),
            ("reason", "VARCHAR", False),
            ("topic", "VARCHAR", True),
            ("partition", "INTEGER", True),
            ("message_offset", "BIGINT", True),
            ("rowtime", "BIGINT", True),
            ("bound", "BIGINT", True),
            ("late_by", "BIGINT", True),
            ("raw", "VARBINARY", True),
            ("row_json", "VARCHAR", True),
            ("epoch", "BIGINT", False),
            ("stream", "VARCHAR", True),
            ("message_time", "BIGINT", True),
            ("message_key", "VARBINARY", True),
            ("message_headers", "VARCHAR", True),
        )
    )
    return TargetTable(name, columns, (), {"table_name": f"{schema}.{name}" if schema else name})


def storable(text: str) -> str:
    """Return text that every database accepts: PostgreSQL refuses NUL, and drivers refuse lone surrogates."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def in_groups(chunks: Iterator[Chunk]) -> Iterator[list[Chunk]]:
    """Yield chunks by ``CHUNKS_AT_ONCE``."""
    group: list[Chunk] = []
    for chunk in chunks:
        group.append(chunk)
        if len(group) == CHUNKS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group
