"""Models of chapter 9 and 10 of the guide: tables, windows, queries."""

from __future__ import annotations

import re
from collections.abc import Callable

from rowtide.engine import (
    DELETE,
    INSERT,
    NOP,
    Fifo,
    Hashed,
    Ordered,
    Row,
    Rowop,
    RowType,
    Table,
    TableType,
    Unit,
)
from rowtide.engine.driver import TextDriver, printed_in_full

TRADE = RowType(id="int32", symbol="string", price="float64", size="float64")
COUNT = RowType(address="string", count="int32")
GREETED = TableType(COUNT, byAddress=Hashed("address"))
WINDOW = TableType(TRADE, byId=Hashed("id"), bySymbol=Hashed("symbol", last2=Fifo(limit=2)))
QUERIED = TableType(TRADE, bySymbol=Ordered("symbol", last2=Fifo(limit=2)))


def hello(commands: dict[str, Callable[[Table, TextDriver, str, int], None]]) -> TextDriver:
    """Count greetings; a command gets the table, the driver, the address and its count."""
    unit = Unit("hwunit")
    counts = Table(unit, "tCount", GREETED)

    def command(words: list[str]) -> None:
        verb, address, *_ = [*re.split(r"\W+", " ".join(words)), ""]
        found = counts.find_by(address=address)
        commands[verb.lower()](counts, driver, address, found.row.count if found else 0)

    driver = TextDriver(unit, {"": command})
    return driver


def greet(counts: Table, driver: TextDriver, address: str, count: int) -> None:
    counts.insert(COUNT.row(address, count + 1))


def tell(counts: Table, driver: TextDriver, address: str, count: int) -> None:
    driver.print(f"Received '{address}' {count} times")


def dump(counts: Table, driver: TextDriver, address: str, count: int) -> None:
    for row in counts:
        driver.print(COUNT.format(row))


def hello_tables() -> TextDriver:
    return hello({"hello": greet, "count": tell, "dump": dump})


def hello_labels() -> TextDriver:
    def show(counts: Table, driver: TextDriver) -> None:
        if not counts.out.followers:
            counts.out.then(
                lambda rowop: driver.print(
                    f"OP_{rowop.opcode.name} '{rowop.row.address}', count {rowop.row.count}"
                ),
                name="print",
            )

    def schedule_greeting(counts: Table, driver: TextDriver, address: str, count: int) -> None:
        show(counts, driver)
        counts.unit.schedule(counts.input.rowop(INSERT, COUNT.row(address, count + 1)))

    def schedule_clearing(counts: Table, driver: TextDriver, address: str, count: int) -> None:
        counts.unit.schedule(counts.input.rowop(DELETE, COUNT.row(address)))

    return hello({"hello": schedule_greeting, "clear": schedule_clearing})


def window_of_two() -> TextDriver:
    unit = Unit("uTrades")
    window = Table(unit, "tWindow", TableType(TRADE, bySymbol=Hashed("symbol", last2=Fifo(limit=2))))
    by_symbol = window.index("bySymbol")

    def trade(words: list[str]) -> None:
        row = TRADE.parse(words)
        window.insert(row)
        driver.print("New contents:")
        for held in by_symbol.group(row):
            driver.print(f"  {TRADE.format(held)}")

    driver = TextDriver(unit, {"": trade})
    driver.show(window.out)
    return driver


def average_by_hand(finish: Callable[[TextDriver, Row, list[Row]], None]) -> TextDriver:
    """After each input, walk through the group of the row that changed last."""
    unit = Unit("uTrades")
    window = Table(unit, "tWindow", WINDOW)
    by_symbol = window.index("bySymbol")
    changed: list[Row] = []
    window.out.then(lambda rowop: changed.append(rowop.row), name="remember")

    def trade(words: list[str]) -> None:
        model.feed(",".join(words))
        if changed:
            rows = list(by_symbol.group(changed[-1]))
            driver.print("Contents:")
            for row in rows:
                driver.print(f"  {TRADE.format(row)}")
            finish(driver, changed[-1], rows)
            changed.clear()

    model = TextDriver(unit, {"": window.input})
    driver = TextDriver(unit, {"": trade})
    return driver


def average_printed_by_hand() -> TextDriver:
    def finish(driver: TextDriver, changed: Row, rows: list[Row]) -> None:
        average = f"{sum(row.price for row in rows) / len(rows):.15g}" if rows else "Undefined"
        driver.print(f"Average price: {average}")

    return average_by_hand(finish)


def query_model(
    names: tuple[str, str, str, str],
    wanted: Callable[[Row, Row], bool],
    make_answer: Callable[[Unit], tuple[RowType, Callable[[Row], Row]]] = lambda unit: (
        TRADE,
        lambda row: row,
    ),
    show: Callable[[Rowop], str] = printed_in_full,
) -> TextDriver:
    """A window that can be asked for its rows; the answer ends with a NOP, and comes after all input."""
    command, question, answer_name, table_name = names
    unit = Unit("uTrades")
    window = Table(unit, table_name, QUERIED)
    answer_type, project = make_answer(unit)
    answer = unit.label(answer_name, answer_type)
    answers: list[str] = []
    answer.then(lambda rowop: answers.append(show(rowop)), name="serverOut")

    def ask(rowop: Rowop) -> None:
        for row in window:
            if wanted(rowop.row, row):
                answer.insert(project(row))
        answer.send(NOP, answer.row())

    asked = unit.label(question, TRADE, ask)
    driver = TextDriver(
        unit,
        {command: window.input, question: asked, "end": lambda words: driver.print("\n".join(answers))},
    )
    return driver


def every_row(query: Row, row: Row) -> bool:
    return True


def row_with_set_fields(fields: tuple[str, ...]) -> Callable[[Row, Row], bool]:
    """Compare the fields that are set in the query: not NULL, empty or 0."""
    positions = [TRADE.index(name) for name in fields]
    return lambda query, row: all(not query[place] or query[place] == row[place] for place in positions)


TABLE_MODELS: dict[str, Callable[[], TextDriver]] = {
    "hello tables": hello_tables,
    "hello labels": hello_labels,
    "window of two": window_of_two,
    "average printed by hand": average_printed_by_hand,
    "query of a window": lambda: query_model(("tWindow", "qWindow", "qWindow.out", "tWindow"), every_row),
    "window with a query": lambda: query_model(
        ("window", "window.query", "window.response", "window"), every_row
    ),
    "query by symbol and price": lambda: query_model(
        ("tWindow", "qWindow", "qWindow.out", "tWindow"), row_with_set_fields(("symbol", "price"))
    ),
    "query by all set fields": lambda: query_model(
        ("tWindow", "qWindow", "qWindow.out", "tWindow"), row_with_set_fields(TRADE.names)
    ),
}
