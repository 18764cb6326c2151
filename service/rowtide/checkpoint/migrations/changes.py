"""Changes of the checkpoint's tables, as the migrations make them in every kind of database.

MySQL and MariaDB commit every change by itself. If a process died within a migration, the next one finds some
of its changes: there, what exists already is left as it is.

Migrations use ``operations`` and not alembic's ``op``: that is one for the whole process, and would change the
database of another migration that runs in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy.dialects import mysql

from rowtide.checkpoint.tables import named, schema_of
from rowtide_connectors.rdbms.mysql import exact_collation

TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql")
BYTES = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")
TIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""Of rows: SQLite numbers rows automatically only in a column of this type."""

# Columns of keys: in MySQL they have a length, and a key has at most 768 characters.
PIPELINE = sa.Text().with_variant(mysql.VARCHAR(191), "mysql")
RELATION = sa.Text().with_variant(mysql.VARCHAR(512), "mysql")
PART = sa.Text().with_variant(mysql.VARCHAR(63), "mysql")
DIGEST = sa.Text().with_variant(mysql.VARCHAR(64), "mysql")


_operations: ContextVar[Operations] = ContextVar("operations")


@contextmanager
def migrating(context: MigrationContext) -> Iterator[None]:
    """Let the migrations in this block change the database of ``context``."""
    token = _operations.set(Operations(context))
    try:
        yield
    finally:
        _operations.reset(token)


def operations() -> Operations:
    """Return what changes the database of the migration that runs here."""
    return _operations.get()


def create(name: str, *items: sa.schema.SchemaItem) -> None:
    """Create a table."""
    op = operations()
    bind = op.get_bind()
    options: dict[str, Any] = {}
    if bind.dialect.name == "mysql":
        if sa.inspect(bind).has_table(_named(name)):
            return
        options = {
            "mysql_engine": "InnoDB",
            "mysql_default_charset": "utf8mb4",
            "mysql_collate": exact_collation(bind),
        }
    op.create_table(_named(name), *items, schema=schema_of(bind.dialect.name), **options)


def add(table: str, column: sa.Column[Any]) -> None:
    """Add a column."""
    op = operations()
    bind = op.get_bind()
    if bind.dialect.name == "mysql":
        there = {each["name"] for each in sa.inspect(bind).get_columns(_named(table))}
        if column.name in there:
            return
    op.add_column(_named(table), column, schema=schema_of(bind.dialect.name))


def make_nullable(table: str, column: str, kind: sa.types.TypeEngine[Any]) -> None:
    """Let a column be NULL. SQLite copies the table."""
    op = operations()
    schema = schema_of(op.get_bind().dialect.name)
    with op.batch_alter_table(_named(table), schema=schema) as changed:
        changed.alter_column(column, existing_type=kind, nullable=True)


def index(name: str, table: str, columns: list[str], **options: Any) -> None:
    """Create an index."""
    op = operations()
    bind = op.get_bind()
    if bind.dialect.name == "mysql" and any(
        each["name"] == name for each in sa.inspect(bind).get_indexes(_named(table))
    ):
        return
    op.create_index(name, _named(table), columns, schema=schema_of(bind.dialect.name), **options)


def _named(name: str) -> str:
    return named(operations().get_bind().dialect.name, name)
