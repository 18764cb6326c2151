"""Tables against a plain list, under any index tree."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from property.engine.index_trees import ROW_TYPE, changes, displaced, found, key_of, rows, trees
from rowtide.engine import (
    DELETE,
    INSERT,
    Descending,
    Fifo,
    Hashed,
    IndexType,
    Opcode,
    Ordered,
    Row,
    Rowop,
    Sorted,
    Table,
    TableType,
    Unit,
)
from rowtide.engine.table import order
from rowtide.engine.table.tree import Node

Changes = list[tuple[str, Row]]
Tree = dict[str, IndexType]


class Observed:
    """A table, what its labels were reported, and a list that does the same."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.table = Table(Unit("u"), "t", TableType(ROW_TYPE, **tree))
        self.held: list[Row] = []
        self.answer: list[tuple[str, Opcode, Row]] = []
        self.seen: Counter[Row] = Counter()
        self.table.pre.then(self.before, name="before")
        self.table.out.then(self.after, name="after")

    def before(self, rowop: Rowop) -> None:
        self.answer.append(("pre", rowop.opcode, rowop.row))
        assert Counter(self.table) == self.seen, "pre is reported before the change shows"

    def after(self, rowop: Rowop) -> None:
        self.answer.append(("out", rowop.opcode, rowop.row))
        self.seen[rowop.row] += 1 if rowop.opcode is INSERT else -1
        self.seen += Counter()
        assert Counter(self.table) == self.seen, "out is reported when exactly this change shows"

    def change(self, verb: str, row: Row) -> None:
        expected: list[tuple[Opcode, Row]] = []
        if verb == "insert":
            going = displaced(self.held, row, self.tree)
            expected = [(DELETE, self.held[place]) for place in going]
            self.held = [kept for place, kept in enumerate(self.held) if place not in going]
            expected.append((INSERT, row))
            self.held.append(row)
        else:
            place = found(self.held, row, self.tree)
            if place is not None:
                expected = [(DELETE, self.held.pop(place))]
        self.answer.clear()
        self.table.input.send(INSERT if verb == "insert" else DELETE, row)
        assert self.answer == [(label, *answer) for answer in expected for label in ("pre", "out")]


@given(trees(), changes)
def test_a_table_tells_of_the_changes_that_a_list_would_make(tree: Tree, made: Changes) -> None:
    observed = Observed(tree)
    for verb, row in made:
        observed.change(verb, row)
        assert len(observed.table) == len(observed.held)


@given(trees(), changes)
def test_every_index_holds_every_row_and_steps_as_it_iterates(tree: Tree, made: Changes) -> None:
    observed = Observed(tree)
    for verb, row in made:
        observed.change(verb, row)
    table = observed.table
    for node in table.type.walk():
        index = table.index(*node.path)
        handles = list(index.handles())
        assert Counter(handle.row for handle in handles) == Counter(observed.held)
        stepped = []
        handle = index.first()
        while handle is not None:
            stepped.append(handle)
            handle = index.next(handle)
        assert stepped == handles


@given(trees(), changes)
def test_stepping_goes_on_rightly_while_the_table_changes(tree: Tree, made: Changes) -> None:
    table = Table(Unit("u"), "t", TableType(ROW_TYPE, **tree))
    paths = [node.path for node in table.type.walk()]
    for verb, row in made:
        for path in paths:
            first = table.index(*path).first()
            if first is not None:
                table.index(*path).next(first)
        table.input.send(INSERT if verb == "insert" else DELETE, row)
    for path in paths:
        index = table.index(*path)
        stepped, handle = [], index.first()
        while handle is not None:
            stepped.append(handle)
            handle = index.next(handle)
        assert stepped == list(index.handles())


def rank(value: object) -> tuple[int, int, str]:
    """Return what orders one value: NULL first, then numbers, or texts."""
    return (
        value is not None,
        value if isinstance(value, int) else 0,
        value if isinstance(value, str) else "",
    )


def in_order(index: IndexType, keys: list[tuple[object, ...]]) -> bool:
    """Return whether keys stand as a sorted index would have them."""
    if isinstance(index, Sorted):
        return keys == sorted(keys, reverse=True)
    if isinstance(index, Ordered):
        ranks = [tuple(map(rank, key)) for key in keys]
        return ranks == sorted(ranks, reverse=isinstance(index.parameters[0], Descending))
    return True


@given(trees(), changes, rows)
def test_groups_hold_the_rows_of_their_keys_in_the_order_of_their_index(
    tree: Tree, made: Changes, sought: Row
) -> None:
    observed = Observed(tree)
    for verb, row in made:
        observed.change(verb, row)
    table = observed.table
    for node in table.type.walk():
        chain = []
        above: Node | None = node
        while above is not None:
            chain.append(above.index_type)
            above = above.parent
        if node.is_leaf:
            continue
        expected = [
            row
            for row in observed.held
            if all(key_of(index, row) == key_of(index, sought) for index in chain)
        ]
        index = table.index(*node.path)
        group = index.group(sought)
        assert len(group) == len(expected)
        for child in node.children:
            assert Counter(group.rows(child.name)) == Counter(expected)
            if isinstance(child.index_type, Fifo):
                step = -1 if child.index_type.reverse else 1
                assert list(group.rows(child.name)) == expected[::step]
        handles: list[Any] = [*group.handles()]
        handles = handles or [None]
        assert [group.first(), group.last()] == [handles[0], handles[-1]]
        groups = list(index.groups())
        assert sum(map(len, groups)) == len(observed.held)
        if node.parent is None:
            firsts: list[Any] = [key_of(node.index_type, next(iter(one))) for one in groups]
            assert len(set(firsts)) == len(firsts)
            assert in_order(node.index_type, firsts)
        hopped, here = [], groups[0] if groups else None
        while here is not None:
            hopped.append(here.first())
            here = here.following()
        assert hopped == [one.first() for one in groups]


@given(trees(), changes, st.integers(1, 5))
def test_clearing_in_portions_ends_with_an_empty_table(tree: Tree, made: Changes, portion: int) -> None:
    observed = Observed(tree)
    for verb, row in made:
        observed.change(verb, row)
    there = len(observed.table)
    went = []
    while observed.table.clear(limit=portion):
        went.append(there - len(observed.table))
        there = len(observed.table)
    assert there == 0
    assert all(count == portion for count in went[:-1])
    assert not list(observed.table)


front_trees = st.sampled_from(
    [
        {"p": Hashed("a")},
        {"p": Hashed("c", x=Hashed("a"))},
        {"p": Hashed("a", x=Hashed("b", y=Fifo()))},
        {"p": Hashed("c", x=Fifo(), y=Hashed("a"))},
    ]
)
steps = st.lists(st.sampled_from(["insert", "insert", "take", "next", "look"]), max_size=60)


@given(front_trees, steps, st.lists(rows, min_size=60, max_size=60), st.sampled_from([0, 2, 32]))
def test_rows_taken_from_the_front_of_a_hashed_index_leave_the_order_as_it_was(
    tree: Tree, steps: list[str], rows: list[Row], fronts_lost: int
) -> None:
    table, plain = (Table(Unit("u"), "t", TableType(ROW_TYPE, **tree)) for _ in range(2))
    with pytest.MonkeyPatch.context() as patched:
        for step, row in zip(steps, rows, strict=False):
            patched.setattr(order, "FRONTS_LOST", math.inf)
            before = list(plain)
            if step == "insert":
                plain.insert(row)
            elif step == "take" and before:
                plain.delete(before[0])
            after = list(plain)
            patched.setattr(order, "FRONTS_LOST", fronts_lost)
            if step == "insert":
                table.insert(row)
            elif step == "take":
                assert table.clear(limit=1) == len(before[:1])
            first = table.first()
            assert [first and first.row] == (after[:1] or [None])
            if step == "next" and first is not None:
                following = table.index("p").next(first)
                assert [following and following.row] == (after[1:2] or [None])
            assert list(table) == after
