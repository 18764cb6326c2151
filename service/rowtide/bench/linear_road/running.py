"""Linear Road in our SQL: checks the answers for generated traffic, and runs it as a benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path

import numpy as np

from rowtide.bench.linear_road.answers import Answers, answers
from rowtide.bench.linear_road.traffic import Traffic, traffic
from rowtide.bench.suite import Benchmark, Outcome
from rowtide.bench.workload import TRAY_ROWS
from rowtide.clock import Clock
from rowtide.flow.flow import Flow
from rowtide.plan.plan import Plan
from rowtide.rows.arrays import Int64s
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.sql.pipeline import plan_pipeline

OUTPUTS = ("NOTICES", "ALERTS", "BALANCES", "EXPENDITURES", "ACCOUNTS")
STREAMS = ("REPORTS", "BALANCE_REQUESTS", "EXPENDITURE_REQUESTS")
HISTORY = "HISTORY"
CLOSING = Bound(1 << 50)
REPORTS_PER_VEHICLE = 21
"""The mean number of reports of a vehicle."""
SECONDS_PER_VEHICLE = 0.28
"""Seconds of traffic per vehicle: as dense as half an hour with 6,400 vehicles."""
SEED = 1

Rows = Sequence[Sequence[int]]
Columns = Mapping[str, Int64s]


def pipeline() -> str:
    """Return the SQL."""
    return (files("rowtide.bench.linear_road") / "linear_road.sql").read_text(encoding="utf-8")


@cache
def _plan() -> Plan:
    return plan_pipeline(pipeline())


class LinearRoadRun:
    """The running queries; all output is kept."""

    def __init__(self) -> None:
        relations = dict(_plan().relations)
        self._flow = Flow({name: relations[name] for name in OUTPUTS}, {})
        self._counts = dict.fromkeys((*STREAMS, HISTORY), 0)
        self.outputs: dict[str, list[Tray]] = {name: [] for name in OUTPUTS}

    def past(self, history: Rows) -> None:
        """Take the charges of past days."""
        if history:
            self._insert(HISTORY, _array(history), np.full(len(history), -1, dtype=np.int64))
        self._flow.bound(HISTORY, 0, CLOSING)

    def feed(self, columns: Columns, last: int) -> None:
        """Take rows of the streams, whose first column is their second; none before ``last`` follow."""
        for stream, rows in columns.items():
            if len(rows):
                self._insert(stream, rows[:, 1:], rows[:, 0] * 1_000)
        self._bound(Bound(last * 1_000))

    def close(self) -> None:
        """Send the final bound."""
        self._bound(CLOSING)
        self._flow.check()

    def answers(self) -> Answers:
        """Return the output in the form of the reference."""
        accounts: dict[int, int] = {}
        for op, _, (vid, balance) in self._rows("ACCOUNTS"):
            if op == Opcode.INSERT:
                accounts[vid] = balance
        return Answers(
            [(time, *row) for _, time, row in self._rows("NOTICES")],
            [(time, *row) for _, time, row in self._rows("ALERTS")],
            [(time, *row) for _, time, row in self._rows("BALANCES")],
            [(time, *row) for _, time, row in self._rows("EXPENDITURES")],
            accounts,
        )

    def _rows(self, relation: str) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield the opcode, the second and the values of each output row."""
        for tray in self.outputs[relation]:
            rows = zip(*(column.values.tolist() for column in tray.columns), strict=True)
            yield from zip(tray.opcode.tolist(), (tray.rowtime // 1_000).tolist(), rows, strict=True)

    def _insert(self, relation: str, values: Int64s, rowtime: Int64s) -> None:
        row_type, origin = self._flow.row_type(relation), self._flow.origin(relation, 0)
        first = self._counts[relation]
        self._counts[relation] += len(rowtime)
        counter = np.arange(first, self._counts[relation], dtype=np.int64)
        columns = [Column(field.type, values[:, at].astype(np.int32)) for at, field in enumerate(row_type)]
        self._flow.insert(relation, 0, Tray.from_columns(row_type, columns, rowtime, origin, counter))

    def _bound(self, bound: Bound) -> None:
        for stream in STREAMS:
            self._flow.bound(stream, 0, bound)
        for name, trays in self._flow.drain().outputs.items():
            self.outputs[name] += trays


def parts(given: Traffic, size: int = TRAY_ROWS) -> Iterator[tuple[Columns, int]]:
    """Yield the rows about ``size`` reports at a time, with a lower bound of the seconds of later rows."""
    whole = [_array(rows) for rows in (given.reports, given.balances, given.expenditures)]
    starts = [0, 0, 0]
    for stop in range(size, len(given.reports) + size, size):
        last = given.reports[min(stop, len(given.reports)) - 1].time
        stops = [min(stop, len(given.reports))]
        stops += [int(np.searchsorted(rows[:, 0], last)) if len(rows) else 0 for rows in whole[1:]]
        yield (
            {
                name: rows[start:end]
                for name, rows, start, end in zip(STREAMS, whole, starts, stops, strict=True)
            },
            last,
        )
        starts = stops
    yield {name: rows[start:] for name, rows, start in zip(STREAMS, whole, starts, strict=True)}, last


def _array(rows: Rows) -> Int64s:
    width = len(rows[0]) if rows else 1
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64).reshape(len(rows), width)


def differences(found: Answers, wanted: Answers) -> str:
    """Return ``ok``, or the first answer that differs."""
    for name in ("notices", "alerts", "balances", "expenditures"):
        ours, theirs = sorted(getattr(found, name)), sorted(getattr(wanted, name))
        if ours != theirs:
            at = next(
                (at for at, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other),
                min(len(ours), len(theirs)),
            )
            return f"{name}: {ours[at : at + 1]}, the reference has {theirs[at : at + 1]}"
    if found.accounts != wanted.accounts:
        return "accounts differ from the reference"
    return "ok"


def run(count: int, cache_folder: Path, clock: Clock) -> Outcome:
    """Feed the reports at full speed, and check every answer; the clock runs while the queries run."""
    del cache_folder
    given, wanted = _expected(count)
    running = LinearRoadRun()
    running.past(given.history)
    seconds = 0.0
    for part, last in parts(given):
        began = clock.monotonic()
        running.feed(part, last)
        seconds += clock.monotonic() - began
    began = clock.monotonic()
    running.close()
    seconds += clock.monotonic() - began
    rows = sum(len(tray) for trays in running.outputs.values() for tray in trays)
    return Outcome(seconds, rows, differences(running.answers(), wanted))


@cache
def _expected(count: int) -> tuple[Traffic, Answers]:
    vehicles = max(1, round(count / REPORTS_PER_VEHICLE))
    given = traffic(SEED, vehicles, max(600, round(vehicles * SECONDS_PER_VEHICLE)))
    return given, answers(given)


BENCHMARKS = (
    Benchmark("linear-road", "tolls, alerts and balances of an expressway, at full speed", 134_000, run),
)
