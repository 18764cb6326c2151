"""Statements and values in the forms that databases and their drivers require."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from rowtide.checkpoint.snapshot import Chunk
from rowtide.checkpoint.tables import named, schema_of
from rowtide_connectors.api import TableColumn, TargetTable

CHUNKS_AT_ONCE = 8
"""Chunks in one round trip: 32 MiB of memory on either side."""


_INSERTS = {"sqlite": sqlite.insert, "mysql": mysql.insert, "postgresql": postgresql.insert}


def insert_of(connection: sa.Connection) -> Any:
    """Return the INSERT of this database that can replace rows."""
    return _INSERTS[connection.dialect.name]


def new_row(statement: Any) -> Any:
    """Return the columns of the row that was not inserted because its key exists."""
    return statement.inserted if isinstance(statement, mysql.Insert) else statement.excluded


def replacing(
    statement: Any, changes: Mapping[str, object], condition: sa.ColumnElement[bool] | None = None
) -> Any:
    """Let an INSERT change the row of its primary key, if that exists.

    MySQL cannot do it under a condition.
    """
    if isinstance(statement, mysql.Insert):
        return statement.on_duplicate_key_update(dict(changes))
    return statement.on_conflict_do_update(
        index_elements=list(statement.table.primary_key), set_=changes, where=condition
    )


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
