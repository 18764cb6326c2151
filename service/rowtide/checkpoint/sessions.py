"""Which session of the server holds the record of a pipeline, and the end of one that is silent.

A process that is suspended within a transaction, or whose network is gone, keeps the lock of the record: the server
waits for its next statement. To end its session is to it a lost connection: the server rolls back what was
not committed, and the fence decides who commits (docs/decisions/0031).

* PostgreSQL: a row names the open transaction that has written or locked it, ``pg_locks`` its session.
* MariaDB and MySQL: each change of the record writes the number of its session into it. A dirty read that differs
  from what is committed is of an open transaction, and names its session.
* SQLite has no server that could end anything.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from rowtide.checkpoint.ledger import Writer
from rowtide.checkpoint.migrate import check_version
from rowtide.checkpoint.tables import SINCE_SESSIONS, beats_of
from rowtide_connectors.api import Database
from rowtide_connectors.rdbms.transaction import sql_connection

_POSTGRES_WRITER = sa.text("""
select l.pid, l.transactionid::text as transaction, a.usename, current_user as own, a.state,
  a.wait_event_type = 'Client' as is_waited_for,
  extract(epoch from clock_timestamp() - a.state_change)::float8 as seconds
from rowtide.pipelines p
join pg_locks l on l.locktype = 'transactionid' and l.granted and l.transactionid = p.xmax
join pg_stat_activity a on a.pid = l.pid
where p.pipeline = :pipeline
""")
_POSTGRES_END = sa.text("""
select pg_terminate_backend(pid) from pg_stat_activity
where pid = :session and backend_xid::text = :transaction and wait_event_type = 'Client'
""")
_MYSQL_GRANT = "GRANT PROCESS, CONNECTION ADMIN ON *.* TO the user of this process"


def writer_of(database: Database, pipeline: str) -> Writer | None:
    """Return the session whose open transaction has written the record; see ``ledger.Leadership``."""
    with database.begin() as transaction:
        connection = sql_connection(transaction)
        dialect = connection.dialect.name
        if dialect == "postgresql":
            return _of_postgres(connection, pipeline)
        if dialect != "mysql":
            return None
        # Before any table is read: it is for the next transaction, which is this one.
        connection.exec_driver_sql("set transaction isolation level read uncommitted")
        if (check_version(connection) or "") < SINCE_SESSIONS:
            return None
        written = _mysql_record(connection, pipeline)
    return None if written is None or written[0] is None else _of_mysql(database, pipeline, written)


def end_writer(database: Database, pipeline: str, writer: Writer) -> None:
    """End a session that is silent in this transaction; see ``ledger.Leadership``."""
    with database.begin() as transaction:
        connection = sql_connection(transaction)
        if connection.dialect.name == "postgresql":
            named = {"session": writer.session, "transaction": writer.transaction}
            connection.execute(_POSTGRES_END, named)
            return
    held = writer_of(database, pipeline)
    if held is not None and held.transaction == writer.transaction and held.silent_s is not None:
        with database.begin() as transaction:
            # The server never gives a number again while it runs.
            sql_connection(transaction).exec_driver_sql(f"kill {writer.session:d}")


def _of_postgres(connection: sa.Connection, pipeline: str) -> Writer | None:
    if check_version(connection) is None:
        return None
    found = connection.execute(_POSTGRES_WRITER, {"pipeline": pipeline}).one_or_none()
    if found is None:
        return None
    if found.state is None:
        # PostgreSQL shows what a session does, and lets it end, to members of its role.
        quote = connection.dialect.identifier_preparer.quote
        return Writer(
            found.pid, found.transaction, None, f"GRANT {quote(found.usename)} TO {quote(found.own)}"
        )
    return Writer(found.pid, found.transaction, found.seconds if found.is_waited_for else None)


def _of_mysql(database: Database, pipeline: str, written: tuple[Any, ...]) -> Writer | None:
    with database.begin() as transaction:
        connection = sql_connection(transaction)
        if _mysql_record(connection, pipeline) == written:
            return None
        sessions = connection.exec_driver_sql("show processlist").mappings().all()
    session, name = written[0], " ".join(map(str, written))
    found = next((each for each in sessions if each["Id"] == session), None)
    if found is None:
        # A user sees its own sessions, and may end them.
        return Writer(session, name, None, _MYSQL_GRANT)
    return Writer(session, name, float(found["Time"]) if found["Command"] == "Sleep" else None)


def _mysql_record(connection: sa.Connection, pipeline: str) -> tuple[Any, ...] | None:
    """Return the session that has written the record, and what each change of it changes."""
    table = beats_of(connection.dialect.name)
    columns = (table.c.session, table.c.epoch, table.c.commits, table.c.beats)
    found = connection.execute(sa.select(*columns).where(table.c.pipeline == pipeline)).one_or_none()
    return None if found is None else tuple(found)


def written_by(connection: sa.Connection) -> dict[str, Any]:
    """Return what a change of the record writes, so that others find the session that makes it."""
    return {"session": sa.func.connection_id()} if connection.dialect.name == "mysql" else {}
