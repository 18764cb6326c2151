"""Models of chapter 11 of the guide: aggregation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from golden.engine.engine_models_tables import TRADE, average_by_hand
from rowtide.engine import (
    AFTER_DELETE,
    AFTER_INSERT,
    BEFORE_MOD,
    COLLAPSE,
    DELETE,
    INSERT,
    NOP,
    Aggregator,
    AggregatorContext,
    Avg,
    Computed,
    Fifo,
    Hashed,
    IndexType,
    Last,
    Ordered,
    Row,
    RowType,
    SimpleAggregator,
    Sum,
    Table,
    TableType,
    Unit,
)
from rowtide.engine.driver import TextDriver

AVERAGE = RowType(symbol="string", id="int32", price="float64")
NAME = "aggrAvgPrice"


def weighted_average(trades: Sequence[Row]) -> float | None:
    known = [trade for trade in trades if trade.size is not None and trade.price is not None]
    size = sum(trade.size for trade in known)
    return sum(trade.size * trade.price for trade in known) / size if size else None


def vwap() -> TextDriver:
    aggregator = SimpleAggregator(
        "aggrVwap",
        TRADE,
        symbol=Last("symbol"),
        id=Last("id"),
        volume=Sum("size"),
        vwap=Computed("float64", weighted_average),
    )
    return window(bySymbol=Hashed("symbol", fifo=Fifo().aggregate(aggregator)))


def window(show: Callable[[Table, TextDriver], None] | None = None, **indexes: IndexType) -> TextDriver:
    unit = Unit("uTrades")
    table = Table(unit, "tWindow", TableType(TRADE, byId=Hashed("id"), **indexes))
    driver = TextDriver(unit, {"": table.input})
    if show is None:
        for node in table.type.walk():
            if node.index_type.aggregator:
                driver.show(table.results(node.index_type.aggregator.name))
    else:
        show(table, driver)
    return driver


def of_two(
    handler: Callable[[AggregatorContext], None], state: Callable[[], object] | None = None
) -> TextDriver:
    aggregator = Aggregator(NAME, AVERAGE, handler, state)
    return window(bySymbol=Hashed("symbol", last2=Fifo(limit=2).aggregate(aggregator)))


def average_sent_by_hand() -> TextDriver:
    sent = Unit("results").label("lbAverage", AVERAGE)

    def finish(driver: TextDriver, changed: Row, rows: list[Row]) -> None:
        if rows:
            last = rows[-1]
            average = sum(row.price for row in rows) / len(rows)
            driver.print(sent.rowop(INSERT, sent.row(last.symbol, last.id, average)))

    return average_by_hand(finish)


def average_with_helper_table() -> TextDriver:
    unit = Unit("results")
    helper = Table(unit, "tAvgPrice", TableType(AVERAGE, bySymbol=Hashed("symbol")))
    printed: list[str] = []
    helper.out.then(lambda rowop: printed.append(str(rowop)), name="lbAverage")

    def finish(driver: TextDriver, changed: Row, rows: list[Row]) -> None:
        if rows:
            average = sum(row.price for row in rows) / len(rows)
            helper.input.insert(AVERAGE.row(rows[-1].symbol, rows[-1].id, average))
        else:
            helper.input.delete(AVERAGE.row(symbol=changed.symbol))
        for line in printed:
            driver.print(line)
        printed.clear()

    return average_by_hand(finish)


def send_average_of_last(count: int) -> Callable[[AggregatorContext], None]:
    def handle(context: AggregatorContext) -> None:
        last = context.last()
        if last is None or context.opcode is NOP:
            return
        prices = [row.price for row in context.rows()][-count:]
        context.send(context.result(last.symbol, last.id, sum(prices) / len(prices)))

    return handle


def window_with_slack() -> TextDriver:
    aggregator = Aggregator(NAME, AVERAGE, send_average_of_last(2))
    return window(bySymbol=Hashed("symbol", last3=Fifo(limit=3).aggregate(aggregator)))


def aggregation_on_an_ordered_index() -> TextDriver:
    aggregator = Aggregator(NAME, AVERAGE, send_average_of_last(2))
    return window(
        bySymbol=Hashed("symbol", orderById=Ordered("id").aggregate(aggregator), last3=Fifo(limit=3))
    )


def remembered_result() -> TextDriver:
    compute = send_average_of_last(2)

    def handle(context: AggregatorContext) -> None:
        if context.opcode is DELETE:
            context.send(context.state)
        elif context.opcode is INSERT and len(context):
            compute(context)
            last = context.last()
            assert last is not None
            prices = [row.price for row in context.rows()]
            context.state = context.result(last.symbol, last.id, sum(prices) / len(prices))

    return of_two(handle, lambda: None)


def additive_average() -> TextDriver:
    def handle(context: AggregatorContext) -> None:
        state = context.state
        if context.call is BEFORE_MOD:
            context.send(state["sent"])
            return
        if context.call is COLLAPSE:
            return
        assert context.changed is not None
        state["sum"] += {AFTER_INSERT: 1, AFTER_DELETE: -1}[context.call] * context.changed.price
        last = context.last()
        if last is not None and context.opcode is not NOP:
            state["sent"] = context.result(last.symbol, last.id, state["sum"] / len(context))
            context.send(state["sent"])

    return of_two(handle, lambda: {"sum": 0.0, "sent": None})


def aggregator_calls() -> TextDriver:
    def show(table: Table, driver: TextDriver) -> None:
        drivers.append(driver)
        driver.show(table.pre, table.out)

    def handle(context: AggregatorContext) -> None:
        changed = "NULL" if context.changed is None else TRADE.format(context.changed)
        drivers[0].print(f"{context.call.value} OP_{context.opcode.name} {len(context)} {changed}")

    drivers: list[TextDriver] = []
    aggregator = Aggregator(NAME, AVERAGE, handle)
    return window(show, bySymbol=Hashed("symbol", last2=Fifo(limit=2).aggregate(aggregator)))


def float_sums(order: tuple[str, ...], **indexes: IndexType) -> TextDriver:
    """Sum prices in a given order of the group, and print them with 17 digits."""

    def handle(context: AggregatorContext) -> None:
        last = context.last()
        if last is None or context.opcode is not INSERT:
            return
        total = 0.0
        for row in context.rows(*order):
            total += row.price
        context.send(context.result(last.symbol, last.id, total / len(context)))

    def show(table: Table, driver: TextDriver) -> None:
        table.results(NAME).then(lambda rowop: driver.print(f"{rowop.row.price:.17g}"), name="lbAverage")

    last4 = Fifo(limit=4).aggregate(Aggregator(NAME, AVERAGE, handle))
    return window(show, bySymbol=Hashed("symbol", last4=last4, **indexes))


def simple_average() -> TextDriver:
    aggregator = SimpleAggregator(NAME, TRADE, symbol=Last("symbol"), id=Last("id"), price=Avg("price"))
    return window(bySymbol=Hashed("symbol", last2=Fifo(limit=2).aggregate(aggregator)))


AGGREGATION_MODELS: dict[str, Callable[[], TextDriver]] = {
    "vwap": vwap,
    "average sent by hand": average_sent_by_hand,
    "average with helper table": average_with_helper_table,
    "simple average": simple_average,
    "managed average": lambda: of_two(send_average_of_last(2)),
    "window with slack": window_with_slack,
    "aggregation on an ordered index": aggregation_on_an_ordered_index,
    "remembered result": remembered_result,
    "additive average": additive_average,
    "aggregator calls": aggregator_calls,
    "float sums by arrival": lambda: float_sums(()),
    "float sums by price": lambda: float_sums(("byPrice",), byPrice=Ordered("price", multi=Fifo())),
}
