"""Differences between databases."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa

from rowtide_connectors.rdbms.sql_type import SqlType, TargetColumn
from rowtide_connectors.rdbms.table import ExistingTable, PhysicalColumn, PhysicalTable

IDLE_TRANSACTION_S = 120
"""A frozen process must not hold the fence of its pipeline forever: the server ends its session."""

READS = "rowtide_reads"
"""The execution option of a connection whose transaction only reads."""

PhysicalColumns = Sequence[tuple[PhysicalColumn, Sequence[object]]]
"""Columns with their values in row form; all equally long."""


class Dialect(Protocol):
    """One kind of database. Values are in row form on either side: the dialect converts them."""

    has_stages: bool
    """Whether several processes can fill one table at once, as staging tables require."""
    table_options: str
    """The end of CREATE TABLE."""
    creation_commits: bool
    """Whether CREATE TABLE ends the transaction, so that a rollback does not undo it."""
    idle_transaction_s: int
    """Seconds after which the server ends a new session that is idle within a transaction, if it can do that."""

    def create_engine(self, url: sa.URL, connect_timeout_s: int, lock_timeout_s: int) -> sa.Engine:
        """Make the engine; it does not connect yet.

        Raises:
          OptionError: the URL cannot be used.
        """

    def type_ddl(self, sql_type: SqlType) -> str:
        """Return the type of a new column."""

    def column_ddl(self, connection: sa.Connection, table: PhysicalTable, column: PhysicalColumn) -> str:
        """Return type and collation of a column in a new table."""

    def located(self, connection: sa.Connection, table: PhysicalTable) -> PhysicalTable:
        """Resolve a name without a schema: to the one table of that name, else to the place to create it in.

        The checkpoint's schema is never the default place of a new table.

        Raises:
          MismatchError: several schemas have a table of that name, or the name is invalid.
          GoneError: the schema does not exist, or the user can create tables in none.
        """

    def is_checkpoint(self, table: PhysicalTable) -> bool:
        """Return whether a located table is one of the checkpoint's own."""

    def existing(self, connection: sa.Connection, table: PhysicalTable) -> ExistingTable | None:
        """Look a located table up."""

    def check_rights(self, connection: sa.Connection, table: PhysicalTable) -> None:
        """Check that the user may write to an existing table.

        Raises:
          DeniedError: names the rights that are missing.
        """

    def check_creation(self, connection: sa.Connection, table: PhysicalTable) -> None:
        """Check that the user may create a table where it is located.

        Raises:
          DeniedError: the user may not.
        """

    def creating(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """Wait until no other process creates tables; others wait to the end of the block, at least."""

    def check_deferred(self, connection: sa.Connection) -> None:
        """Check now, and from now on with each statement, the constraints that are else checked at COMMIT."""

    def renew_savepoint(self, connection: sa.Connection, name: str) -> None:
        """Make a savepoint again if the failed statement has ended the transaction."""

    def read_at_one_moment(self, connection: sa.Connection) -> None:
        """Make a new transaction read-only, on one snapshot of the database."""

    def foreign_keys(self, connection: sa.Connection, table: PhysicalTable) -> Iterator[tuple[str, ...]]:
        """Return, for each column of each foreign key of a table: its name, the column, and what it refers to.

        That is a schema, a table and a column. The columns of a key come together, in their order.
        """

    def target(self, existing: str, sql_type: SqlType) -> TargetColumn | None:
        """Return a column of type ``existing`` as target of ``sql_type``; None: it changes values of it."""

    def taken(self, sql_type: SqlType) -> Sequence[str]:
        """Return the types of columns that take ``sql_type``, for messages."""

    def insert(
        self, connection: sa.Connection, table: PhysicalTable, columns: PhysicalColumns, *, replace: bool
    ) -> None:
        """Insert the rows of one statement (``chunks``); with ``replace`` they replace the rows of their keys."""

    def delete(self, connection: sa.Connection, table: PhysicalTable, keys: PhysicalColumns) -> None:
        """Delete the rows of the keys of one statement (``chunks``)."""

    def unstorable(self, columns: PhysicalColumns) -> Iterator[tuple[int, str]]:
        """Return the rows with a value that no table of this database can hold, and why, in order."""

    def rows(
        self, connection: sa.Connection, table: PhysicalTable, *, limit: int | None = None
    ) -> Generator[tuple[object, ...]]:
        """Return the rows, or so many of them, in any order; closing it closes the cursor."""


def table_sql(connection: sa.Connection, table: PhysicalTable) -> str:
    """Return the table's name in quotes, with its schema."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    return ".".join(quote(part) for part in (table.place, table.name) if part is not None)


def quoted(connection: sa.Connection, columns: Sequence[PhysicalColumn]) -> list[str]:
    """Return the columns' names in quotes."""
    return [connection.dialect.identifier_preparer.quote_identifier(column.name) for column in columns]


def limited(statement: str, limit: int | None) -> str:
    """Return a SELECT that has no more than ``limit`` rows."""
    return statement if limit is None else f"{statement} limit {limit}"


def on_conflict(names: Sequence[str], key: Sequence[str]) -> str:
    """Return the clause that replaces the row of a key; all are quoted names."""
    others = [name for name in names if name not in key]
    if not others:
        return f" on conflict ({', '.join(key)}) do nothing"
    updates = ", ".join(f"{name} = excluded.{name}" for name in others)
    return f" on conflict ({', '.join(key)}) do update set {updates}"
