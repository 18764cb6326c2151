"""Models of chapters 10.7, 12 and 14 of the guide: projections, joins, collapse, clearing in portions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from golden.engine.engine_models_tables import TRADE, every_row, query_model
from rowtide.engine import (
    Collapse,
    Fifo,
    Hashed,
    JoinTwo,
    Label,
    LookupJoin,
    Opcode,
    Ordered,
    Rowop,
    RowType,
    Table,
    TableType,
    Tray,
    Unit,
)
from rowtide.engine.driver import TextDriver, opcode_named
from rowtide.engine.projection import choose_fields, project

TRANSACTION = RowType(id="int32", acctSrc="string", acctXtrId="string", amount="int32")
ACCOUNT = RowType(source="string", external="string", internal="int32")
ACCOUNTS = TableType(
    ACCOUNT,
    lookupSrcExt=Hashed("source", "external"),
    iterateSrc=Hashed("source", iterateSrcExt=Hashed("external")),
    lookupIntGroup=Hashed("internal", lookupInt=Fifo()),
)
GROUPED_ACCOUNTS = TableType(
    ACCOUNT, iterateSrc=Hashed("source", lookupSrcExt=Hashed("external", grouping=Fifo()))
)
BY_ACCOUNT = {"acctSrc": "source", "acctXtrId": "external"}


def projected_query() -> TextDriver:
    projected, function = project((TRADE, choose_fields(TRADE.names, ["!id", "size/lot_$&", ".*"])))
    return query_model(
        ("tWindow", "qWindow", "qWindow.out", "tWindow"), every_row, lambda unit: (projected, function), str
    )


def filter_by_lookup() -> TextDriver:
    unit = Unit("uJoin")
    accounts = Table(unit, "tAccounts", ACCOUNTS)
    result = unit.label("lbFilterResult", TRANSACTION)

    @unit.handler(TRANSACTION)
    def transaction(rowop: Rowop) -> None:
        if accounts.find_by(source=rowop.row.acctSrc, external=rowop.row.acctXtrId):
            result.forward(rowop)

    driver = TextDriver(unit, {"acct": accounts.input, "trans": transaction})
    driver.show(result)
    return driver


def lookup_join(table_type: TableType, **options: Any) -> TextDriver:
    unit = Unit("uJoin")
    accounts = Table(unit, "tAccounts", table_type)
    join = LookupJoin(
        "join",
        TRANSACTION,
        accounts,
        by=BY_ACCOUNT,
        **{"right_fields": ["internal/acct"], "index": "lookupSrcExt", **options},
    )
    driver = TextDriver(unit, {"acct": accounts.input, "trans": join.input})
    driver.show(join.out)
    return driver


def lookup_join_from_label() -> TextDriver:
    unit = Unit("uJoin")
    accounts = Table(unit, "tAccounts", ACCOUNTS)
    transactions = unit.label("lbTrans", TRANSACTION)
    join = LookupJoin(
        "join",
        transactions,
        accounts,
        by=BY_ACCOUNT,
        index="lookupSrcExt",
        left_fields=["id", "amount"],
        right_fields=["internal/acct"],
        left_first=False,
        kind="inner",
    )
    driver = TextDriver(unit, {"acct": accounts.input, "trans": transactions})
    driver.show(join.out)
    return driver


def lookup_by_hand() -> TextDriver:
    unit = Unit("uJoin")
    accounts = Table(unit, "tAccounts", ACCOUNTS)
    join = LookupJoin(
        "join", TRANSACTION, accounts, by=BY_ACCOUNT, index="lookupSrcExt", right_fields=["internal/acct"]
    )
    shown = unit.label("lbPrint", join.result_type)

    def transaction(words: list[str]) -> None:
        opcode = opcode_named(words[0])
        for row in join.lookup(TRANSACTION.parse(words[1:])):
            shown.send(opcode, row)

    driver = TextDriver(unit, {"acct": accounts.input, "trans": transaction})
    driver.show(shown)
    return driver


RATE_TO_USD = RowType(date="int32", currency="string", toUsd="float64")
POSITION = RowType(
    date="int32", customer="string", symbol="string", quantity="float64", price="float64", currency="string"
)
BY_DATE = Ordered("date", grouping=Fifo())
RATES_TO_USD = TableType(RATE_TO_USD, primary=Hashed("date", "currency"), byDate=BY_DATE)
POSITIONS = TableType(
    POSITION,
    primary=Hashed("date", "customer", "symbol"),
    currencyLookup=Hashed("date", "currency", grouping=Fifo()),
    byDate=BY_DATE,
)


def positions_in_usd(kind: str, *, is_filtered: bool = False) -> TextDriver:
    unit = Unit("uJoin")
    rates = Table(unit, "tToUsd", RATES_TO_USD)
    positions = Table(unit, "tPosition", POSITIONS)
    days = [0]

    def current(table: Table, name: str) -> Label:
        passed = unit.label(name, table.row_type)

        def pass_current(rowop: Rowop) -> None:
            if rowop.row.date >= days[-1]:
                passed.forward(rowop)

        table.out.then(pass_current)
        return passed

    join = JoinTwo(
        "join",
        positions,
        rates,
        left_index="currencyLookup",
        right_index="primary",
        kind=kind,
        left_from=current(positions, "lbPositionCurrent") if is_filtered else None,
        right_from=current(rates, "lbToUsdCurrent") if is_filtered else None,
    )

    def clear(words: list[str]) -> None:
        for table in (positions, rates):
            table.remove_while(lambda row: bool(row.date < days[-1]), table.index("byDate"))

    driver = TextDriver(
        unit,
        {
            "cur": rates.input,
            "pos": positions.input,
            "day": lambda words: days.append(int(words[0])),
            "clear": clear,
        },
    )
    driver.show(join.out)
    return driver


RATE = RowType(ccy1="string", ccy2="string", rate="float64")
RATES = TableType(RATE, byCcy1=Hashed("ccy1", byCcy12=Hashed("ccy2")), byCcy2=Hashed("ccy2", grouping=Fifo()))


def arbitrage_by_joins() -> TextDriver:
    unit = Unit("uArb")
    rates = Table(unit, "tRate", RATES)
    two_legs = JoinTwo(
        "join1",
        rates,
        rates,
        left_index="byCcy2",
        right_index="byCcy1",
        left_fields=["ccy1", "ccy2", "rate/rate1"],
        right_fields=["ccy2/ccy3", "rate/rate2"],
    )
    pairs = Table(
        unit,
        "tJoin1",
        TableType(
            two_legs.result_type,
            byCcy123=Hashed("ccy1", "ccy2", "ccy3"),
            byCcy31=Hashed("ccy3", "ccy1", grouping=Fifo()),
        ),
    )
    two_legs.out.chain(pairs.input)
    three_legs = JoinTwo(
        "join2",
        pairs,
        rates,
        left_index="byCcy31",
        right_index=("byCcy1", "byCcy12"),
        right_fields=["rate/rate3"],
        by=["ccy3/ccy1", "ccy1/ccy2"],
    )
    result = unit.label("lbResult", three_legs.result_type.extended(looprate="float64"))

    @three_legs.out.then
    def compute(rowop: Rowop) -> None:
        row = rowop.row
        looprate = row.rate1 * row.rate2 * row.rate3
        if looprate > 1:
            result.send(rowop.opcode, (*row, looprate))
        else:
            driver.print(f"__{rowop} looprate={looprate:.15g}")

    driver = TextDriver(unit, {"rate": rates.input})
    driver.show(result)
    return driver


TRIANGLE = RowType(
    ccy1="string",
    ccy2="string",
    ccy3="string",
    rate1="float64",
    rate2="float64",
    rate3="float64",
    looprate="float64",
)


def tell_triangle(
    driver: TextDriver, result: Label, opcode: Opcode, currencies: list[str], rates: list[float]
) -> None:
    """Rotate a triangle so that its first currency is the least, and send it if it pays."""
    driver.print(f"___Order before: {', '.join(currencies)}")
    looprate = rates[0] * rates[1] * rates[2]
    turn = currencies.index(min(currencies))
    row = result.row(*currencies[turn:], *currencies[:turn], *rates[turn:], *rates[:turn], looprate)
    if looprate > 1:
        result.send(opcode, row)
    else:
        driver.print(f"__{result.rowop(opcode, row)}")


def arbitrage_by_loops() -> TextDriver:
    unit = Unit("uArb")
    rates = Table(unit, "tRate", RATES)
    result = unit.label("lbResult", TRIANGLE)
    from_currency = rates.index("byCcy1")
    pair = rates.index("byCcy1", "byCcy12")

    @rates.out.then
    def compute(rowop: Rowop) -> None:
        first = rowop.row
        for second in list(from_currency.group_by(ccy1=first.ccy2)):
            third = pair.find_by(ccy1=second.ccy2, ccy2=first.ccy1)
            if third is not None:
                currencies = [first.ccy1, first.ccy2, second.ccy2]
                legs = [first.rate, second.rate, third.row.rate]
                tell_triangle(driver, result, rowop.opcode, currencies, legs)

    driver = TextDriver(unit, {"rate": rates.input})
    driver.show(result)
    return driver


def arbitrage_by_lookups() -> TextDriver:
    unit = Unit("uArb")
    rates = Table(unit, "tRate", RATES)
    two_legs = LookupJoin(
        "join1",
        rates.out,
        rates,
        index="byCcy1",
        by=["ccy2/ccy1"],
        left_fields=["ccy1", "ccy2", "rate/rate1"],
        right_fields=["ccy2/ccy3", "rate/rate2"],
        kind="inner",
    )
    three_legs = LookupJoin(
        "join2",
        two_legs.out,
        rates,
        index=("byCcy1", "byCcy12"),
        by=["ccy3/ccy1", "ccy1/ccy2"],
        right_fields=["rate/rate3"],
        kind="inner",
    )
    result = unit.label("lbResult", TRIANGLE)

    @three_legs.out.then
    def compute(rowop: Rowop) -> None:
        row = rowop.row
        currencies, legs = [row.ccy1, row.ccy2, row.ccy3], [row.rate1, row.rate2, row.rate3]
        tell_triangle(driver, result, rowop.opcode, currencies, legs)

    driver = TextDriver(unit, {"rate": rates.input})
    driver.show(result)
    return driver


TRAFFIC = RowType(local_ip="string", remote_ip="string", bytes="int64")


def collapsed_updates(*, from_label: bool) -> TextDriver:
    unit = Unit("unit")
    source = unit.label("lbInput", TRAFFIC) if from_label else None
    key = ("local_ip", "remote_ip")
    if source is not None:
        collapse = Collapse("collapse.idata", source, *key)
    else:
        collapse = Collapse("collapse.idata", TRAFFIC, *key, unit=unit)
    driver = TextDriver(unit, {"data": source or collapse.input, "flush": lambda words: collapse.flush()})
    driver.show(collapse.out)
    return driver


FILLER = RowType(s="string", i="int32")
NOTE = RowType(text="string")


def clearing_in_portions() -> TextDriver:
    unit = Unit("uChunks")
    table = Table(unit, "tJoin1", TableType(FILLER, fifo=Fifo()))
    report = unit.label("lbReportNote", NOTE)
    idle = Tray()
    made = [0]

    def clear_portion(rowop: Rowop) -> None:
        table.clear(limit=2)
        if len(table):
            idle.append(clear.adopt(rowop))
        else:
            report.insert(report.row("done clearing"))

    clear = unit.label("lbClear", NOTE, clear_portion)

    def fill(words: list[str]) -> None:
        for _ in range(int(words[0])):
            made[0] += 1
            table.input.insert(FILLER.row(f"data_{made[0]}", made[0]))

    def dump(words: list[str]) -> None:
        for row in table:
            driver.print(f"dump: {FILLER.format(row)}")
        for rowop in idle:
            driver.print(f"when idle: {rowop}")

    def run_idle(words: list[str]) -> None:
        unit.schedule(idle)
        idle.clear()

    driver = TextDriver(
        unit,
        {
            "data": fill,
            "dump": dump,
            "clear": lambda words: clear.insert(clear.row("clear")),
            "idle": run_idle,
        },
    )
    driver.show(table.out, report)
    return driver


JOIN_MODELS: dict[str, Callable[[], TextDriver]] = {
    "projected query": projected_query,
    "filter by lookup": filter_by_lookup,
    "lookup join": lambda: lookup_join(ACCOUNTS),
    "lookup join of a group": lambda: lookup_join(GROUPED_ACCOUNTS, index=("iterateSrc", "lookupSrcExt")),
    "lookup join of the first": lambda: lookup_join(
        GROUPED_ACCOUNTS, index=("iterateSrc", "lookupSrcExt"), limit_one=True
    ),
    "lookup join from a label": lookup_join_from_label,
    "lookup by hand": lookup_by_hand,
    "positions in usd, inner": lambda: positions_in_usd("inner"),
    "positions in usd, left": lambda: positions_in_usd("left"),
    "positions in usd, outer": lambda: positions_in_usd("outer"),
    "positions in usd, left, filtered": lambda: positions_in_usd("left", is_filtered=True),
    "arbitrage by joins": arbitrage_by_joins,
    "arbitrage by loops": arbitrage_by_loops,
    "arbitrage by lookups": arbitrage_by_lookups,
    "collapsed updates": lambda: collapsed_updates(from_label=False),
    "collapsed updates from a label": lambda: collapsed_updates(from_label=True),
    "clearing in portions": clearing_in_portions,
}
