from __future__ import annotations

from traceback import format_exception

import pytest

from rowtide.engine import (
    INSERT,
    AdditiveAggregator,
    Avg,
    Count,
    Descending,
    Fifo,
    Hashed,
    Last,
    ModelError,
    Ordered,
    Rowop,
    RowType,
    Table,
    TableError,
    TableType,
    Tray,
    Unit,
)
from rowtide.engine.expiry import Expiry
from rowtide.engine.generated import generated
from rowtide.engine.templates import ChunkedRemoval, QueriedTable, TableQuery, equal_to, equal_where_set

READING = RowType(time="int64", sensor="string", value="float64")
BY_TIME = TableType(READING, by_sensor=Hashed("sensor", all=Fifo()), by_time=Ordered("time", same=Fifo()))
COMMAND = RowType(text="string")


def readings(*rows: tuple[object, ...]) -> Table:
    table = Table(Unit("u"), "readings", BY_TIME)
    for row in rows:
        table.insert(READING.row(*row))
    return table


def log_of(table: Table, *names: str) -> list[str]:
    log: list[str] = []
    for label in table.unit.labels:
        if label.name in names:
            label.then(lambda rowop: log.append(str(rowop)), name="log")
    return log


def test_rows_expire_as_rowtime_advances_and_never_come_back() -> None:
    table = readings((1, "a"), (5, "b"), (5, "c"), (9, "a"))
    expiry = Expiry(table, "time", keep=4)
    assert expiry.advance(5) == 0
    assert expiry.advance(9) == 1
    assert expiry.advance(7) == 0
    assert expiry.advance(10) == 2
    assert [row.time for row in table] == [9]


def test_a_row_without_time_goes_with_the_first_advance() -> None:
    table = readings((None, "a"), (3, "b"))
    assert Expiry(table, "time", 4, "by_time").advance(3) == 1


@pytest.mark.parametrize("index", [Hashed("time"), Ordered(Descending("time")), Ordered("sensor", "time")])
def test_expiry_needs_an_index_that_is_ordered_by_time_first(index: Hashed | Ordered) -> None:
    table = Table(Unit("u"), "t", TableType(READING, by_time=index))
    with pytest.raises(ModelError, match='table "t" has no index that is ordered by field "time"'):
        Expiry(table, "time", 4)


def test_a_query_is_answered_by_the_rows_it_asks_for_and_an_end() -> None:
    table = readings((1, "a", 1.0), (2, "b", 2.0), (3, "a", 2.0))
    query = TableQuery("q", table, fields=["!time", ".*"], where=equal_where_set(READING))
    log = log_of(table, "q.out")
    query.input.insert(READING.row(sensor="a"))
    query.input.insert(READING.row(0, "a", 2.0))
    assert log == [
        'q.out OP_INSERT sensor="a" value="1"',
        'q.out OP_INSERT sensor="a" value="2"',
        "q.out OP_NOP",
        'q.out OP_INSERT sensor="a" value="2"',
        "q.out OP_NOP",
    ]


def test_a_table_and_its_query_are_one_object() -> None:
    window = QueriedTable(
        Unit("u"), "window", BY_TIME, fields=["!time", ".*"], where=equal_where_set(READING)
    )
    log = log_of(window.table, "window.out", "window.response")
    window.input.insert(READING.row(1, "a", 1.0))
    window.input.insert(READING.row(2, "b", 2.0))
    window.query.insert(READING.row(sensor="b"))
    assert log == [
        'window.out OP_INSERT time="1" sensor="a" value="1"',
        'window.out OP_INSERT time="2" sensor="b" value="2"',
        'window.response OP_INSERT sensor="b" value="2"',
        "window.response OP_NOP",
    ]
    labels = (window.query, window.response, window.input, window.pre, window.out)
    assert [label.name for label in labels] == [
        "window.query",
        "window.response",
        "window.in",
        "window.pre",
        "window.out",
    ]


def test_a_generated_condition_shows_its_text_and_asks_only_for_what_is_set() -> None:
    row = RowType(id="int64", symbol="string", price="float64")
    query = row.row(symbol="it's", price=0.0)
    asks = equal_to(query, row)
    assert asks.source == "def equal_to(row):\n    return row[1] == query[1]\n"  # type: ignore[attr-defined]
    assert [asks(row.row(1, symbol)) for symbol in ("it's", "its")] == [True, False]
    assert equal_to(row.row(), row)(row.row(7))
    both = equal_where_set(row, "id")
    assert [both(query, row.row(5)), both(row.row(4), row.row(5))] == [True, False]


def test_generated_text_that_does_not_compile_is_shown() -> None:
    with pytest.raises(ModelError, match='generated function "f" does not compile') as caught:
        generated("f", ("row",), ["return row[0] =! 1"])
    assert "def f(row):\n    return row[0] =! 1" in caught.value.message


def test_an_error_in_a_generated_function_shows_its_line() -> None:
    divide = generated("divide", ("row",), ["left, right = row", "return left / right"])
    with pytest.raises(ZeroDivisionError) as caught:
        divide((1, 0))
    assert "return left / right" in "".join(format_exception(caught.value))


def test_an_additive_aggregator_shows_what_was_generated_for_it() -> None:
    row = RowType(id="int64", price="float64")
    average = AdditiveAggregator("a", row, id=Last("id"), price=Avg("price"), rows=Count())
    assert "value = row[1]\n    if value is not None:\n        sums[0] += value" in average.code
    assert "last[0], fit1(sums[0] / counts[0] if counts[0] else None), counts[1]," in average.code


def test_rows_are_removed_in_chunks_while_the_model_is_idle() -> None:
    table = Table(Unit("u"), "t", TableType(READING, all=Fifo()))
    for time in range(5):
        table.insert(READING.row(time))
    idle = Tray()
    removal = ChunkedRemoval("clear", table, COMMAND, idle, limit=2, unwanted=lambda row: bool(row.time < 4))
    log = log_of(table, "clear.done")
    removal.input.insert(COMMAND.row("all"))
    assert (len(table), len(idle), log) == (3, 1, [])
    table.unit.schedule(idle)
    idle.clear()
    table.unit.drain()
    assert (len(table), len(idle), log) == (1, 0, ['clear.done OP_INSERT text="all"'])


def test_a_unit_is_saved_only_at_rest_and_restored_only_into_a_new_model() -> None:
    table = readings((1, "a"))
    table.unit.schedule(table.input.rowop(INSERT, READING.row(2)))
    with pytest.raises(ModelError, match='unit "u" cannot be saved while it has rowops to run'):
        table.unit.snapshot()
    table.unit.drain()
    state = table.unit.snapshot()
    with pytest.raises(TableError, match='table "readings": can only be restored while it is empty'):
        table.unit.restore(state)
    with pytest.raises(ModelError, match="does not have the same parts as the snapshot: readings"):
        Unit("v").restore(state)
    Table(table.unit, "readings", BY_TIME)
    with pytest.raises(ModelError, match='two parts called "readings"'):
        table.unit.snapshot()


def test_a_table_is_not_saved_in_the_middle_of_a_change() -> None:
    table = readings()
    seen: list[str] = []

    def save(rowop: Rowop) -> None:
        with pytest.raises(TableError, match="broken or being changed"):
            table.snapshot()
        seen.append("refused")

    table.out.then(save)
    table.insert(READING.row(1))
    assert seen == ["refused"]
