"""How many rows one statement has: by rows, by bytes, and fewer once a server has cancelled one that took too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowtide_connectors.errors import UnavailableError
from rowtide_connectors.rdbms.dialect import PhysicalColumns
from rowtide_connectors.rdbms.failures import StatementTimeoutError
from rowtide_connectors.sizes import WRITE_BYTES

CHUNK_ROWS = 20_000
"""Rows of one statement: large enough that its cost is that of the rows, small enough for memory."""

_ALONE_HINT = (
    "Give the statements of the user more time, such as ALTER ROLE .. SET statement_timeout = '5min' or "
    "max_statement_time of MariaDB; or make triggers and indexes of the table faster. The rows wait until then."
)


class Chunks:
    """The most rows of a statement, which one database object learns and keeps."""

    def __init__(self) -> None:
        self._rows = CHUNK_ROWS

    @property
    def are_timed(self) -> bool:
        """Return whether a statement has taken too long, so that the next ones may, too."""
        return self._rows < CHUNK_ROWS

    def end(self, columns: PhysicalColumns, start: int) -> int:
        """Return where the statement ends that begins with the row at ``start``: it has at least one row."""
        stop = min(start + self._rows, row_count(columns))
        sized = [values for column, values in columns if column.type.is_sized]
        if sum(_size(values[start:stop]) for values in sized) <= WRITE_BYTES:
            return stop
        size = 0
        for at in range(start, stop):
            size += sum(_size(values[at : at + 1]) for values in sized)
            if size > WRITE_BYTES:
                return max(at, start + 1)
        return stop

    def took_too_long(self, label: str, rows: int, error: StatementTimeoutError) -> None:
        """Let the next statements have half as many rows as one that the server has cancelled.

        Raises:
          UnavailableError: it had one row.
        """
        if rows == 1:
            raise UnavailableError(
                f'one row of table "{label}" alone takes too long: {error.message}', hint=_ALONE_HINT
            ) from error
        self._rows = min(self._rows, rows // 2)


def row_count(columns: PhysicalColumns) -> int:
    """Return the number of rows of the columns."""
    return len(columns[0][1]) if columns else 0


def _size(values: Sequence[Any]) -> int:
    return sum(len(value) for value in values if value is not None)
