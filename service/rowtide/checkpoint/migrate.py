"""Creates and upgrades the checkpoint's tables, by the packaged alembic migrations.

Connection and transaction are the caller's, so that two processes that start at once do not see half a schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from rowtide.checkpoint.tables import SCHEMA, VERSION_TABLE, named, schema_of
from rowtide.errors import StatementError
from rowtide_connectors.rdbms.mysql import MySql

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext, RevisionStep
    from alembic.script import ScriptDirectory

MIGRATIONS = Path(__file__).parent / "migrations"

HEAD = "0016"
"""The newest version. Tables of it need no migration, and starts after the first one no alembic: importing
it takes most of a second, in which a restarted service could have read on."""

_SEEN = "rowtide_checkpoint_version"
"""Where a database connection remembers the version of the tables."""

_LOCK = 7_305_811_206
"""Number of the advisory lock for creating PostgreSQL's tables. It has no other meaning."""


def stored_version(connection: sa.Connection) -> str | None:
    """Return the version of the existing tables; None: no tables. Changes nothing."""
    dialect = connection.dialect.name
    if not sa.inspect(connection).has_table(named(dialect, VERSION_TABLE), schema_of(dialect)):
        return None
    version = sa.Table(
        named(dialect, VERSION_TABLE), sa.MetaData(), sa.Column("version_num"), schema=schema_of(dialect)
    )
    found: str | None = connection.execute(sa.select(version.c.version_num)).scalar_one_or_none()
    return found


def check_version(connection: sa.Connection) -> str | None:
    """Return the version of the existing tables, or None; refuse those of a newer program.

    A database connection that has seen this program's version does not ask again. A newer program that
    upgrades the tables later takes the epoch, too, which stops this one.

    Raises:
      StatementError: this program does not know their version.
    """
    if connection.info.get(_SEEN) == HEAD:
        return HEAD
    version = stored_version(connection)
    if version == HEAD:
        connection.info[_SEEN] = HEAD
    if version is None or version == HEAD:
        return version
    from alembic.util import CommandError

    try:
        _scripts().get_revision(version)
    except CommandError as error:
        raise StatementError(
            f'checkpoint tables are of version "{version}", which is newer than this program',
            hint="Run the newer program, or another database.",
        ) from error
    return version


def migrate(connection: sa.Connection) -> None:
    """Upgrade the tables to this program's version, in the open transaction.

    Raises:
      StatementError: they have a newer version.
    """
    if stored_version(connection) == HEAD:
        return
    dialect = connection.dialect.name
    with _alone(connection):
        if dialect == "postgresql":
            connection.execute(sa.text(f"create schema if not exists {SCHEMA}"))
        check_version(connection)
        _upgrade(connection)


@contextmanager
def _alone(connection: sa.Connection) -> Iterator[None]:
    """Let no other process migrate meanwhile. SQLite has one transaction that writes at a time."""
    if connection.dialect.name == "mysql":
        with MySql().creating(connection):
            yield
            # Every CREATE TABLE has committed, the last version has not: without this, the next process
            # could take the lock and still read the version before it.
            connection.exec_driver_sql("commit")
        return
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    yield


def _upgrade(connection: sa.Connection) -> None:
    from alembic.runtime.migration import MigrationContext

    from rowtide.checkpoint.migrations.changes import migrating

    dialect, scripts = connection.dialect.name, _scripts()

    def upgrade(revision: tuple[str, ...], _: MigrationContext) -> list[RevisionStep]:
        return scripts._upgrade_revs("head", revision)  # type: ignore[arg-type]  # as alembic itself does it

    context = MigrationContext.configure(
        connection,
        opts={
            "fn": upgrade,
            "version_table": named(dialect, VERSION_TABLE),
            "version_table_schema": schema_of(dialect),
        },
    )
    with migrating(context):
        context.run_migrations()


@cache
def _scripts() -> ScriptDirectory:
    """Return the migrations, which do not change: loading them takes a fifth of the time of a new database."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(MIGRATIONS))
