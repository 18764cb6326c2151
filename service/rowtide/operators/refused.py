"""Rows that an operator could not take, remembered until they leave the table that they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rowtide.rows.rowop import Row


class RefusedRows:
    """A bag of rows in which each copy costs the same, however many there are."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._copies: dict[Row, int] = {}
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Remember a copy of a row that was refused."""
        self._copies[row] = self._copies.get(row, 0) + 1

    def take(self, row: Row) -> bool:
        """Forget a copy of a row that leaves; False if none was refused."""
        copies = self._copies.get(row)
        if copies is None:
            return False
        if copies > 1:
            self._copies[row] = copies - 1
        else:
            del self._copies[row]
        return True

    def __iter__(self) -> Iterator[Row]:
        """Give every copy, in the order in which the rows were first refused."""
        for row, copies in self._copies.items():
            for _ in range(copies):
                yield row
