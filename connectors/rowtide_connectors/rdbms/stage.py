"""A staging table, which many processes fill and the transaction of a commit moves in one step.

Each process writes under its own part. The transaction names the parts that count. Rows of a process
that died, or that did the same work twice, are dropped with the table. The table is not logged, and
is in the schema of the checkpoint; only PostgreSQL has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from rowtide_connectors.api import TargetTable, Transaction
from rowtide_connectors.errors import RefusedStageError
from rowtide_connectors.rdbms.dialect import PhysicalColumns, on_conflict, quoted, table_sql
from rowtide_connectors.rdbms.failures import RowDataError, StatementTimeoutError, write_errors
from rowtide_connectors.rdbms.fit import fitting
from rowtide_connectors.rdbms.sql_type import parse_type
from rowtide_connectors.rdbms.table import PhysicalColumn, PhysicalTable
from rowtide_connectors.rdbms.transaction import sql_connection

if TYPE_CHECKING:
    from rowtide_connectors.rdbms.database import SqlDatabase

PART = PhysicalColumn("$part", "$part", parse_type("VARCHAR"), nullable=False)
GONE = PhysicalColumn("$gone", "$gone", parse_type("BOOLEAN"), nullable=False)


class SqlStage:
    """See ``api.Stage``. ``name`` has its schema before a dot."""

    def __init__(self, database: SqlDatabase, table: TargetTable, name: str) -> None:
        self._database = database
        self._table = table
        self._schema, _, self._name = name.rpartition(".")

    def create(self) -> None:
        """Create the table, replacing one of that name."""
        with self._database.begin() as transaction:
            connection = transaction.connection
            target = self._database.table(connection, self._table)
            self._drop(connection)
            names = ", ".join(quoted(connection, target.columns))
            stage = table_sql(connection, self._stage(target))
            # The types of the target, but not its constraints, which the move checks.
            connection.exec_driver_sql(
                f"create unlogged table {stage} as"
                f" select {names} from {table_sql(connection, target)} with no data"
            )
            connection.exec_driver_sql(
                f'alter table {stage} add "{PART.name}" text, add "{GONE.name}" boolean'
            )

    def insert(self, part: str, columns: Mapping[str, Sequence[object]]) -> None:
        """Stage rows to insert; see ``api.Stage``."""
        self._put(part, columns, gone=False)

    def delete(self, part: str, keys: Mapping[str, Sequence[object]]) -> None:
        """Stage keys of rows to delete; see ``api.Stage``."""
        self._put(part, keys, gone=True)

    def move(self, transaction: Transaction, parts: Sequence[str]) -> None:
        """Apply the staged rows to the table, and drop the stage; see ``api.Stage``."""
        connection = sql_connection(transaction)
        target = self._database.table(connection, self._table)
        names = quoted(connection, target.columns)
        into, stage = table_sql(connection, target), table_sql(connection, self._stage(target))
        key = quoted(connection, [target.column(name) for name in target.key])
        counts = f'"{PART.name}" = any(%(parts)s)'
        insert = (
            f"insert into {into} ({', '.join(names)}) select {', '.join(names)} from {stage}"
            f' where not "{GONE.name}" and {counts}'
        )
        try:
            with write_errors(self._database.label):
                if key:
                    same = " and ".join(f"t.{name} = s.{name}" for name in key)
                    gone = f'"{GONE.name}" and {counts} and {same}'
                    connection.exec_driver_sql(
                        f"delete from {into} as t using {stage} as s where {gone}",
                        {"parts": list(parts)},
                    )
                    insert += on_conflict(names, key)
                connection.exec_driver_sql(insert, {"parts": list(parts)})
                if target.judges:
                    self._database.dialect.check_deferred(connection)
        except (RowDataError, StatementTimeoutError) as error:
            # A row is rejected, two rows have one key, or all at once take too long. Chunks of rows show which.
            raise RefusedStageError(f'table "{target.label}" refuses a row: {error}') from error
        self._drop(connection)

    def drop(self) -> None:
        """Drop the table, if it exists."""
        with self._database.begin() as transaction:
            self._drop(transaction.connection)

    def _put(self, part: str, columns: Mapping[str, Sequence[object]], *, gone: bool) -> None:
        with self._database.begin() as transaction:
            connection = transaction.connection
            target = self._database.table(connection, self._table)
            stage = self._stage(target)
            values: PhysicalColumns = [(target.column(name), held) for name, held in columns.items()]
            count = len(values[0][1])
            values = [*values, (PART, [part] * count), (GONE, [gone] * count)]
            dialect = self._database.dialect
            self._database.write(
                connection,
                target.label,
                values,
                lambda connection, chunk: dialect.insert(connection, stage, fitting(chunk), replace=False),
            )

    def _stage(self, target: PhysicalTable) -> PhysicalTable:
        return replace(target, schema=self._schema, name=self._name, key=())

    def _drop(self, connection: sa.Connection) -> None:
        quote = connection.dialect.identifier_preparer.quote_identifier
        connection.exec_driver_sql(f"drop table if exists {quote(self._schema)}.{quote(self._name)}")


def drop_stages(connection: sa.Connection, prefix: str) -> None:
    """Drop every table whose name, with its schema before a dot, has this prefix."""
    schema, _, begins = prefix.rpartition(".")
    found = connection.exec_driver_sql(
        "select tablename from pg_tables where schemaname = %s and starts_with(tablename, %s)",
        (schema, begins),
    ).scalars()
    quote = connection.dialect.identifier_preparer.quote_identifier
    for name in found.all():
        connection.exec_driver_sql(f"drop table if exists {quote(schema)}.{quote(name)}")
