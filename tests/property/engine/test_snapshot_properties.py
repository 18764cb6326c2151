"""A restored table goes on exactly like the one it was taken from."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from property.engine.index_trees import ROW_TYPE, changes, trees
from rowtide.engine import (
    DELETE,
    INSERT,
    AdditiveAggregator,
    Avg,
    Collapse,
    Count,
    First,
    Hashed,
    IndexType,
    Last,
    Row,
    Rowop,
    SimpleAggregator,
    Sum,
    Table,
    TableType,
    Unit,
)
from rowtide.engine.typed_state import dump_state, load_state

Changes = list[tuple[str, Row]]


def with_aggregators(indexes: dict[str, IndexType], names: list[str]) -> dict[str, IndexType]:
    """Put an aggregator on every index of a tree, additive and not by turns."""
    made: dict[str, IndexType] = {}
    for name, index in indexes.items():
        kind = (SimpleAggregator, AdditiveAggregator)[len(names) % 2]
        names.append(f"agg{len(names)}")
        aggregator = kind(
            names[-1], ROW_TYPE, first=First("a"), last=Last("c"), rows=Count(), total=Sum("b"), mean=Avg("b")
        )
        inner = with_aggregators(index.nested, names)
        changed = index.aggregate(aggregator)
        for under, nested in inner.items():
            changed = changed.nest(under, nested)
        made[name] = changed
    return made


class Model:
    """A table whose every index is aggregated, and all that it tells."""

    def __init__(self, tree: dict[str, IndexType]) -> None:
        self.unit = Unit("u")
        names: list[str] = []
        self.table = Table(self.unit, "t", TableType(ROW_TYPE, **with_aggregators(tree, names)))
        self.answer: list[str] = []
        for label in (self.table.pre, self.table.out, *(self.table.results(name) for name in names)):
            label.then(lambda rowop: self.answer.append(str(rowop)), name="log")

    def change(self, made: Changes) -> None:
        for verb, row in made:
            self.table.input.send(INSERT if verb == "insert" else DELETE, row)


@given(trees(), changes, changes)
def test_a_restored_table_tells_what_the_original_tells(
    tree: dict[str, IndexType], before: Changes, after: Changes
) -> None:
    original, restored = Model(tree), Model(tree)
    original.change(before)
    saved = dump_state(original.unit.snapshot())
    original.answer.clear()
    original.change(after)
    restored.unit.restore(load_state(saved))
    assert restored.answer == []
    restored.change(after)
    assert restored.answer == original.answer
    for node in original.table.type.walk():
        assert list(restored.table.index(*node.path)) == list(original.table.index(*node.path))
    assert restored.unit.snapshot() == original.unit.snapshot()


def noted(log: list[str], rowop: Rowop) -> None:
    log.append(str(rowop))


@given(changes, st.integers(0, 10))
def test_a_restored_collapse_flushes_what_the_original_flushes(made: Changes, cut: int) -> None:
    answer: list[list[str]] = []
    saved = None
    for part in (made, made[cut:]):
        unit = Unit("u")
        table = Table(unit, "t", TableType(ROW_TYPE, key=Hashed("a")))
        collapse = Collapse("c", table.out, "a")
        log: list[str] = []
        answer.append(log)
        collapse.out.then(partial(noted, log), name="log")
        if saved is not None:
            unit.restore(load_state(saved))
        for number, (verb, row) in enumerate(part):
            if saved is None and number == cut:
                saved = dump_state(unit.snapshot())
            table.input.send(INSERT if verb == "insert" else DELETE, row)
        if saved is None:
            saved = dump_state(unit.snapshot())
        collapse.flush()
    assert answer[0] == answer[1]
