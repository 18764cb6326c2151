"""Trials that show who is at fault if a row is refused because of a mistake in the table: the row, or the table.

The table, if it refuses any row for the same reason. To find out, rows are written for trial, and undone: some that the
table has are written again, deleted, and inserted once more; if that says nothing about INSERT, as in an empty table,
two rows of no content are inserted. One row that is taken clears the table of this kind of write. So do reasons that
differ from row to row: they depend on the values. What a trial meets otherwise, such as a constraint, says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import sqlalchemy as sa

from rowtide_connectors.rdbms.dialect import PhysicalColumns
from rowtide_connectors.rdbms.failures import RowDataError, refusal
from rowtide_connectors.rdbms.fit import fitting
from rowtide_connectors.rdbms.table import PhysicalTable

if TYPE_CHECKING:
    from rowtide_connectors.rdbms.database import SqlDatabase

TRIED_ROWS = 5
"""Rows of the table that are tried: more than one, since the table may have rows that it would refuse now."""

_NUMBERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE",
)
_INTERVALS = ("INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH")
_NO_CONTENT: Mapping[str, tuple[object, object]] = {
    "BOOLEAN": (False, True),
    **dict.fromkeys((*_NUMBERS, *_INTERVALS), (0, 1)),
    **dict.fromkeys(("REAL", "DOUBLE"), (0.0, 1.0)),
    "DECIMAL": (Decimal(0), Decimal(1)),
    **dict.fromkeys(("CHAR", "VARCHAR"), ("", "x")),
    **dict.fromkeys(("BINARY", "VARBINARY"), (b"", b"x")),
    "UUID": ("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001"),
    "JSON": ("null", "{}"),
    "ARRAY": ("[]", "[]"),
}
"""Two values of each type, for the two rows that are made."""


def reasons_of_table(
    database: SqlDatabase, connection: sa.Connection, table: PhysicalTable
) -> frozenset[str]:
    """Return the reasons for which the table refuses any row; see ``api.Transaction``."""
    trials = _Trials(database, connection, table)
    rows = trials.held()
    inserted = [trials.insert(row, again=True) for row in rows]
    if not any(error is None or error.of_table for error in inserted):
        inserted += [trials.insert(row) for row in _rows_of_no_content(table)]
    ways = [inserted]
    if table.key:
        ways += [[trials.rewrite(row) for row in rows], [trials.delete(row) for row in rows]]
    return frozenset(refusal(table.label, why) for way in ways if (why := _one_reason(way)) is not None)


class _Trials:
    """Writes that are undone. Each returns why the database refuses it, or None if it is taken."""

    def __init__(self, database: SqlDatabase, connection: sa.Connection, table: PhysicalTable) -> None:
        self._database = database
        self._connection = connection
        self._table = table

    def held(self) -> list[PhysicalColumns]:
        """Return some rows of the table; none if it cannot be read, such as one that has lost a column."""
        rows: list[tuple[object, ...]] = []
        read = self._database.dialect.rows
        error = self._tried(lambda: rows.extend(read(self._connection, self._table, limit=TRIED_ROWS)))
        columns = self._table.columns
        return [] if error else [[*zip(columns, ([value] for value in row), strict=True)] for row in rows]

    def insert(self, row: PhysicalColumns, *, again: bool = False) -> RowDataError | None:
        """Insert a row; ``again``: one that the table has, so that one with a key is deleted first."""
        if again and self._table.key:
            if self.delete(row) is not None:
                return RowDataError("not tried: the row cannot be deleted")
            return self._tried(partial(self._delete, row), partial(self._insert, row, replace=False))
        return self._tried(partial(self._insert, row, replace=False))

    def rewrite(self, row: PhysicalColumns) -> RowDataError | None:
        """Replace a row by itself."""
        return self._tried(partial(self._insert, row, replace=True))

    def delete(self, row: PhysicalColumns) -> RowDataError | None:
        """Delete a row."""
        return self._tried(partial(self._delete, row))

    def _insert(self, row: PhysicalColumns, *, replace: bool) -> None:
        self._database.dialect.insert(self._connection, self._table, fitting(row), replace=replace)

    def _delete(self, row: PhysicalColumns) -> None:
        keys = [(column, values) for column, values in row if column.sql_name in self._table.key]
        self._database.dialect.delete(self._connection, self._table, keys)

    def _tried(self, *steps: Callable[[], None]) -> RowDataError | None:
        return self._database.tried(self._connection, *steps)


def _rows_of_no_content(table: PhysicalTable) -> Iterator[PhysicalColumns]:
    """Return a row that is NULL wherever the table is, and one that is not NULL anywhere."""
    for number, may_be_null in enumerate((True, False)):
        yield [
            (
                column,
                [
                    None
                    if may_be_null and column.nullable and column.sql_name not in table.key
                    else _NO_CONTENT[column.type.name][number]
                ],
            )
            for column in table.columns
        ]


def _one_reason(errors: Sequence[RowDataError | None]) -> str | None:
    """Return the reason for which each of some trials was refused; None if one was taken or they differ."""
    reasons = {str(error) for error in errors if error is not None and error.of_table}
    return reasons.pop() if None not in errors and len(reasons) == 1 else None
