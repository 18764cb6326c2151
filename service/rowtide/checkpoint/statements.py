"""Statements and values in the forms that databases and their drivers require."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import sqlalchemy as sa

from rowtide.checkpoint.snapshot_part import Chunk
from rowtide.checkpoint.tables import Tables, named, schema_of
from rowtide.errors import SupersededError
from rowtide_connectors.api import TableColumn, TargetTable

CHUNKS_AT_ONCE = 8
"""Chunks in one round trip: 8 MiB of memory on either side."""


ERROR_COLUMNS = (
    TableColumn("pipeline", "VARCHAR", False),
    TableColumn("kind", "VARCHAR", False),
    TableColumn("relation", "VARCHAR", False),
    TableColumn("reason", "VARCHAR", False),
    TableColumn("topic", "VARCHAR", True),
    TableColumn("partition", "INTEGER", True),
    TableColumn("message_offset", "BIGINT", True),
    TableColumn("rowtime", "BIGINT", True),
    TableColumn("bound", "BIGINT", True),
    TableColumn("late_by", "BIGINT", True),
    TableColumn("raw", "VARBINARY", True),
    TableColumn("row_json", "VARCHAR", True),
    TableColumn("epoch", "BIGINT", False),
    TableColumn("stream", "VARCHAR", True),
    TableColumn("message_time", "BIGINT", True),
    TableColumn("message_key", "VARBINARY", True),
    TableColumn("message_headers", "VARCHAR", True),
)
"""Of the table ``errors``, as rows are written."""


def check_epoch(connection: sa.Connection, tables: Tables, pipeline: str, epoch: int) -> None:
    """Check that an epoch is still the newest of its pipeline; it stays so until the transaction ends.

    Raises:
      SupersededError: another process took the pipeline.
    """
    pipelines = tables.pipelines
    held = connection.execute(
        sa.select(pipelines.c.epoch).where(pipelines.c.pipeline == pipeline).with_for_update(read=True)
    ).scalar_one_or_none()
    if held != epoch:
        raise SupersededError(
            f'pipeline "{pipeline}" was taken by another process: epoch {held}, ours is {epoch}'
        )


def insert_of(connection: sa.Connection) -> Any:
    """Return the INSERT of this database that can replace rows.

    Its engine has loaded SQLAlchemy's module for it. Those of other databases stay unloaded.
    """
    return import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert


def new_row(statement: Any) -> Any:
    """Return the columns of the row that was not inserted because its key exists."""
    return statement.inserted if _is_mysql(statement) else statement.excluded


def replacing(
    statement: Any, changes: Mapping[str, object], condition: sa.ColumnElement[bool] | None = None
) -> Any:
    """Let an INSERT change the row of its primary key, if that exists.

    MySQL cannot do it under a condition.
    """
    if _is_mysql(statement):
        return statement.on_duplicate_key_update(dict(changes))
    return statement.on_conflict_do_update(
        index_elements=list(statement.table.primary_key), set_=changes, where=condition
    )


def _is_mysql(statement: Any) -> bool:
    return hasattr(statement, "on_duplicate_key_update")


def binary_chunks(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Chunk]:
    """Read chunks in binary form: as text, SQLAlchemy's default, they are twice as long and slow."""
    compiled = query.compile(connection.engine, compile_kwargs={"literal_binds": True})
    psycopg_connection: Any = connection.connection.driver_connection
    with psycopg_connection.cursor("rowtide_chunks", binary=True) as cursor:
        cursor.itersize = CHUNKS_AT_ONCE
        cursor.execute(str(compiled))
        for row in cursor:
            yield Chunk(*row)


def own_target(
    connection: sa.Connection, name: str, columns: Sequence[TableColumn], key: Sequence[str] = ()
) -> TargetTable:
    """Return a table of the checkpoint in the form of the connectors, which write many rows fast."""
    dialect = connection.dialect.name
    schema, own = schema_of(dialect), named(dialect, name)
    return TargetTable(own, tuple(columns), tuple(key), {"table_name": f"{schema}.{own}" if schema else own})


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
