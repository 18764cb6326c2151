"""Each way of using the engine wrongly: what the error says, and that the table is as it was and works on.

Or, where an operation had begun, that the table is marked as broken: readable, and never changed again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rowtide.engine import (
    DELETE,
    INSERT,
    Aggregator,
    AggregatorContext,
    BrokenTableError,
    Collapse,
    ExecutionError,
    FieldValueError,
    Fifo,
    FrameMark,
    Hashed,
    ModelError,
    RecursionFault,
    Rowop,
    RowType,
    Sorted,
    Table,
    TableError,
    TableType,
    Tray,
    Unit,
    copying,
)
from rowtide.errors import RowtideError

TRADE = RowType(id="int32", symbol="string", price="float64")
SUMS = RowType(symbol="string", rows="int64")
ROWS = [(1, "A", 1.0), (2, "B", 2.0)]


class World:
    """A table of two rows with everything that can be misused around it."""

    def __init__(self) -> None:
        self.fails_at = ""
        self.unit = Unit("u")
        counted = Aggregator("counted", SUMS, self.count)
        by_ratio = Sorted("ratio", key=lambda row: 1 / (row.price - 5))
        by_symbol = Hashed("symbol", arrived=Fifo().aggregate(counted))
        indexes = {"by_id": Hashed("id"), "by_symbol": by_symbol, "by_ratio": by_ratio}
        self.table = Table(self.unit, "trades", TableType(TRADE, **indexes))
        self.other = Table(self.unit, "others", TableType(TRADE, by_id=Hashed("id")))
        for row in ROWS:
            self.table.insert(TRADE.row(*row))
        self.other.insert(TRADE.row(1))
        self.loop = self.unit.label("loop", TRADE, self.again)
        self.elsewhere = Unit("elsewhere").label("there", TRADE)

    def again(self, rowop: Rowop) -> None:
        self.loop.forward(rowop)

    def loop_elsewhere(self) -> None:
        mark, there = FrameMark("turn"), self.elsewhere.rowop(INSERT, TRADE.row(1))
        raised: list[ModelError] = []

        def turn(rowop: Rowop) -> None:
            self.unit.set_mark(mark)
            with pytest.raises(ModelError) as caught:
                self.elsewhere.unit.loop_at(mark, there)
            raised.append(caught.value)

        inner = self.unit.label("turn", TRADE, turn)
        self.unit.label("outer", TRADE, inner.forward).insert(TRADE.row(1))
        raise raised[0]

    def schedule_two(self) -> None:
        own = self.table.input.rowop(INSERT, TRADE.row(7))
        try:
            self.unit.schedule(own, self.elsewhere.rowop(INSERT, TRADE.row(1)))
        finally:
            assert self.unit.is_empty

    def count(self, context: AggregatorContext) -> None:
        if context.call.value == self.fails_at:
            raise ValueError("I cannot count")

    def iterate_and_change(self) -> None:
        for row in self.table:
            self.table.insert(TRADE.row(9, row.symbol, 9.0))

    def change_from_inside(self) -> None:
        def meddle(rowop: Rowop) -> None:
            self.table.insert(TRADE.row(8))

        self.table.pre.then(meddle, name="meddler")
        try:
            self.table.delete(TRADE.row(1))
        finally:
            self.table.pre.unchain_all()

    def fail_in_an_aggregator(self) -> None:
        self.fails_at = "AO_BEFORE_MOD"
        try:
            self.table.insert(TRADE.row(3, "A", 3.0))
        finally:
            self.fails_at = ""


Misuse = Callable[[World], object]
MISUSES: dict[str, tuple[Misuse, type[RowtideError], str]] = {
    "a value of the wrong type": (
        lambda world: world.table.insert(TRADE.row("one")),
        FieldValueError,
        "field \"id\" of type int32 cannot hold 'one'",
    ),
    "a value out of range": (
        lambda world: world.table.insert((2**31, "A", 1.0)),
        FieldValueError,
        'table "trades": field "id" of type int32 cannot hold 2147483648',
    ),
    "a value of the wrong type into a label": (
        lambda world: world.table.input.insert((1, 5, 1.0)),
        FieldValueError,
        'label "trades.in": field "symbol" of type string cannot hold 5',
    ),
    "an unknown field": (
        lambda world: world.table.insert(TRADE.row(1, prize=3.0)),
        ModelError,
        'field "prize" does not exist',
    ),
    "an unknown field to find by": (
        lambda world: world.table.find_by(sybmol="A"),
        ModelError,
        'table "trades": field "sybmol" does not exist',
    ),
    "a value to find by that does not fit": (
        lambda world: world.table.index("by_symbol").group_by(symbol=1),
        FieldValueError,
        'table "trades": field "symbol" of type string cannot hold 1',
    ),
    "no row at all": (
        lambda world: world.table.insert(None),
        ModelError,
        'table "trades": None is not a row of row { int32 id, string symbol, float64 price, }',
    ),
    "no row at all for a label": (
        lambda world: world.table.input.insert("A"),
        ModelError,
        "label \"trades.in\": 'A' is not a row of row { int32 id, string symbol, float64 price, }",
    ),
    "removing what was not found": (
        lambda world: world.table.remove(world.table.find_by(id=99)),  # type: ignore[arg-type]
        TableError,
        'table "trades": None is not a row handle',
    ),
    "the groups of a leaf": (
        lambda world: world.table.index("by_id").group_by(id=1),
        ModelError,
        'table "trades": index "by_id" is a leaf, it has no groups',
    ),
    "a key of a collapse that does not exist": (
        lambda world: Collapse("net", world.table.out, "prize"),
        ModelError,
        'collapse "net": field "prize" does not exist',
    ),
    "an unknown field to change": (
        lambda world: TRADE.changed(TRADE.row(1), prize=1.0),
        ModelError,
        'field "prize" does not exist',
    ),
    "too many values": (
        lambda world: world.table.insert((1, "A", 1.0, 2.0)),
        ModelError,
        'table "trades": 4 values for a row of 3 fields',
    ),
    "a row of another type": (
        lambda world: world.table.insert(SUMS.row("A", 1)),
        ModelError,
        'table "trades": a row of row { string symbol, int64 rows, } is not a row of '
        "row { int32 id, string symbol, float64 price, }",
    ),
    "recursion": (
        lambda world: world.loop.insert(TRADE.row(1)),
        ExecutionError,
        'label "loop": label "loop" was called again while it was executing: loop OP_INSERT id="1"',
    ),
    "a rowop of another unit": (
        lambda world: world.unit.call(world.elsewhere.rowop(INSERT, TRADE.row(1))),
        ModelError,
        'label "there" belongs to unit "elsewhere", not to unit "u"',
    ),
    "the mark of another unit": (
        World.loop_elsewhere,
        ModelError,
        'mark "turn" is set in unit "u", not in unit "elsewhere"',
    ),
    "queueing a rowop of another unit after one of its own": (
        World.schedule_two,
        ModelError,
        'label "there" belongs to unit "elsewhere", not to unit "u"',
    ),
    "a row in a tray": (
        lambda world: Tray([TRADE.row(7)]),
        ModelError,
        "a tray takes rowops, not Row(id=7, symbol=None, price=None)",
    ),
    "a negative number of rows to remove": (
        lambda world: world.table.clear(limit=-1),
        ModelError,
        'table "trades": -1 rows cannot be removed',
    ),
    "an index that is not nested in another": (
        lambda world: list(world.table.index("by_symbol").group_by(symbol="A").rows("by_size")),
        ModelError,
        'table "trades": index "by_size" is not nested in index "by_symbol"',
    ),
    "a chain to another unit": (
        lambda world: world.table.out.chain(world.elsewhere),
        ModelError,
        'label "there" cannot be chained to label "trades.out": they belong to different units',
    ),
    "a handle of another table": (
        lambda world: world.table.remove(world.other.first()),  # type: ignore[arg-type]
        TableError,
        'table "trades": a row handle of table "others" cannot be used with this table',
    ),
    "inserting a handle of another table": (
        lambda world: world.table.insert(world.other.first()),
        TableError,
        'table "trades": a row handle of table "others" cannot be used with this table',
    ),
    "an index that does not exist": (
        lambda world: world.table.index("by_symbol", "by_size"),
        ModelError,
        'table "trades": index "by_symbol.by_size" does not exist',
    ),
    "an aggregator that does not exist": (
        lambda world: world.table.results("averages"),
        ModelError,
        'table "trades" has no aggregator "averages"',
    ),
    "a key function that fails": (
        lambda world: world.table.insert(TRADE.row(3, "C", 5.0)),
        TableError,
        'table "trades": an index cannot take the row id="3" symbol="C" price="5": float division by zero',
    ),
    "a key function that fails for what is looked for": (
        lambda world: world.table.index("by_ratio").find_by(price=5.0),
        TableError,
        'table "trades": an index cannot find the row price="5": float division by zero',
    ),
    "an aggregator that fails before the change": (
        World.fail_in_an_aggregator,
        TableError,
        'table "trades": aggregator "counted" at AO_BEFORE_MOD: I cannot count',
    ),
    "a change by who is notified of one": (
        World.change_from_inside,
        ExecutionError,
        'label "meddler": table "trades" cannot be changed by a handler of one of its own changes',
    ),
    "an opcode that is none": (
        lambda world: world.table.input.send(7, TRADE.row(1)),  # type: ignore[arg-type]
        ModelError,
        'label "trades.in" cannot take opcode 7',
    ),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_named_and_leaves_the_table_as_it_was(name: str) -> None:
    misuse, kind, message = MISUSES[name]
    world = World()
    with pytest.raises(kind) as caught:
        misuse(world)
    assert type(caught.value) is kind
    assert caught.value.message == message
    assert sorted(map(tuple, world.table)) == ROWS
    assert not world.table.is_broken
    assert world.table.insert(TRADE.row(4, "A", 4.0))
    assert world.table.delete(TRADE.row(4))
    assert [row.id for row in world.table.index("by_symbol").group_by(symbol="A")] == [1]


def test_changing_a_table_ends_an_iteration_and_keeps_the_change() -> None:
    world = World()
    with pytest.raises(TableError) as caught:
        world.iterate_and_change()
    assert caught.value.message == (
        'table "trades": changed while it was being iterated over; iterate over a list of the rows instead'
    )
    assert sorted(row.id for row in world.table) == [1, 2, 9]


@pytest.mark.parametrize("call", ["AO_AFTER_INSERT", "AO_AFTER_DELETE", "AO_COLLAPSE"])
def test_an_aggregator_that_fails_after_the_change_breaks_the_table(call: str) -> None:
    world = World()
    world.fails_at = call
    with pytest.raises(TableError) as caught:
        if call == "AO_AFTER_INSERT":
            world.table.insert(TRADE.row(3, "A", 3.0))
        else:
            world.table.delete(TRADE.row(1))
    assert caught.value.message == f'table "trades": aggregator "counted" at {call}: I cannot count'
    assert world.table.is_broken
    world.fails_at = ""
    ids = [row.id for row in world.table]
    assert ids == ([1, 2, 3] if call == "AO_AFTER_INSERT" else [2])
    with pytest.raises(
        BrokenTableError, match='table "trades": broken by an error in the middle of a change'
    ):
        world.table.insert(TRADE.row(5))
    assert [row.id for row in world.table] == ids


def test_an_error_of_a_label_names_every_label_on_the_way_and_keeps_its_cause() -> None:
    unit = Unit("u")

    def fail(rowop: Rowop) -> None:
        raise KeyError("missing")

    first, third = unit.label("first", TRADE), unit.label("third", TRADE, fail)
    second = first.then(third.forward, name="second")
    with pytest.raises(ExecutionError) as caught:
        first.insert(TRADE.row(7))
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.label == "third"
    assert str(caught.value).splitlines() == [
        "label \"third\": 'missing'",
        '  label "third", called, with third OP_INSERT id="7"',
        '  label "second", chained from "first", with first OP_INSERT id="7"',
        '  label "first", called, with first OP_INSERT id="7"',
    ]
    assert second.name == "second"


def test_recursion_through_a_chain_is_found_too() -> None:
    unit = Unit("u")
    first = unit.label("first", TRADE)
    first.then(first.forward, name="second")
    with pytest.raises(ExecutionError) as caught:
        first.insert(TRADE.row(1))
    assert isinstance(caught.value.__cause__, RecursionFault)


def test_a_copy_tray_has_what_an_operation_sent_and_everyone_else_saw_it_too() -> None:
    unit = Unit("u")
    counted = Aggregator("counted", SUMS, lambda context: context.send(context.result("A", len(context))))
    table = Table(
        unit, "t", TableType(TRADE, by_id=Hashed("id"), all=Hashed("symbol", each=Fifo().aggregate(counted)))
    )
    seen: list[str] = []
    for label in (table.out, table.results("counted")):
        label.then(lambda rowop: seen.append(str(rowop)), name="see")
    with copying(table) as tray:
        table.insert(TRADE.row(1, "A"))
        table.insert(TRADE.row(1, "A", 2.0))
    assert [str(rowop) for rowop in tray] == seen
    assert [rowop.opcode for rowop in tray if rowop.label is table.out] == [INSERT, DELETE, INSERT]
    assert {rowop.label.name for rowop in tray} == {"t.out", "t.counted"}
    table.delete(TRADE.row(1))
    assert len(tray) < len(seen)
