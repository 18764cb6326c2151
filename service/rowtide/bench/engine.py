"""The procedural engine: label calls, table upserts, a window with an aggregate, a join.

Each is prepared (rows in memory, tables filled with ``held`` rows) before the clock starts. The
digest of the output is compared with that of a plain loop over the same rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rowtide.bench.suite import Benchmark, Outcome, close_to
from rowtide.clock import Clock
from rowtide.engine import (
    INSERT,
    AdditiveAggregator,
    Avg,
    Fifo,
    Hashed,
    JoinTwo,
    Last,
    Row,
    Rowop,
    RowType,
    Table,
    TableType,
    Unit,
)

TRADE = RowType(id="int64", symbol="string", price="float64")
RATE = RowType(code="int64", rate="float64")
EVENTS = 500_000
CHAIN_LENGTH = 5
WINDOW = 10


@dataclass(frozen=True, slots=True)
class PreparedBench:
    """A benchmark ready to run: ``run`` returns the digest of the output, ``rows_out`` rowops."""

    run: Callable[[], float]
    expected: float
    rows_out: int


def _trades(count: int, keys: int) -> Sequence[Row]:
    # A stride that shares no factor with the number of keys visits all of them, out of order.
    return [
        TRADE.row(number * 7919 % keys, f"S{number % 50}", float(number % 1000)) for number in range(count)
    ]


def label_chain(events: int, held: int = 0) -> PreparedBench:
    """Send rows through five more labels in a chain, each with a handler."""
    first = Unit("bench").label("chain0", TRADE)
    total = [0.0]

    def add(rowop: Rowop) -> None:
        total[0] += rowop.row[2]

    last = first
    for number in range(1, CHAIN_LENGTH):
        last = last.then(add, name=f"chain{number}")
    last.then(add, name=f"chain{CHAIN_LENGTH}")
    rows = _trades(events, 1000)

    def run() -> float:
        insert = first.insert
        for row in rows:
            insert(row)
        return total[0]

    return PreparedBench(run, CHAIN_LENGTH * sum(row[2] for row in rows), events)


def table_upsert(events: int, held: int = 1000) -> PreparedBench:
    """Replace the ``held`` rows of a hashed table in turn; ``pre`` and ``out`` are followed."""
    table = Table(Unit("bench"), "table", TableType(TRADE, by_id=Hashed("id")))
    before = _trades(held, held)
    for row in before:
        table.insert(row)
    total = [0.0]

    def add(rowop: Rowop) -> None:
        total[0] += rowop.row[2] if rowop.opcode is INSERT else -rowop.row[2] / 2

    table.pre.then(add, name="before")
    table.out.then(add, name="after")
    rows = _trades(events, held)
    prices = {row[0]: row[2] for row in before}
    expected = 0.0
    for row in rows:
        expected += 2 * row[2] - prices[row[0]]
        prices[row[0]] = row[2]

    def run() -> float:
        insert = table.input.insert
        for row in rows:
            insert(row)
        return total[0]

    return PreparedBench(run, expected, 4 * events)


def fifo_average(events: int, held: int = 1000) -> PreparedBench:
    """Keep the average of the last 10 rows of each key, ``held`` rows in all, as a stream of changes."""
    keys = max(1, held // WINDOW)
    average = AdditiveAggregator("average", TRADE, id=Last("id"), price=Avg("price"))
    window = Hashed("id", last=Fifo(limit=WINDOW).aggregate(average))
    table = Table(Unit("bench"), "window", TableType(TRADE, by_id=window))
    before = _trades(keys * WINDOW, keys)
    for row in before:
        table.insert(row)
    total = [0.0]

    def add(rowop: Rowop) -> None:
        total[0] += rowop.row[1] if rowop.opcode is INSERT else -rowop.row[1] / 2

    table.results("average").then(add, name="after")
    rows = _trades(events, keys)
    expected = _expected_averages(before, rows)

    def run() -> float:
        insert = table.input.insert
        for row in rows:
            insert(row)
        return total[0]

    return PreparedBench(run, expected, 2 * events)


def _expected_averages(before: Sequence[Row], rows: Sequence[Row]) -> float:
    windows: dict[int, deque[float]] = {}
    for row in before:
        windows.setdefault(row[0], deque(maxlen=WINDOW)).append(row[2])
    expected = 0.0
    for row in rows:
        window = windows[row[0]]
        expected -= sum(window) / len(window) / 2
        window.append(row[2])
        expected += sum(window) / len(window)
    return expected


def join_two(events: int, held: int = 1000) -> PreparedBench:
    """Join two tables of ``held`` rows one to one, rows of either side replaced by turns."""
    unit = Unit("bench")
    trades = Table(unit, "trades", TableType(TRADE, by_id=Hashed("id")))
    rates = Table(unit, "rates", TableType(RATE, by_code=Hashed("code")))
    for number in range(held):
        trades.insert(TRADE.row(number, "S", 1.0))
        rates.insert(RATE.row(number, 1.0))
    join = JoinTwo("join", trades, rates, left_index="by_id", right_index="by_code")
    total = [0.0]

    def add(rowop: Rowop) -> None:
        value = rowop.row[2] * rowop.row[3]
        total[0] += value if rowop.opcode is INSERT else -value / 2

    join.out.then(add, name="after")
    left = _trades(events - events // 2, held)
    right = [RATE.row(row[0], row[2]) for row in _trades(events // 2, held)]
    prices, factors = dict.fromkeys(range(held), 1.0), dict.fromkeys(range(held), 1.0)
    expected = 0.0
    for number in range(events):
        row = (left, right)[number % 2][number // 2]
        expected -= prices[row[0]] * factors[row[0]] / 2
        if number % 2:
            factors[row[0]] = row[1]
        else:
            prices[row[0]] = row[2]
        expected += prices[row[0]] * factors[row[0]]

    def run() -> float:
        insert_trade, insert_rate = trades.input.insert, rates.input.insert
        for trade, rate in zip(left, right, strict=False):
            insert_trade(trade)
            insert_rate(rate)
        for trade in left[len(right) :]:
            insert_trade(trade)
        return total[0]

    return PreparedBench(run, expected, 2 * events)


WORKS: dict[str, tuple[str, Callable[[int, int], PreparedBench]]] = {
    "engine-chain": ("a chain of five labels", label_chain),
    "engine-upsert": ("hashed table, pre and out followed", table_upsert),
    "engine-window": ("last 10 rows a key, additive average", fifo_average),
    "engine-join": ("JoinTwo, one to one, both sides change", join_two),
}
HELD = {"": 1000, "-1m": 1_000_000}
"""Rows in the tables, by suffix of the benchmark's name: the cost of a row must not depend on it."""


def _benchmark(name: str, about: str, prepare: Callable[[int, int], PreparedBench], held: int) -> Benchmark:
    def run(count: int, cache: Path, clock: Clock) -> Outcome:
        prepared = prepare(count, held)
        began = clock.monotonic()
        digest = prepared.run()
        seconds = clock.monotonic() - began
        return Outcome(seconds, prepared.rows_out, close_to(digest, prepared.expected))

    return Benchmark(name, f"{about}, {held:,} rows held", EVENTS, run, warm=False)


BENCHMARKS = tuple(
    _benchmark(name + ending, about, prepare, held)
    for name, (about, prepare) in WORKS.items()
    for ending, held in HELD.items()
    if held == 1000 or name != "engine-chain"
)
