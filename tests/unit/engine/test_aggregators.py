from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rowtide.engine import (
    AFTER_DELETE,
    AFTER_INSERT,
    BEFORE_MOD,
    COLLAPSE,
    INSERT,
    NOP,
    AdditiveAggregator,
    Aggregator,
    AggregatorContext,
    Avg,
    Computed,
    Count,
    Descending,
    ExecutionError,
    Fifo,
    First,
    Fold,
    Hashed,
    IndexType,
    Last,
    Max,
    ModelError,
    Nth,
    Opcode,
    Ordered,
    Row,
    Rowop,
    RowType,
    SimpleAggregator,
    Sorted,
    Sum,
    Table,
    TableError,
    TableType,
    Unit,
)

TRADE = RowType(id="int32", symbol="string", price="float64")
TOTAL = RowType(total="float64")


def logged(name: str, log: list[str]) -> Aggregator:
    def handle(context: AggregatorContext) -> None:
        log.append(f"{name} {context.call.name} {context.opcode.name} {len(context)}")

    return Aggregator(name, TOTAL, handle)


def test_the_group_at_the_top_always_exists() -> None:
    log: list[str] = []
    table = Table(Unit("u"), "t", TableType(TRADE, all=Hashed("id").aggregate(logged("top", log))))
    table.insert(TRADE.row(1))
    table.delete(TRADE.row(1))
    assert log == [
        "top BEFORE_MOD DELETE 0",
        "top AFTER_INSERT INSERT 1",
        "top BEFORE_MOD DELETE 1",
        "top AFTER_DELETE INSERT 0",
    ]


def test_aggregators_beside_each_other_come_before_those_inside_and_collapse_from_inside() -> None:
    log: list[str] = []
    table = Table(
        Unit("u"),
        "t",
        TableType(
            TRADE,
            group=Hashed(
                "symbol",
                inner=Hashed("id", deep=Fifo().aggregate(logged("deep", log))).aggregate(logged("one", log)),
                other=Fifo().aggregate(logged("two", log)),
            ),
        ),
    )
    table.insert(TRADE.row(1, "A"))
    log.clear()
    table.clear()
    assert log == [
        "one BEFORE_MOD DELETE 1",
        "two BEFORE_MOD DELETE 1",
        "deep BEFORE_MOD DELETE 1",
        "one AFTER_DELETE INSERT 0",
        "two AFTER_DELETE INSERT 0",
        "deep AFTER_DELETE INSERT 0",
        "deep COLLAPSE NOP 0",
        "one COLLAPSE NOP 0",
        "two COLLAPSE NOP 0",
    ]


@pytest.mark.parametrize(
    "outer",
    [
        lambda nested: Hashed("symbol", arrived=nested),
        lambda nested: Ordered("symbol", arrived=nested),
        lambda nested: Ordered(Descending("symbol"), arrived=nested),
        lambda nested: Sorted("by symbol", key=lambda row: row.symbol, arrived=nested),
    ],
)
def test_the_last_row_is_found_while_groups_are_empty_that_have_not_collapsed(
    outer: Callable[[IndexType], IndexType],
) -> None:
    counted = AdditiveAggregator("counted", TRADE, rows=Count())
    last = AdditiveAggregator("last", TRADE, id=Last("id"))
    index = outer(Fifo().aggregate(counted)).aggregate(last)
    table = Table(Unit("u"), "t", TableType(TRADE, by_symbol=index, by_id=Hashed("id")))
    results: list[object] = []

    @table.results("last").then
    def note(rowop: Rowop) -> None:
        # Readers too meet the emptied groups: they collapse only after this.
        ids = [last.row.id for group in table.index("by_symbol").groups() if (last := group.last())]
        results.append((rowop.opcode.name, rowop.row.id, ids))

    for number, symbol in [(1, "A"), (2, "B"), (3, "C")]:
        table.insert(TRADE.row(number, symbol))
    order = [row.id for row in table]
    results.clear()
    for number in reversed(order):
        found = table.index("by_id").find_by(id=number)
        assert found is not None
        table.remove(found)
    assert results == [
        ("DELETE", order[2], order),
        ("INSERT", order[1], order[:2]),
        ("DELETE", order[1], order[:2]),
        ("INSERT", order[0], order[:1]),
        ("DELETE", order[0], order[:1]),
    ]


def test_displaced_rows_reach_one_aggregator_and_one_branch_of_the_index_tree_after_another() -> None:
    log: list[str] = []

    def traced(name: str) -> Aggregator:
        def handle(context: AggregatorContext) -> None:
            changed = "" if context.changed is None else f" {context.changed.id}"
            log.append(f"{name} {context.call.name} {context.opcode.name}{changed}")

        return Aggregator(name, TOTAL, handle)

    table = Table(
        Unit("u"),
        "t",
        TableType(
            TRADE,
            by_id=Hashed("id").aggregate(traced("all")),
            by_price=Ordered("price", arrived=Fifo().aggregate(traced("priced"))),
            by_symbol=Hashed("symbol", last=Fifo(limit=1).aggregate(traced("symbol"))).aggregate(
                traced("every")
            ),
        ),
    )
    table.insert(TRADE.row(1, "A", 10.0))
    table.insert(TRADE.row(2, "B", 20.0))
    log.clear()
    table.insert(TRADE.row(1, "B", 30.0))  # displaces both: one by its id, one by its symbol
    assert log == [
        "all BEFORE_MOD DELETE",
        "every BEFORE_MOD DELETE",
        "priced BEFORE_MOD DELETE",
        "priced BEFORE_MOD DELETE",
        "symbol BEFORE_MOD DELETE",
        "symbol BEFORE_MOD DELETE",
        "all AFTER_DELETE NOP 1",
        "all AFTER_DELETE NOP 2",
        "every AFTER_DELETE NOP 1",
        "every AFTER_DELETE NOP 2",
        "priced AFTER_DELETE INSERT 1",
        "priced AFTER_DELETE INSERT 2",
        "symbol AFTER_DELETE INSERT 1",
        "symbol AFTER_DELETE NOP 2",
        "all AFTER_INSERT INSERT 1",
        "every AFTER_INSERT INSERT 1",
        "priced AFTER_INSERT INSERT 1",
        "symbol AFTER_INSERT INSERT 1",
        "priced COLLAPSE NOP",
        "priced COLLAPSE NOP",
        "symbol COLLAPSE NOP",
    ]


def test_a_group_collapses_after_its_last_results_have_been_sent() -> None:
    log: list[str] = []

    def handle(context: AggregatorContext) -> None:
        log.append(f"called {context.call.name}")
        context.send(context.result(len(context)))

    index = Fifo().aggregate(Aggregator("agg", TOTAL, handle))
    table = Table(Unit("u"), "t", TableType(TRADE, by_id=Hashed("id"), group=Hashed("symbol", all=index)))
    table.results("agg").then(lambda rowop: log.append(str(rowop)), name="log")
    table.insert(TRADE.row(1, "A"))
    log.clear()
    table.delete(TRADE.row(1))
    assert log == [
        "called BEFORE_MOD",
        't.agg OP_DELETE total="1"',
        "called AFTER_DELETE",
        't.agg OP_INSERT total="0"',
        "called COLLAPSE",
        't.agg OP_NOP total="0"',
    ]


def test_a_group_emptied_and_refilled_at_once_keeps_its_state() -> None:
    states: list[object] = []

    def handle(context: AggregatorContext) -> None:
        states.append(context.state)
        assert context.call is not COLLAPSE

    last = Fifo(limit=1).aggregate(Aggregator("agg", TOTAL, handle, object))
    table = Table(Unit("u"), "t", TableType(TRADE, group=Hashed("symbol", last=last)))
    table.insert(TRADE.row(1, "A"))
    table.insert(TRADE.row(2, "A"))
    assert len(set(states)) == 1


def test_a_state_may_be_replaced_and_is_made_anew_for_a_new_group() -> None:
    seen: list[int] = []

    def handle(context: AggregatorContext) -> None:
        seen.append(context.state)
        context.state += 1

    index = Fifo().aggregate(Aggregator("agg", TOTAL, handle, lambda: 0))
    table = Table(Unit("u"), "t", TableType(TRADE, by_id=Hashed("id"), group=Hashed("symbol", all=index)))
    table.insert(TRADE.row(1, "A"))
    table.delete(TRADE.row(1))
    table.insert(TRADE.row(1, "A"))
    assert seen == [0, 1, 2, 3, 0]


def test_results_leave_after_all_aggregators_have_been_called() -> None:
    log: list[str] = []

    def handle(context: AggregatorContext) -> None:
        log.append(f"called {context.call.name}")
        context.send(context.result(len(context)))

    by_symbol = Hashed("symbol", all=Fifo().aggregate(Aggregator("a", TOTAL, handle)))
    table = Table(
        Unit("u"),
        "t",
        TableType(TRADE, by_symbol=by_symbol, arrived=Fifo().aggregate(Aggregator("b", TOTAL, handle))),
    )
    for name in "ab":
        table.results(name).then(lambda rowop: log.append(str(rowop)), name="log")
    table.out.then(lambda rowop: log.append("out"), name="log")
    table.insert(TRADE.row(1, "A"))
    log.clear()
    table.insert(TRADE.row(2, "A"))
    assert log == [
        "called BEFORE_MOD",
        "called BEFORE_MOD",
        't.b OP_DELETE total="1"',
        't.a OP_DELETE total="1"',
        "out",
        "called AFTER_INSERT",
        "called AFTER_INSERT",
        't.b OP_INSERT total="2"',
        't.a OP_INSERT total="2"',
    ]


def test_a_context_is_of_no_use_after_the_call() -> None:
    kept: list[AggregatorContext] = []
    aggregator = Aggregator("agg", TOTAL, kept.append)
    table = Table(Unit("u"), "t", TableType(TRADE, all=Fifo().aggregate(aggregator)))
    table.insert(TRADE.row(1))
    for use in (lambda: len(kept[0]), kept[0].first, kept[0].last, lambda: kept[0].send(TOTAL.row(1))):
        with pytest.raises(ModelError, match='aggregator "agg": the context is valid only during a call'):
            use()


def test_an_aggregator_may_look_at_another_index_of_the_group_but_not_elsewhere() -> None:
    seen: list[tuple[int, ...]] = []

    def handle(context: AggregatorContext) -> None:
        if context.opcode is Opcode.INSERT:
            seen.append(
                (
                    *(row.id for row in context.rows("by_price")),
                    *(row.id for row in (context.first("by_price"), context.last()) if row),
                )
            )
            context.rows("nowhere")

    group = Hashed(
        "symbol", arrived=Fifo().aggregate(Aggregator("agg", TOTAL, handle)), by_price=Ordered("price")
    )
    table = Table(Unit("u"), "t", TableType(TRADE, group=group))
    with pytest.raises(
        TableError, match=r'aggregator "agg" at AO_AFTER_INSERT: .* the group has no index "nowhere"'
    ):
        table.insert(TRADE.row(2, "A", 5.0))
    assert seen == [(2, 2, 2)]


def test_an_aggregator_that_fails_before_the_change_leaves_the_table_as_it_was() -> None:
    def fail(context: AggregatorContext) -> None:
        if context.call is BEFORE_MOD and len(context):
            raise ValueError("no")

    table = Table(
        Unit("u"), "t", TableType(TRADE, all=Hashed("id").aggregate(Aggregator("agg", TOTAL, fail)))
    )
    table.insert(TRADE.row(1))
    with pytest.raises(TableError, match='table "t": aggregator "agg" at AO_BEFORE_MOD: no'):
        table.insert(TRADE.row(2))
    assert len(table) == 1
    assert not table.is_broken


def test_an_aggregator_that_fails_after_the_change_breaks_the_table() -> None:
    def fail(context: AggregatorContext) -> None:
        if context.call is AFTER_INSERT:
            raise ValueError("no")

    table = Table(
        Unit("u"), "t", TableType(TRADE, all=Hashed("id").aggregate(Aggregator("agg", TOTAL, fail)))
    )
    with pytest.raises(ExecutionError, match=r'label "t.in".*aggregator "agg" at AO_AFTER_INSERT: no'):
        table.input.insert(TRADE.row(1))
    assert table.is_broken


def test_an_aggregator_cannot_change_its_table() -> None:
    def meddle(context: AggregatorContext) -> None:
        tables[0].insert(TRADE.row(5))

    tables: list[Table] = []
    tables.append(
        Table(Unit("u"), "t", TableType(TRADE, all=Hashed("id").aggregate(Aggregator("agg", TOTAL, meddle))))
    )
    with pytest.raises(TableError, match="cannot be changed"):
        tables[0].insert(TRADE.row(1))


def test_aggregators_have_names_of_their_own() -> None:
    aggregator = Aggregator("agg", TOTAL, lambda context: None)
    with pytest.raises(ModelError, match='aggregator "agg" is declared twice'):
        TableType(TRADE, a=Hashed("id").aggregate(aggregator), b=Fifo().aggregate(aggregator))
    with pytest.raises(ModelError, match='aggregator name "out" is reserved'):
        TableType(TRADE, a=Hashed("id").aggregate(Aggregator("out", TOTAL, lambda context: None)))
    table = Table(Unit("u"), "t", TableType(TRADE, a=Hashed("id").aggregate(aggregator)))
    with pytest.raises(ModelError, match='table "t" has no aggregator "gaa"'):
        table.results("gaa")


def test_the_second_aggregator_of_an_index_replaces_the_first() -> None:
    log: list[str] = []
    index = Hashed("id").aggregate(logged("first", log)).aggregate(logged("second", log))
    Table(Unit("u"), "t", TableType(TRADE, a=index)).insert(TRADE.row(1))
    assert {line.split()[0] for line in log} == {"second"}


def test_result_types_follow_from_the_fields() -> None:
    aggregator = SimpleAggregator(
        "agg",
        TRADE,
        symbol=First("symbol"),
        ids=Sum("id"),
        mean_id=Avg("id"),
        prices=Sum("price"),
        rows=Count(),
        priced=Count("price", "int32"),
        top=Max(lambda row: row.price * 2, "float64"),
        spread=Computed("float64", lambda rows: rows[-1].price - rows[0].price),
    )
    assert aggregator.result_type.render(None) == (
        "row { string symbol, int64 ids, float64 mean_id, float64 prices, int64 rows, int32 priced, "
        "float64 top, float64 spread, }"
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Sum("symbol"), 'aggregator "agg", field "f": Sum of "symbol": it is not a number'),
        (Count(kind="string"), 'aggregator "agg", field "f": Count cannot have the type string'),
        (Count("symbl"), 'aggregator "agg", field "f": field "symbl" does not exist'),
        (Last("symbl"), 'aggregator "agg", field "f": field "symbl" does not exist'),
        (Max(lambda row: 1), 'aggregator "agg", field "f": Max of a function needs the type'),
        ("sum", """aggregator "agg", field "f": 'sum' is not an aggregate function"""),
        (Count, 'aggregator "agg", field "f": .*Count.* is not an aggregate function'),
    ],
)
def test_a_function_that_does_not_fit_is_named_with_its_field(function: Sum, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        SimpleAggregator("agg", TRADE, f=function)


def test_what_is_not_additive_is_refused() -> None:
    with pytest.raises(ModelError, match='aggregator "agg", field "top": Max is not additive'):
        AdditiveAggregator("agg", TRADE, top=Max("price"))
    with pytest.raises(ModelError, match="counts from 0"):
        Nth("price", -1)


def test_an_aggregator_in_the_style_of_coral8_may_tell_of_an_emptied_group() -> None:
    answer: list[str] = []

    def handle(context: AggregatorContext) -> None:
        if context.opcode is not NOP and context.call in (AFTER_DELETE, AFTER_INSERT):
            context.send(context.result(len(context) or None))

    index = Fifo().aggregate(Aggregator("agg", TOTAL, handle))
    table = Table(Unit("u"), "t", TableType(TRADE, by_id=Hashed("id"), group=Hashed("symbol", all=index)))
    table.results("agg").then(lambda rowop: answer.append(str(rowop)), name="log")
    table.insert(TRADE.row(1, "A"))
    table.delete(TRADE.row(1))
    assert answer == ['t.agg OP_INSERT total="1"', "t.agg OP_INSERT"]


def test_a_function_of_ones_own_may_go_row_by_row() -> None:
    both = Fold(
        lambda row: (row.id, row.price),
        "float64",
        start=(0, 0.0),
        step=lambda held, pair: (held[0] + pair[0], held[1] + pair[0] * pair[1]),
        finish=lambda held: held[1] / held[0] if held[0] else None,
    )
    aggregator = SimpleAggregator("agg", TRADE, weighted=both, rows=Count())
    table = Table(Unit("u"), "t", TableType(TRADE, all=Fifo().aggregate(aggregator)))
    answer: list[str] = []
    table.results("agg").then(lambda rowop: answer.append(str(rowop)), name="log")
    table.insert(TRADE.row(1, "A", 10.0))
    table.insert(TRADE.row(3, "A", 20.0))
    assert answer[-1] == 't.agg OP_INSERT weighted="17.5" rows="2"'


def test_an_aggregator_may_look_at_any_index_below_its_group() -> None:
    seen: list[list[int]] = []

    def handle(context: AggregatorContext) -> None:
        if len(context) == 4:
            seen.extend(
                [row.id for row in context.rows(*path)] for path in ((), ("by_price",), ("by_price", "by_id"))
            )
            context.rows("by_price", "elsewhere")

    by_price = Ordered("price", newest=Fifo(reverse=True), by_id=Ordered("id"))
    first = Fifo().aggregate(Aggregator("agg", TOTAL, handle))
    table = Table(Unit("u"), "t", TableType(TRADE, group=Hashed("symbol", arrived=first, by_price=by_price)))
    for number, price in [(4, 2.0), (3, 1.0), (2, 1.0)]:
        table.insert(TRADE.row(number, "A", price))
    with pytest.raises(TableError, match=r'has no index "by_price\.elsewhere"'):
        table.insert(TRADE.row(9, "A", 1.0))
    assert seen == [[4, 3, 2, 9], [9, 2, 3, 4], [2, 3, 9, 4]]


def test_aggregators_are_equal_by_name_result_and_functions() -> None:
    row, renamed = RowType(total="int64"), RowType(sum="int64")

    def one(context: AggregatorContext) -> None: ...

    def other(context: AggregatorContext) -> None: ...

    first = Aggregator("a", row, one)
    assert first.equals(Aggregator("a", RowType(total="int64"), one))
    assert not first.equals(Aggregator("b", row, one))
    assert not first.equals(Aggregator("a", row, other))
    assert not first.equals(Aggregator("a", row, one, dict))
    assert first.matches(Aggregator("b", renamed, one))
    assert not first.matches(Aggregator("b", RowType(sum="float64"), one))
    assert Fifo().aggregate(first).equals(Fifo().aggregate(Aggregator("a", row, one)))
    assert not Fifo().aggregate(first).equals(Fifo())
    assert not Fifo().aggregate(first).equals(Fifo().aggregate(Aggregator("a", row, other)))


def test_what_an_additive_sum_of_floats_has_lost_ends_with_the_last_value() -> None:
    row_type = RowType(key="string", value="float64")
    additive = AdditiveAggregator("agg", row_type, rows=Count(), total=Sum("value"))
    table = Table(
        Unit("u"), "t", TableType(row_type, by_key=Hashed("key", last=Fifo(limit=2).aggregate(additive)))
    )
    totals: list[float | None] = []

    @table.results("agg").then
    def note(rowop: Rowop) -> None:
        if rowop.opcode is INSERT:
            totals.append(rowop.row.total)

    for value in (1e20, 1.0, 2.0, None, None, 5.0):
        table.insert(row_type.row("a", value))
    # 1.0 is lost in 1e20, so 3.0 comes out as 2.0, and 2.0 as 1.0; of the rows of NULL nothing is left.
    assert totals == [1e20, 1e20, 2.0, 1.0, None, 5.0]


@pytest.mark.parametrize("kind", [SimpleAggregator, AdditiveAggregator])
def test_an_average_may_count_null_as_zero(kind: type[SimpleAggregator | AdditiveAggregator]) -> None:
    row = RowType(key="string", value="int64")
    both = kind("both", row, sql=Avg("value"), perl=Avg("value", null_is_zero=True))
    table = Table(Unit("u"), "t", TableType(row, by_key=Hashed("key", all=Fifo().aggregate(both))))
    sent: list[tuple[object, ...]] = []
    table.results("both").then(lambda rowop: sent.append((rowop.opcode, *rowop.row)), name="sent")
    for value in (None, 6, None):
        table.insert(row.row("k", value))
    assert [each[1:] for each in sent if each[0] is INSERT] == [(None, 0.0), (6.0, 3.0), (6.0, 2.0)]


NOT_IT: Any = 3
"""Neither a name nor a function."""


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (lambda: Sum(NOT_IT), "Sum takes the name of a field or a function of the row, not 3"),
        (lambda: Computed("int64", NOT_IT), "Computed: function is not a function: 3"),
        (lambda: Fold("id", "int64", 0, NOT_IT), "Fold: step is not a function: 3"),
        (lambda: Fold("id", "int64", 0, max, NOT_IT), "Fold: finish is not a function: 3"),
    ],
)
def test_a_function_without_what_it_computes_with_is_refused(
    define: Callable[[], object], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        define()


def test_a_simple_aggregator_says_what_it_will_compute() -> None:
    def spread(rows: Sequence[Row]) -> float:
        return float(rows[-1].price - rows[0].price)

    aggregator = SimpleAggregator(
        "agg",
        TRADE,
        symbol=Last("symbol"),
        rows=Count(),
        second=Nth("price", 1),
        mean=Avg("price", null_is_zero=True),
        spread=Computed("float64", spread),
        most=Fold("id", "int32", 0, max),
        kinds=Fold("id", "int64", start=(), step=max, finish=len),
    )
    assert aggregator.describe().splitlines() == [
        'aggregator "agg": before and after the changes of a group, unless it is empty',
        "  from all its rows in order compute",
        '    string symbol = Last("symbol")',
        "    int64 rows = Count()",
        '    float64 second = Nth("price", 1)',
        '    float64 mean = Avg("price", null_is_zero=True)',
        "    float64 spread = Computed(spread)",
        '    int32 most = Fold("id", start=0, step=max)',
        '    int64 kinds = Fold("id", start=(), step=max, finish=len)',
        "  send that: OP_DELETE before the changes, OP_INSERT after the last one",
    ]
