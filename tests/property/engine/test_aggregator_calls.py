"""Aggregators of any index tree are called, and their results sent, in the order of a simple model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from property.engine.aggregator_calls import Called, Changed, Event, Operation, Path, Result, Tree, name_at
from property.engine.index_trees import ROW_TYPE, changes, displaced, found, trees
from rowtide.engine import (
    DELETE,
    INSERT,
    Aggregator,
    AggregatorCall,
    AggregatorContext,
    Fifo,
    Hashed,
    IndexType,
    Ordered,
    Row,
    Rowop,
    Table,
    TableType,
    Unit,
)

Changes = list[tuple[str, Row]]


def paths_of(tree: Tree, above: Path = ()) -> list[Path]:
    """Return the paths of all indexes of a tree."""
    return [
        path
        for name, index in tree.items()
        for path in ((*above, name), *paths_of(index.nested, (*above, name)))
    ]


@st.composite
def aggregated(draw: st.DrawFn) -> tuple[Tree, set[Path]]:
    tree = draw(trees())
    paths = paths_of(tree)
    return tree, draw(st.sets(st.sampled_from(paths), min_size=min(2, len(paths))))


def attach(
    tree: Tree, on: set[Path], make: Callable[[Path, list[str]], Aggregator], above: Path = ()
) -> Tree:
    """Return the tree with an aggregator on each index of ``on``."""
    made: Tree = {}
    for name, index in tree.items():
        path = (*above, name)
        changed: IndexType = index.aggregate(make(path, list(tree))) if path in on else index
        for under, nested in attach(index.nested, on, make, path).items():
            changed = changed.nest(under, nested)
        made[name] = changed
    return made


class Watched:
    """A table whose aggregators log each call and send a result in each."""

    def __init__(self, tree: Tree, on: set[Path]) -> None:
        self.tree, self.on = tree, on
        self.held: list[Row] = []
        self.events: list[Event] = []
        self.table = Table(Unit("u"), "t", TableType(ROW_TYPE, **attach(tree, on, self.aggregator)))
        self.table.out.then(self.note_change, name="log")
        for path in on:
            self.table.results(name_at(path)).then(self.receiver(name_at(path)), name="log")

    def aggregator(self, path: Path, siblings: list[str]) -> Aggregator:
        name = name_at(path)

        def handle(context: AggregatorContext) -> None:
            rows = list(context.rows())
            self.events.append(Called(name, context.call, context.opcode, context.changed, Counter(rows)))
            for beside in siblings:
                ordered = list(context.rows(beside))
                assert Counter(ordered) == Counter(rows)
                assert [context.first(beside), context.last(beside)] == [
                    *(ordered[:1] or [None]),
                    *(ordered[-1:] or [None]),
                ]
            context.send(ROW_TYPE.row(c=context.call.value))

        return Aggregator(name, ROW_TYPE, handle)

    def receiver(self, name: str) -> Callable[[Rowop], None]:
        def note(rowop: Rowop) -> None:
            self.events.append(Result(name, AggregatorCall(rowop.row.c), rowop.opcode))
            self.check_groups()

        return note

    def note_change(self, rowop: Rowop) -> None:
        self.events.append(Changed(rowop.opcode, rowop.row))
        self.check_groups()

    def check_groups(self) -> None:
        """Check that a reader meets no emptied group, and finds both ends of each other one."""
        for path in paths_of(self.tree):
            index = self.table.index(*path)
            if index.is_leaf:
                continue
            for group in index.groups():
                handles = list(group.handles())
                assert handles
                assert [group.first(), group.last()] == [handles[0], handles[-1]]

    def change(self, verb: str, row: Row) -> None:
        if verb == "insert":
            going, new = displaced(self.held, row, self.tree), row
        else:
            place = found(self.held, row, self.tree)
            going, new = ([] if place is None else [place]), None
        expected = (
            Operation(self.tree, self.on, self.held, going, new).events() if going or new is not None else []
        )
        self.held = [kept for place, kept in enumerate(self.held) if place not in going]
        if new is not None:
            self.held.append(new)
        self.events.clear()
        self.table.input.send(INSERT if verb == "insert" else DELETE, row)
        assert self.events == expected


def insert(*numbers: int | None) -> tuple[str, Row]:
    return "insert", ROW_TYPE.row(*numbers)


SIBLINGS: Tree = {
    "p": Hashed("a"),
    "q": Hashed("b"),
    "r": Ordered("a", x=Ordered("b", y=Fifo())),
    "s": Ordered("b", x=Ordered("a", y=Fifo()), z=Fifo()),
}
"""Two keys that an insert can take at once, and two branches in which the displaced rows have groups."""
JUMPING: Tree = {"p": Fifo(limit=3, jumping=True), "q": Ordered("a", x=Fifo()), "r": Ordered("b", x=Fifo())}


@settings(max_examples=300)
@given(aggregated(), changes)
@example((SIBLINGS, set(paths_of(SIBLINGS))), [insert(0, 1), insert(1, 0), insert(0, 0)])
@example((JUMPING, set(paths_of(JUMPING))), [insert(0, 1), insert(1, 1), insert(2, 0), insert(3, 3)])
def test_aggregators_are_called_in_the_order_of_the_model(
    place: tuple[Tree, set[Path]], made: Changes
) -> None:
    watched = Watched(*place)
    for verb, row in made:
        watched.change(verb, row)
