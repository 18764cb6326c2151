"""A model of the order in which one table operation calls aggregators and sends results.

Rows are numbers into a list and a group is a set of numbers, so nothing here is shared with the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from property.engine.index_trees import key_of
from rowtide.engine import (
    AFTER_DELETE,
    AFTER_INSERT,
    BEFORE_MOD,
    COLLAPSE,
    DELETE,
    INSERT,
    NOP,
    AggregatorCall,
    IndexType,
    Opcode,
    Row,
)

Tree = dict[str, IndexType]
Path = tuple[str, ...]


class Called(NamedTuple):
    """One call of an aggregator, and the rows that its group shows then."""

    aggregator: str
    call: AggregatorCall
    opcode: Opcode
    changed: Row | None
    group: Counter[Row]


class Result(NamedTuple):
    """One result that a label receives: who sent it, in which call."""

    aggregator: str
    call: AggregatorCall
    opcode: Opcode


class Changed(NamedTuple):
    """One change that the table announces on its label ``out``."""

    opcode: Opcode
    row: Row


Event = Called | Result | Changed


def name_at(path: Path) -> str:
    """Return the name of the aggregator on the index at ``path``."""
    return "-".join(path)


class Operation:
    """One operation on a table: the rows before it, the places of those that go, and the new row."""

    def __init__(
        self, tree: Tree, aggregated: set[Path], held: list[Row], going: list[int], new: Row | None
    ) -> None:
        self._tree = tree
        self._aggregated = aggregated
        self._rows = [*held, new]
        self._going = going
        self._coming = [] if new is None else [len(held)]
        self._before = set(range(len(held)))
        self._after = (self._before - set(going)) | set(self._coming)
        self._events: list[Event] = []
        self._sent = 0

    def events(self) -> list[Event]:
        """Return everything that can be seen of the operation, in order."""
        everything = self._before | self._after
        self._call_before(self._tree, (), everything, self._going, [])
        self._call_before(self._tree, (), everything, self._coming, self._going)
        self._send()
        self._events += [Changed(DELETE, self._rows[number]) for number in self._going]
        self._events += [Changed(INSERT, self._rows[number]) for number in self._coming]
        self._sent = len(self._events)
        self._call_after(AFTER_DELETE, self._tree, (), everything, self._going, self._coming)
        self._call_after(AFTER_INSERT, self._tree, (), everything, self._coming, [])
        self._send()
        self._collapse(self._tree, (), everything, self._going)
        self._send()
        return self._events

    def _call(
        self, path: Path, call: AggregatorCall, opcode: Opcode, changed: Row | None, group: set[int]
    ) -> None:
        if path in self._aggregated:
            rows = Counter(self._rows[number] for number in group)
            self._events.append(Called(name_at(path), call, opcode, changed, rows))

    def _send(self) -> None:
        calls = [event for event in self._events[self._sent :] if isinstance(event, Called)]
        self._events += [Result(event.aggregator, event.call, event.opcode) for event in calls]
        self._sent = len(self._events)

    def _keys(self, index: IndexType, numbers: Iterable[int]) -> list[object]:
        return list(dict.fromkeys(key_of(index, self._rows[number]) for number in numbers))

    def _under(self, index: IndexType, key: object, numbers: Iterable[int]) -> list[int]:
        return [number for number in numbers if key_of(index, self._rows[number]) == key]

    def _call_before(
        self, tree: Tree, path: Path, group: set[int], changed: list[int], called: list[int]
    ) -> None:
        there = group & self._before
        if changed and not called and (there or not path):
            for name in tree:
                self._call((*path, name), BEFORE_MOD, DELETE, None, there)
        for name, index in tree.items():
            if index.nested:
                for key in self._keys(index, changed):
                    inner, mine, done = (self._under(index, key, each) for each in (group, changed, called))
                    self._call_before(index.nested, (*path, name), set(inner), mine, done)

    def _call_after(
        self,
        call: AggregatorCall,
        tree: Tree,
        path: Path,
        group: set[int],
        changed: list[int],
        later: list[int],
    ) -> None:
        for name in tree:
            for number in changed:
                opcode = INSERT if number == changed[-1] and not later else NOP
                self._call((*path, name), call, opcode, self._rows[number], group & self._after)
        for name, index in tree.items():
            if index.nested:
                for key in self._keys(index, changed):
                    inner, mine, more = (self._under(index, key, each) for each in (group, changed, later))
                    self._call_after(call, index.nested, (*path, name), set(inner), mine, more)

    def _collapse(self, tree: Tree, path: Path, group: set[int], gone: list[int]) -> None:
        for name, index in tree.items():
            if index.nested:
                for key in self._keys(index, gone):
                    inner = set(self._under(index, key, group))
                    self._collapse(index.nested, (*path, name), inner, self._under(index, key, gone))
                    if not inner & self._after:
                        for below in index.nested:
                            self._call((*path, name, below), COLLAPSE, NOP, None, set())
