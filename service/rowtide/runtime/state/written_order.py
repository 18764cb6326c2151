"""The order in which a commit writes tables that refer to one another (docs/decisions/0029).

The rows of such a group of tables have one order: that of their places, as in a union in which tables come before
those that refer to them. What the database takes is what it would take if every place were written alone: its DELETEs,
those of referring tables first, then its INSERTs, those of referring tables last. Rows of one key and place are one
change, of which the last one counts.

Places are written together in rounds, as far as no row of a round depends on the order within it. A round ends

* before a DELETE, if it has an INSERT: the row to delete may be the one that was inserted, or be referred to;
* before a DELETE, if it has an earlier one of a table that is referred to: the database would have refused that one;
* before an INSERT of a row to which an earlier row of the round refers: the database would have refused that row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rowtide.operators.merge.ranks import Ranks
from rowtide.plan.outputs import referring_groups
from rowtide.plan.plan import ForeignStream, ForeignTable
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray
from rowtide.runtime.state.output import Writes

RanksOf = Callable[[str], Mapping[int, int]]
"""Returns the ranks of the origins of an output."""


class WrittenOrder:
    """Puts the writes of commits in order. ``written`` are the tables that pumps write to."""

    def __init__(self, targets: Sequence[ForeignTable | ForeignStream], written: Sequence[str]) -> None:
        tables = {each.name: each for each in targets if isinstance(each, ForeignTable)}
        self._groups = [
            _Group([tables[name] for name in group]) for group in referring_groups(targets, written)
        ]

    def __call__(self, writes: Sequence[Writes], ranks_of: RanksOf) -> tuple[Writes, ...]:
        """Return the writes of one commit, those of a group of tables in rounds."""
        alone = {each.name: each for each in writes}
        together: list[Writes] = []
        for group in self._groups:
            own = {name: alone.pop(name) for name in group.names if name in alone}
            together += group.rounds(own, ranks_of)
        return (*alone.values(), *together)


@dataclass(frozen=True, slots=True)
class _Event:
    """One row to write: its table by its number in the group, its index, and the number of its place."""

    place: int
    phase: int
    table: int
    index: int
    is_delete: bool


@dataclass(slots=True)
class _Round:
    """The rows of one round, and what later rows could depend on."""

    deleted: list[_Event] = field(default_factory=list)
    inserted: list[_Event] = field(default_factory=list)
    first_deleted: dict[int, int] = field(default_factory=dict)
    """By table: the first place of a deleted row."""
    referred: dict[tuple[int, tuple[object, ...]], int] = field(default_factory=dict)
    """By a table and a key in it to which an inserted row refers: the first place of such a row."""


class _Group:
    """Tables that refer to one another, those that are referred to first."""

    def __init__(self, tables: Sequence[ForeignTable]) -> None:
        self.names = [table.name for table in tables]
        self._tables = tables
        self._keys = [
            [
                (self.names.index(key.table), key.fields)
                for key in table.foreign_keys
                if key.table in self.names
            ]
            for table in tables
        ]

    def rounds(self, writes: Mapping[str, Writes], ranks_of: RanksOf) -> Iterator[Writes]:
        """Yield the writes in rounds, each of them those of one table."""
        held = _Round()
        rows = [
            _Rows(writes.get(table.name), table, keys)
            for table, keys in zip(self._tables, self._keys, strict=True)
        ]
        for event in self._events(rows, ranks_of):
            if self._depends(event, held, rows):
                yield from self._written(held, rows)
                held = _Round()
            if event.is_delete:
                held.deleted.append(event)
                held.first_deleted.setdefault(event.table, event.place)
            else:
                held.inserted.append(event)
                for other in rows[event.table].refers_to(event.index):
                    held.referred.setdefault(other, event.place)
        yield from self._written(held, rows)

    def _depends(self, event: _Event, held: _Round, rows: Sequence[_Rows]) -> bool:
        """Return whether a row depends on being written after the rows of the round."""
        if event.is_delete:
            return bool(held.inserted) or any(
                table < event.table and place < event.place for table, place in held.first_deleted.items()
            )
        first = held.referred.get((event.table, _compared(rows[event.table].key(event.index))))
        return first is not None and first < event.place

    def _written(self, held: _Round, rows: Sequence[_Rows]) -> Iterator[Writes]:
        for events, tables in (
            (held.deleted, reversed(range(len(rows)))),
            (held.inserted, range(len(rows))),
        ):
            for table in tables:
                if indices := [each.index for each in events if each.table == table]:
                    yield rows[table].writes.only(indices)

    def _events(self, rows: Sequence[_Rows], ranks_of: RanksOf) -> list[_Event]:
        """Return the rows in order, of those of one key and place the last one."""
        places = _places([(each.tray, ranks_of(each.name)) for each in rows if each.tray is not None])
        found: list[_Event] = []
        for table, each in enumerate(rows):
            if each.tray is not None:
                own = next(places)
                last = {(place, each.key(index) or index): index for index, place in enumerate(own)}
                for (place, _), index in last.items():
                    is_delete = bool(each.tray.opcode[index] == Opcode.DELETE)
                    found.append(_Event(place, -table - 1 if is_delete else table, table, index, is_delete))
        return sorted(found, key=lambda event: (event.place, event.phase, event.index))


class _Rows:
    """The rows of one table in a commit, as keys see them."""

    def __init__(
        self, writes: Writes | None, table: ForeignTable, keys: Sequence[tuple[int, tuple[int, ...]]]
    ) -> None:
        self.name = table.name
        self.tray = None if writes is None else writes.tray
        self._writes = writes
        self._own = self._values(table.key)
        self._referring = [(other, self._values(fields)) for other, fields in keys]

    @property
    def writes(self) -> Writes:
        """The writes; only a table that has some is asked."""
        assert self._writes is not None
        return self._writes

    def key(self, index: int) -> tuple[object, ...]:
        """Return the key of a row; empty if the table has none."""
        return self._own[index] if self._own else ()

    def refers_to(self, index: int) -> Iterator[tuple[int, tuple[object, ...]]]:
        """Yield the tables and keys to which a row refers."""
        for other, values in self._referring:
            if None not in values[index]:
                yield other, _compared(values[index])

    def _values(self, fields: Sequence[int]) -> list[tuple[object, ...]]:
        if self.tray is None or not fields:
            return []
        return list(zip(*(self.tray.columns[each].to_list() for each in fields), strict=True))


def _compared(key: tuple[object, ...]) -> tuple[object, ...]:
    """Return a key so that it equals those that a database may take for it: blanks at the end, capitals."""
    return tuple(each.rstrip(" ").casefold() if isinstance(each, str) else each for each in key)


def _places(trays: Sequence[tuple[Tray, Mapping[int, int]]]) -> Iterator[list[int]]:
    """Yield the numbers of the places of each tray's rows; one that comes later has none before."""
    if not trays:
        return
    columns = [np.column_stack([tray.rowtime, _ranked(tray, ranks), tray.counter]) for tray, ranks in trays]
    _, numbers = np.unique(np.concatenate(columns), axis=0, return_inverse=True)
    start = 0
    for each in columns:
        own = numbers.reshape(-1)[start : start + len(each)]
        start += len(each)
        yield np.maximum.accumulate(own).tolist()


def _ranked(tray: Tray, ranks: Mapping[int, int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return Ranks(sorted(ranks, key=ranks.__getitem__)).of(tray.origin)
