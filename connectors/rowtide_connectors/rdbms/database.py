"""A database: creates and checks tables, and opens transactions that commit everything together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from rowtide_connectors.api import TargetTable
from rowtide_connectors.errors import (
    DeniedError,
    GoneError,
    MismatchError,
    OptionError,
    RefusedRowsError,
    UnavailableError,
)
from rowtide_connectors.foreign_keys import FoundForeignKey
from rowtide_connectors.rdbms.address import address_of
from rowtide_connectors.rdbms.chunks import Chunks, row_count
from rowtide_connectors.rdbms.dialect import READS, Dialect, PhysicalColumns, quoted, table_sql
from rowtide_connectors.rdbms.failures import (
    RowDataError,
    StatementTimeoutError,
    database_errors,
    label_of,
    refusal,
    write_errors,
)
from rowtide_connectors.rdbms.fit import fitted
from rowtide_connectors.rdbms.mysql import MySql
from rowtide_connectors.rdbms.postgres import Postgres
from rowtide_connectors.rdbms.sqlite import Sqlite
from rowtide_connectors.rdbms.stage import SqlStage, drop_stages
from rowtide_connectors.rdbms.table import PhysicalTable, physical
from rowtide_connectors.rdbms.transaction import SqlTransaction

_DIALECTS: Mapping[str, Callable[[], Dialect]] = {
    "postgresql": Postgres,
    "sqlite": Sqlite,
    "mysql": MySql,
    "mariadb": MySql,
}
"""The dialect of each of ``connector.KINDS``."""

_SAVEPOINT = "rowtide_part"
"""Before each part of the rows that are sifted."""

Write = Callable[[sa.Connection, PhysicalColumns], None]


def open_database(
    url: str,
    *,
    username: str | None = None,
    password: str | None = None,
    connect_timeout_s: int = 10,
    lock_timeout_s: int = 30,
) -> SqlDatabase:
    """Open the database at ``url``; nothing is connected yet.

    Raises:
      OptionError: the URL cannot be read.
    """
    address = address_of(url, username, password)
    dialect = _DIALECTS[address.get_backend_name()]()
    try:
        engine = dialect.create_engine(address, connect_timeout_s, lock_timeout_s)
    except (exc.ArgumentError, ImportError) as error:
        raise OptionError(f"{label_of(address)} cannot be opened: {error}", option="url") from error
    return SqlDatabase(dialect, engine)


class SqlDatabase:
    """One database. Thread-safe, with one transaction per thread."""

    def __init__(self, dialect: Dialect, engine: sa.Engine) -> None:
        self.dialect = dialect
        self._engine = engine
        self._tables: dict[str, PhysicalTable] = {}
        # A database in memory has one connection for all threads.
        self._turn = threading.RLock() if isinstance(engine.pool, sa.StaticPool) else nullcontext()
        self.label = label_of(engine.url)
        self._generation = _replaceable(engine)
        self._chunks = Chunks()

    @contextmanager
    def begin(self, *, apart: bool = False) -> Iterator[SqlTransaction]:
        """Open a transaction; see ``api.Database``."""
        with self._transaction(apart=apart) as transaction:
            yield transaction

    @contextmanager
    def sift(self, *, at_once: bool = False) -> Iterator[SqlTransaction]:
        """Open a transaction that finds refused rows; see ``api.Database``."""
        with self._transaction(apart=True, sifts=True) as transaction:
            if at_once:
                self.dialect.check_deferred(transaction.connection)
            yield transaction

    @contextmanager
    def _transaction(
        self, *, apart: bool = False, sifts: bool = False, reads: bool = False
    ) -> Iterator[SqlTransaction]:
        try:
            with self._turn, database_errors(self.label), self._engine.connect() as connection:
                connection.execution_options(**{READS: reads})
                opened = connection.begin()
                transaction = SqlTransaction(self, connection, apart=apart)
                try:
                    with transaction.reading:
                        yield transaction
                    if not sifts and transaction.judged is not None:
                        self._check_deferred(connection, transaction.judged)
                except BaseException:
                    connection.rollback()
                    raise
                if sifts:
                    opened.rollback()
                else:
                    opened.commit()
        except UnavailableError:
            self._renew()
            raise

    def _check_deferred(self, connection: sa.Connection, label: str) -> None:
        """Find before COMMIT what it would refuse; ``label`` is one of the tables that were written."""
        try:
            with write_errors(self.label):
                self.dialect.check_deferred(connection)
        except RowDataError as error:
            raise RefusedRowsError(refusal(label, str(error)), table=label) from error

    @contextmanager
    def begin_read_only(self) -> Iterator[SqlTransaction]:
        """Open a transaction that reads; see ``api.Database``."""
        with self._transaction(reads=True) as transaction:
            self.dialect.read_at_one_moment(transaction.connection)
            yield transaction

    def missing(self, tables: Sequence[TargetTable]) -> Sequence[str]:
        """Return the names of the tables that are missing; see ``api.Database``."""
        names = []
        with self.begin() as transaction:
            for table in tables:
                if self._found(transaction.connection, table) is None:
                    names.append(table.name)
        return names

    def prepare(self, tables: Sequence[TargetTable]) -> None:
        """Create the tables that are missing, all or none; see ``api.Database``."""
        with self.begin() as transaction:
            connection = transaction.connection
            found = {table.name: self._found(connection, table) for table in tables}
            if None in found.values():
                # If two processes start at once, one creates the tables and the other one finds them.
                with self.dialect.creating(connection):
                    self._create_missing(connection, tables)
            ready = {table.name: found[table.name] or self._fitted(connection, table) for table in tables}
            for own in ready.values():
                self.dialect.check_rights(connection, own)
            self._tables.update(ready)

    def foreign_keys(self, tables: Sequence[TargetTable]) -> Sequence[FoundForeignKey]:
        """Return the foreign keys between tables; see ``foreign_keys.ReferringDatabase``."""
        with self.begin() as transaction:
            connection = transaction.connection
            held = [(table.name, self._fitted(connection, table)) for table in tables]
            tables_at = {(table.place, table.name): (name, table) for name, table in held}
            found: list[FoundForeignKey] = []
            for name, table in held:
                rows = list(self.dialect.foreign_keys(connection, table))
                for key in dict.fromkeys(row[0] for row in rows):
                    (_, _, schema, referred, _), *_ = columns = [row for row in rows if row[0] == key]
                    if (schema, referred) in tables_at:
                        other, to = tables_at[schema, referred]
                        here, there = (
                            table.declared(row[1] for row in columns),
                            to.declared(row[4] for row in columns),
                        )
                        if here is not None and there is not None:
                            found.append(FoundForeignKey(name, here, other, there))
        return found

    def stage(self, table: TargetTable, name: str) -> SqlStage | None:
        """Return a staging table; see ``api.StagingDatabase``."""
        return SqlStage(self, table, name) if self.dialect.has_stages else None

    def drop_stages(self, prefix: str) -> None:
        """Drop staging tables; see ``api.StagingDatabase``."""
        if self.dialect.has_stages:
            with self.begin() as transaction:
                drop_stages(transaction.connection, prefix)

    def describe(self) -> str:
        """Connect; return one line that describes the server.

        Raises:
          UnavailableError.
        """
        with self.begin() as transaction:
            version = transaction.connection.dialect.server_version_info or ()
            name = (
                "mariadb"
                if getattr(transaction.connection.dialect, "is_mariadb", False)
                else self._engine.name
            )
        return f"{self.label}: {name} {'.'.join(str(part) for part in version if isinstance(part, int))}"

    def close(self) -> None:
        """Release every connection."""
        self._engine.dispose()

    def table(self, connection: sa.Connection, table: TargetTable) -> PhysicalTable:
        """Return ``table`` as it exists in the database; cached.

        Raises:
          MismatchError: it does not fit, or does not exist.
        """
        if table.name not in self._tables:
            self._tables[table.name] = self._fitted(connection, table)
        return self._tables[table.name]

    def write(self, connection: sa.Connection, label: str, columns: PhysicalColumns, write: Write) -> None:
        """Write rows in chunks.

        Raises:
          RefusedRowsError: the database does not take some of them; which ones is not known.
          UnavailableError: also if a statement took too long for the first time. From then on statements have fewer
            rows and run within savepoints, so the next one that takes too long is only cut further.
        """
        start = 0
        while start < row_count(columns):
            end = self._chunks.end(columns, start)
            is_kept = self._chunks.are_timed
            if is_kept:
                connection.exec_driver_sql(f"savepoint {_SAVEPOINT}")
            try:
                with write_errors(self.label):
                    write(connection, _cut(columns, start, end))
            except RowDataError as error:
                raise RefusedRowsError(refusal(label, str(error)), table=label) from error
            except StatementTimeoutError as error:
                self._chunks.took_too_long(label, end - start, error)
                if not is_kept:
                    raise
                self._undo_part(connection)
                continue
            if is_kept:
                connection.exec_driver_sql(f"release savepoint {_SAVEPOINT}")
            start = end

    def write_taken(
        self, connection: sa.Connection, label: str, columns: PhysicalColumns, write: Write
    ) -> None:
        """Write the rows that the database takes, in their order, and find the others by bisection.

        Whether the database takes a row may depend on the rows before it, so halves are written in order.

        Raises:
          RefusedRowsError: names the rows that were left out; the transaction stays open.
        """
        refused: dict[int, RowDataError] = {}
        start = 0
        while start < row_count(columns):
            end = self._chunks.end(columns, start)
            self._sift(connection, label, columns, write, (start, end), refused)
            start = end
        if refused:
            rows = {index: refusal(label, str(why)) for index, why in refused.items()}
            of_table = {index for index, why in refused.items() if why.of_table}
            raise RefusedRowsError(next(iter(rows.values())), table=label, rows=rows, of_table=of_table)

    def _sift(
        self,
        connection: sa.Connection,
        label: str,
        columns: PhysicalColumns,
        write: Write,
        part: tuple[int, int],
        refused: dict[int, RowDataError],
    ) -> None:
        """Write the rows of a part that the database takes; record the others in ``refused``."""
        low, high = part
        connection.exec_driver_sql(f"savepoint {_SAVEPOINT}")
        try:
            with write_errors(self.label):
                write(connection, _cut(columns, low, high))
        except RowDataError as error:
            self._undo_part(connection)
            if high - low == 1:
                refused[low] = error
                return
        except StatementTimeoutError as error:
            self._chunks.took_too_long(label, high - low, error)
            self._undo_part(connection)
        else:
            connection.exec_driver_sql(f"release savepoint {_SAVEPOINT}")
            return
        middle = (low + high) // 2
        self._sift(connection, label, columns, write, (low, middle), refused)
        self._sift(connection, label, columns, write, (middle, high), refused)

    def tried(self, connection: sa.Connection, *steps: Callable[[], None]) -> RowDataError | None:
        """Do some steps and undo them; return why one of them fails, None if none does."""
        connection.exec_driver_sql(f"savepoint {_SAVEPOINT}")
        failed: RowDataError | None = None
        try:
            with write_errors(self.label):
                for step in steps:
                    step()
        except RowDataError as error:
            failed = error
        except (DeniedError, StatementTimeoutError) as error:
            failed = RowDataError(error.message)
        except (ValueError, ArithmeticError) as error:
            # Other programs may have written values outside the declared type, such as a text that is not a date.
            failed = RowDataError(str(error))
        self._undo_part(connection)
        return failed

    def _undo_part(self, connection: sa.Connection) -> None:
        """Undo what was done since the savepoint, and remove it."""
        self.dialect.renew_savepoint(connection, _SAVEPOINT)
        connection.exec_driver_sql(f"rollback to savepoint {_SAVEPOINT}")
        connection.exec_driver_sql(f"release savepoint {_SAVEPOINT}")

    def limit_idle(self, seconds: int) -> None:
        """Let the server end idle transactions of this process; see ``api.Database``."""
        self.dialect.idle_transaction_s = seconds
        self._renew()

    def _renew(self) -> None:
        """Replace pooled connections at their next use: a session keeps its initial settings."""
        if not isinstance(self._engine.pool, sa.StaticPool):
            self._generation[0] += 1

    def _create_missing(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
        """Create the tables that are missing, all or none."""
        created: list[PhysicalTable] = []
        try:
            for table in tables:
                own = self._own(connection, table)
                if self.dialect.existing(connection, own) is None:
                    self.dialect.check_creation(connection, own)
                    self._create(connection, own)
                    created.append(own)
        except exc.SQLAlchemyError:
            # A rollback undoes the others. Nothing has been written to these, since they were missing.
            if self.dialect.creation_commits and not connection.invalidated:
                for own in created:
                    connection.exec_driver_sql(f"drop table {table_sql(connection, own)}")
            raise

    def _create(self, connection: sa.Connection, table: PhysicalTable) -> None:
        columns = [
            f"{name} {self.dialect.column_ddl(connection, table, column)}"
            + ("" if column.nullable and column.sql_name not in table.key else " not null")
            for column, name in zip(table.columns, quoted(connection, table.columns), strict=True)
        ]
        if table.key:
            key = quoted(connection, [table.column(name) for name in table.key])
            columns.append(f"primary key ({', '.join(key)})")
        connection.exec_driver_sql(
            f"create table {table_sql(connection, table)} ({', '.join(columns)}){self.dialect.table_options}"
        )

    def _own(self, connection: sa.Connection, table: TargetTable) -> PhysicalTable:
        """Return the location of a foreign table, whether it exists or not.

        Raises:
          MismatchError: it is one of the checkpoint's tables; and as ``Dialect.located``.
        """
        located = self.dialect.located(connection, physical(table))
        if self.dialect.is_checkpoint(located):
            raise MismatchError(
                f'table "{located.label}" is one of the checkpoint\'s own tables',
                hint="Name another table with table_name.",
            )
        return located

    def _found(self, connection: sa.Connection, table: TargetTable) -> PhysicalTable | None:
        """Return a foreign table as it exists, or None if it is missing.

        Raises:
          MismatchError: it does not fit; and as ``_own``.
        """
        own = self._own(connection, table)
        existing = self.dialect.existing(connection, own)
        return None if existing is None else fitted(self.dialect, own, existing)

    def _fitted(self, connection: sa.Connection, table: TargetTable) -> PhysicalTable:
        located = self.dialect.located(connection, physical(table))
        existing = self.dialect.existing(connection, located)
        if existing is None:
            raise GoneError(f'table "{located.label}" does not exist')
        return fitted(self.dialect, located, existing)


def _cut(columns: PhysicalColumns, start: int, stop: int) -> PhysicalColumns:
    return [(column, values[start:stop]) for column, values in columns]


def _replaceable(engine: sa.Engine) -> list[int]:
    """Return the generation of an engine's connections: older connections are replaced at their next use."""
    generation = [0]

    @sa.event.listens_for(engine, "connect")
    def connected(_connection: object, record: Any) -> None:
        record.info["generation"] = generation[0]

    @sa.event.listens_for(engine, "checkout")
    def checked_out(_connection: object, record: Any, _proxy: object) -> None:
        if record.info["generation"] != generation[0]:
            # SQLAlchemy then closes the connection and opens another one.
            raise exc.DisconnectionError

    return generation
