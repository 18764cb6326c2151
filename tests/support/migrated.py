"""New checkpoints in SQLite: migrated once in each process, from then on made of the statements which that came to.

All migrations of an empty database take a tenth of a second, which a thousand tests would spend. Tables of an earlier
version are migrated step by step. So are those of a connection of a subclass: it may look at each statement.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache

import sqlalchemy as sa

from rowtide.checkpoint import migrate
from rowtide.checkpoint.tables import VERSION_TABLE, named

_MADE = "select sql from sqlite_master where sql is not null and name not like 'sqlite_%' order by rowid"

step_by_step = migrate._upgrade


def at_once(connection: sa.Connection) -> None:
    """Create the tables of the newest version, if there are none, in a file or in memory; else migrate them."""
    given: object = connection.connection.dbapi_connection
    if type(given) is sqlite3.Connection and migrate.stored_version(connection) is None:
        for statement in _statements():
            connection.exec_driver_sql(statement)
    else:
        step_by_step(connection)


@cache
def _statements() -> Sequence[str]:
    """Return the statements that create what all migrations of an empty database come to."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        step_by_step(connection)
        found = [str(sql) for (sql,) in connection.exec_driver_sql(_MADE)]
    engine.dispose()
    return [*found, f"insert into {named('sqlite', VERSION_TABLE)} values ('{migrate.HEAD}')"]
