"""Aggregators against recomputation from scratch, at any place in any index tree."""

from __future__ import annotations

import math
from collections import Counter
from itertools import count

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from property.engine.index_trees import ROW_TYPE, changes, trees
from rowtide.engine import (
    AFTER_DELETE,
    AFTER_INSERT,
    BEFORE_MOD,
    COLLAPSE,
    DELETE,
    INSERT,
    NOP,
    AdditiveAggregator,
    Aggregator,
    AggregatorCall,
    AggregatorContext,
    Avg,
    Count,
    Fifo,
    First,
    Function,
    IndexType,
    Last,
    Max,
    Min,
    ModelError,
    Nth,
    Opcode,
    Row,
    Rowop,
    RowType,
    SimpleAggregator,
    Sum,
    Table,
    TableError,
    TableType,
    Unit,
)

Changes = list[tuple[str, Row]]
Path = tuple[str, ...]


def attach(tree: dict[str, IndexType], path: Path, aggregator: Aggregator) -> dict[str, IndexType]:
    """Return the tree with the aggregator on the index at ``path``."""
    name, *rest = path
    index = tree[name]
    if rest:
        made = index
        for under, nested in attach(index.nested, tuple(rest), aggregator).items():
            made = made.nest(under, nested)
    else:
        made = index.aggregate(aggregator)
    return {**tree, name: made}


@st.composite
def places(draw: st.DrawFn) -> tuple[dict[str, IndexType], Path]:
    tree = draw(trees())
    nodes = list(TableType(ROW_TYPE, **tree).walk())
    return tree, draw(st.sampled_from(nodes)).path


def groups_of(table: Table, path: Path) -> list[list[Row]]:
    """Return the rows of each group that an aggregator at ``path`` has, in the order of its index."""
    if len(path) == 1:
        rows = list(table.index(*path))
        return [rows] if rows else []
    return [list(group.rows(path[-1])) for group in table.index(*path[:-1]).groups()]


class Folded:
    """What is left of a stream of results: each INSERT adds a row, each DELETE takes one away."""

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()

    def take(self, rowop: Rowop) -> None:
        self.rows[rowop.row] += 1 if rowop.opcode is INSERT else -1
        assert self.rows[rowop.row] >= 0, "only what was inserted is deleted"
        self.rows += Counter()


def known(rows: list[Row]) -> list[int]:
    return [row.b for row in rows if row.b is not None]


def expected_result(rows: list[Row]) -> tuple[object, ...]:
    values = known(rows)
    return (
        rows[0].a,
        rows[-1].c,
        len(rows),
        len(values),
        sum(values) if values else None,
        sum(values) / len(values) if values else None,
    )


@given(places(), changes)
def test_the_results_fold_to_a_recomputation_whether_afresh_or_additive(
    place: tuple[dict[str, IndexType], Path], made: Changes
) -> None:
    tree, path = place
    fields = {
        "first": First("a"),
        "last": Last("c"),
        "rows": Count(),
        "known": Count("b"),
        "total": Sum("b"),
        "average": Avg("b"),
    }
    for kind in (SimpleAggregator, AdditiveAggregator):
        aggregator = kind("agg", ROW_TYPE, **fields)
        table = Table(Unit("u"), "t", TableType(ROW_TYPE, **attach(tree, path, aggregator)))
        folded = Folded()
        table.results("agg").then(folded.take, name="fold")
        for verb, row in made:
            table.input.send(INSERT if verb == "insert" else DELETE, row)
            assert folded.rows == Counter(expected_result(rows) for rows in groups_of(table, path))


@given(places(), changes)
def test_min_max_and_nth_are_those_of_the_group(
    place: tuple[dict[str, IndexType], Path], made: Changes
) -> None:
    tree, path = place
    aggregator = SimpleAggregator("agg", ROW_TYPE, least=Min("b"), greatest=Max("b"), second=Nth("a", 1))
    table = Table(Unit("u"), "t", TableType(ROW_TYPE, **attach(tree, path, aggregator)))
    folded = Folded()
    table.results("agg").then(folded.take, name="fold")
    for verb, row in made:
        table.input.send(INSERT if verb == "insert" else DELETE, row)
    assert folded.rows == Counter(
        (min(known(rows), default=None), max(known(rows), default=None), rows[1].a if len(rows) > 1 else None)
        for rows in groups_of(table, path)
    )


NUMBERS = RowType(whole="int64", real="float64", short="int32")
whole = st.one_of(st.none(), st.sampled_from([0, 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**62, 2**63 - 1]))
real = st.one_of(st.none(), st.integers(-3, 3).map(float), st.just(math.nan))
kinds = st.sampled_from([None, "int32", "int64", "float64", "string"])
fields = st.sampled_from(NUMBERS.names)
functions = st.one_of(
    *(st.builds(function, fields, kinds) for function in (First, Last, Sum, Avg)),
    st.builds(Count, st.one_of(st.none(), fields), kinds),
    st.builds(Sum, st.just(lambda row: row.short), st.sampled_from(["int32", "int64", "float64"])),
)


def sent_by(
    kind: type[SimpleAggregator | AdditiveAggregator], function: Function, rows: list[Row]
) -> list[str]:
    """Return what one aggregator sends and the error that it ends with, as text that shows types too."""
    try:
        aggregator = kind("agg", NUMBERS, f=function)
    except ModelError as error:
        return [str(error)]
    table = Table(Unit("u"), "t", TableType(NUMBERS, last=Fifo(limit=2).aggregate(aggregator)))
    sent = [aggregator.result_type.render(None)]
    table.results("agg").then(lambda rowop: sent.append(repr((rowop.opcode, *rowop.row))), name="log")
    try:
        for row in rows:
            table.insert(row)
    except TableError as error:
        sent.append(str(error))
    return sent


@settings(max_examples=300)
@given(functions, st.lists(st.builds(NUMBERS.row, whole, real, st.integers(0, 2**31 - 1)), max_size=6))
def test_additive_results_have_the_declared_types_and_errors_of_simple_ones(
    function: Function, rows: list[Row]
) -> None:
    # A running sum keeps a NaN that has left the window, so only rows that stay may have one.
    assume(not any(math.isnan(row.real or 0.0) for row in rows[:-2]))
    assert sent_by(AdditiveAggregator, function, rows) == sent_by(SimpleAggregator, function, rows)


class Watched:
    """An aggregator that keeps the size of its group as state, and checks the rules of its calls."""

    def __init__(self, *, is_top: bool) -> None:
        self.is_top = is_top
        self.calls: list[tuple[AggregatorCall, Opcode, int]] = []

    def handle(self, context: AggregatorContext) -> None:
        state = context.state
        self.calls.append((context.call, context.opcode, state["number"]))
        if context.call is BEFORE_MOD:
            assert (context.opcode, context.changed) == (DELETE, None)
            assert len(context) == len(state["rows"]), "the group still shows its old rows"
            assert self.is_top or len(context), "a group that does not exist is not called"
        elif context.call is COLLAPSE:
            assert (context.opcode, context.changed, len(context)) == (NOP, None, 0)
            assert not self.is_top
            assert not state["rows"]
            state["collapsed"] = True
        else:
            assert not state.get("collapsed"), "a state is not used after its group is gone"
            if context.call is AFTER_INSERT:
                state["rows"].append(context.changed)
            else:
                assert context.call is AFTER_DELETE
                state["rows"].remove(context.changed)
            if context.opcode is INSERT:
                assert Counter(context.rows()) == Counter(state["rows"]), (
                    "all changes of the group are reported"
                )
            else:
                assert context.opcode is NOP


@given(places(), changes)
def test_aggregators_are_called_by_the_rules(place: tuple[dict[str, IndexType], Path], made: Changes) -> None:
    tree, path = place
    numbers = count()
    watched = Watched(is_top=len(path) == 1)
    aggregator = Aggregator("agg", ROW_TYPE, watched.handle, lambda: {"rows": [], "number": next(numbers)})
    table = Table(Unit("u"), "t", TableType(ROW_TYPE, **attach(tree, path, aggregator)))
    for verb, row in made:
        watched.calls.clear()
        table.input.send(INSERT if verb == "insert" else DELETE, row)
        groups = {group for _, _, group in watched.calls}
        for group in groups:
            opcodes = [
                opcode
                for call, opcode, of in watched.calls
                if of == group and call in (AFTER_DELETE, AFTER_INSERT)
            ]
            assert opcodes == [NOP] * (len(opcodes) - 1) + [INSERT], "only the last change of a group sends"
            befores = [call for call, _, of in watched.calls if of == group and call is BEFORE_MOD]
            assert len(befores) <= 1
