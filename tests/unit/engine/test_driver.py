from __future__ import annotations

import pytest

from rowtide.engine import (
    INSERT,
    ExecutionError,
    FieldValueError,
    Hashed,
    ModelError,
    RowType,
    Table,
    TableType,
    TextDriver,
    Unit,
)
from rowtide.engine.driver import printed_in_full

PAIR = RowType(key="string", value="int32")


def driven() -> TextDriver:
    table = Table(Unit("u"), "t", TableType(PAIR, by_key=Hashed("key")))
    driver = TextDriver(table.unit, {"": table.input, "size": lambda words: driver.print(len(table))})
    driver.show(table.out)
    return driver


def test_lines_go_in_and_rowops_come_out() -> None:
    lines = ["OP_INSERT,a,1", "INSERT, a, 2", "size", "OP_DELETE,a", "OP_DELETE,a", "OP_NOP"]
    assert driven().run(lines) == [
        't.out OP_INSERT key="a" value="1"',
        't.out OP_DELETE key="a" value="1"',
        't.out OP_INSERT key="a" value="2"',
        "1",
        't.out OP_DELETE key="a" value="2"',
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("OP_UPDATE,a,1", 'opcode "OP_UPDATE" does not exist'),
        ("OP_INSERT,a,1,2", "3 values for a row of 2 fields"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused(line: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        driven().feed(line)


def test_a_value_that_does_not_fit_is_named() -> None:
    with pytest.raises(FieldValueError, match="field \"value\" of type int32 cannot hold 'one'"):
        driven().feed("OP_INSERT,a,one")


def test_an_input_that_does_not_exist_is_refused() -> None:
    unit = Unit("u")
    driver = TextDriver(unit, {"trades": unit.label("trades", PAIR)})
    with pytest.raises(ModelError, match='input "trade" does not exist'):
        driver.feed("trade,OP_INSERT,a,1")


def test_what_was_printed_before_an_error_is_not_lost() -> None:
    unit = Unit("u")
    label = unit.label("label", PAIR)
    driver = TextDriver(unit, {"": label, "more": lambda words: None})
    driver.show(label)
    label.then(lambda rowop: [].pop(), name="fails")
    with pytest.raises(ExecutionError):
        driver.feed("OP_INSERT,a,1")
    assert driver.feed("more") == ['label OP_INSERT key="a" value="1"']


def test_a_server_answers_with_all_values() -> None:
    label = Unit("u").label("answer", PAIR)
    assert printed_in_full(label.rowop(INSERT, PAIR.row("a"))) == "answer,OP_INSERT,a,"
