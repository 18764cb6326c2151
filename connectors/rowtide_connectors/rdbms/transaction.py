"""One open transaction of a database: rows of foreign tables, and statements of the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import sqlalchemy as sa

from rowtide_connectors.api import TargetTable, Transaction
from rowtide_connectors.errors import OptionError, RefusedRowsError
from rowtide_connectors.rdbms.dialect import PhysicalColumns
from rowtide_connectors.rdbms.failures import refusal
from rowtide_connectors.rdbms.fit import compared, fitting, form_of, misfits
from rowtide_connectors.rdbms.probe import reasons_of_table
from rowtide_connectors.rdbms.table import PhysicalTable

if TYPE_CHECKING:
    from rowtide_connectors.rdbms.database import SqlDatabase


class SqlTransaction:
    """One open transaction; see ``api.Transaction``."""

    def __init__(self, database: SqlDatabase, connection: sa.Connection, *, apart: bool = False) -> None:
        self._database = database
        self._write = database.write_taken if apart else database.write
        self.connection = connection
        """For this connector; others call ``sql_connection``."""
        self.reading = ExitStack()
        """Closes the cursors of ``rows`` that were not read to their end, before the transaction ends."""
        self.judged: str | None = None
        """A table that was written and that has constraints, or triggers, whose constraints are also meant."""

    def upsert(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Insert rows, replacing those whose key exists."""
        self._insert(table, columns, replace=True)

    def append(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Insert rows."""
        self._insert(table, columns, replace=False)

    def _insert(self, table: TargetTable, columns: Mapping[str, Sequence[object]], *, replace: bool) -> None:
        found = self._written(table)
        dialect = self._database.dialect
        self._write(
            self.connection,
            found.label,
            _matched(found, columns),
            lambda connection, chunk: dialect.insert(connection, found, fitting(chunk), replace=replace),
        )

    def delete(self, table: TargetTable, keys: Mapping[str, Sequence[object]]) -> None:
        """Delete the rows of these keys."""
        found = self._written(table)
        dialect = self._database.dialect
        self._write(
            self.connection,
            found.label,
            _without(_matched(found, keys)),
            lambda connection, chunk: dialect.delete(connection, found, chunk),
        )

    def _written(self, table: TargetTable) -> PhysicalTable:
        found = self._database.table(self.connection, table)
        if found.judges:
            self.judged = found.label
        return found

    def judges_rows(self, table: TargetTable) -> bool:
        """Return whether the database may reject a row because of other rows; see ``api.Transaction``."""
        return self._database.table(self.connection, table).judges

    def reasons_of_table(self, table: TargetTable) -> frozenset[str]:
        """Return the reasons for which a table refuses any row; see ``api.Transaction``."""
        return reasons_of_table(self._database, self.connection, self._database.table(self.connection, table))

    def check(self, table: TargetTable, columns: Mapping[str, Sequence[object]]) -> None:
        """Check values without writing them; see ``api.Transaction``."""
        found = self._database.table(self.connection, table)
        matched = _matched(found, columns)
        reasons = misfits(matched) | dict(self._database.dialect.unstorable(matched))
        rows = {index: refusal(found.label, why) for index, why in sorted(reasons.items())}
        if rows:
            raise RefusedRowsError(next(iter(rows.values())), table=found.label, rows=rows)

    def compared(
        self, table: TargetTable, keys: Mapping[str, Sequence[object]]
    ) -> Sequence[Sequence[object]]:
        """Return keys as the database compares them; see ``api.Transaction``."""
        return compared(_matched(self._database.table(self.connection, table), keys))

    def rows(self, table: TargetTable) -> Iterator[tuple[object, ...]]:
        """Return the table's rows in row form, columns as declared, in any order."""
        found = self._database.table(self.connection, table)
        form = form_of(found)
        rows = self.reading.enter_context(closing(self._database.dialect.rows(self.connection, found)))
        yield from map(form, rows)

    def form_of(self, table: TargetTable) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
        """Return the function that gives rows the form in which ``rows`` returns them."""
        return form_of(self._database.table(self.connection, table))


def _without(keys: PhysicalColumns) -> PhysicalColumns:
    """Return the keys that their columns take: no row has another one."""
    wrong = misfits(keys)
    if not wrong:
        return keys
    return [
        (column, [value for index, value in enumerate(values) if index not in wrong])
        for column, values in keys
    ]


def _matched(table: PhysicalTable, columns: Mapping[str, Sequence[object]]) -> PhysicalColumns:
    return [(table.column(name), values) for name, values in columns.items()]


def sql_connection(transaction: Transaction) -> sa.Connection:
    """Return the connection of a transaction of this connector, for tables that are not foreign tables.

    Raises:
      OptionError: the transaction is of another connector.
    """
    if not isinstance(transaction, SqlTransaction):
        raise OptionError(
            "the checkpoint cannot be stored in this database: its transactions are not those of connector "
            '"rdbms"',
            hint="Use a server of wrapper RDBMS for foreign tables.",
        )
    return transaction.connection
