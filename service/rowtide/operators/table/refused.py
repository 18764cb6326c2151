"""Rows that an operator has refused, stored until they leave the table that they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from rowtide.rows.rowop import Row

WaitingChange = tuple[Row, int]
"""A row and an opcode of a change that did not fit."""


class RefusedRows:
    """A bag of rows in which each copy costs the same, however many there are."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._copies: dict[Row, int] = {}
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Add a copy of a refused row."""
        self._copies[row] = self._copies.get(row, 0) + 1

    def take(self, row: Row) -> bool:
        """Remove a copy of a row that leaves; False if none was refused."""
        copies = self._copies.get(row)
        if copies is None:
            return False
        if copies > 1:
            self._copies[row] = copies - 1
        else:
            del self._copies[row]
        return True

    def __iter__(self) -> Iterator[Row]:
        """Yield every copy, in the order in which the rows were first refused."""
        for row, copies in self._copies.items():
            for _ in range(copies):
                yield row


class WaitingChanges:
    """Changes of groups that did not fit, by key, in their order, until they fit or are undone."""

    def __init__(self) -> None:
        self._by_key: dict[Row, list[WaitingChange]] = {}

    def __contains__(self, key: Row) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[WaitingChange]:
        for waiting in self._by_key.values():
            yield from waiting

    def add(self, key: Row, change: WaitingChange) -> None:
        """Add a waiting change."""
        self._by_key.setdefault(key, []).append(change)

    def cancel(self, key: Row, row: Row, opcode: int) -> bool:
        """Remove a change that an opposite one of the same row undoes; False if none waits."""
        waiting = self._by_key.get(key)
        if waiting is None:
            return False
        before = (row, -opcode)
        if before not in waiting:
            return False
        waiting.remove(before)
        if not waiting:
            del self._by_key[key]
        return True

    def apply(self, key: Row, applied: Callable[[WaitingChange], bool]) -> Sequence[WaitingChange]:
        """Apply waiting changes with ``applied``, as long as any fits; return those that still wait."""
        waiting = self._by_key[key]
        while True:
            rest = [change for change in waiting if not applied(change)]
            if not rest:
                del self._by_key[key]
                return rest
            self._by_key[key] = rest
            if len(rest) == len(waiting):
                return rest
            waiting = rest

    def forget(self, key: Row) -> None:
        """Drop the waiting changes of a group."""
        self._by_key.pop(key, None)
