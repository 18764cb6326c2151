"""Nexmark's queries in our SQL: one benchmark each, checked by its answer before it is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

import numpy as np

from rowtide.bench.nexmark.answers import ANSWERS, EVENTS, MICROS, Answer
from rowtide.bench.nexmark.events import Rows, parts
from rowtide.bench.suite import Benchmark, Outcome
from rowtide.bench.workload import TRAY_ROWS
from rowtide.clock import Clock
from rowtide.flow.flow import Flow
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import Bound
from rowtide.sql.pipeline import plan_pipeline

SPEED_EVENTS, SPEED_MICROS = 10_000_000, 100
CLOSING = Bound(1 << 50)
"""The final bound, far after every event: it closes everything."""
STREAMS = ("PERSON", "AUCTION", "BID")
OWN_CLOCKS = {"q6": ("SOLD",)}
"""Views of queries that promote their own time: a bound on the streams does not apply to them."""
SIDE_INPUT, SIDE_ROWS = "SIDE_INPUT", 10_000
IN_ORDER, SORTED = "schema", "schema_sorted"
"""Files with the streams: in order of arrival, and sorted by a t-sort first."""


def query(name: str) -> str:
    """Return the SQL of a query, or of the streams."""
    folder = files("rowtide.bench.nexmark")
    within = folder if name in (IN_ORDER, SORTED) else folder / "queries"
    return (within / f"{name}.sql").read_text(encoding="utf-8")


class QueryRun:
    """A running query, fed with the events of the generator."""

    def __init__(self, name: str, schema: str = IN_ORDER) -> None:
        self._relation = name.upper()
        plan = plan_pipeline(query(schema) + query(name))
        self._flow = Flow({self._relation: dict(plan.relations)[self._relation]}, {})
        self._inputs = {stream: stream if schema == IN_ORDER else f"{stream}_IN" for stream in STREAMS}
        self._counts = dict.fromkeys(STREAMS, 0)
        if self._flow.reads(SIDE_INPUT):
            self._flow.insert(SIDE_INPUT, 0, self._side_input())
            self._flow.bound(SIDE_INPUT, 0, CLOSING)

    def trays(
        self, count: int, micros: int, size: int = TRAY_ROWS, disorder: int = 1
    ) -> Iterator[list[tuple[str, Tray]]]:
        """Yield the events as trays of the streams that the query reads, about ``size`` events at a time."""
        for part in parts(count, micros, size, disorder):
            given = (part.person, part.auction, part.bid)
            yield [
                (self._inputs[stream], self._tray(stream, rows))
                for stream, rows in zip(STREAMS, given, strict=True)
                if self._flow.reads(self._inputs[stream])
            ]

    def feed(self, rows: list[tuple[str, Tray]]) -> list[Tray]:
        """Take rows; return the output."""
        for stream, tray in rows:
            self._flow.insert(stream, 0, tray)
        return self._flow.drain().outputs[self._relation]

    def close(self) -> list[Tray]:
        """Send the final bound; return the output."""
        for stream in STREAMS:
            if self._flow.reads(self._inputs[stream]):
                self._flow.bound(stream, 0, CLOSING)
        out = self._flow.drain().outputs[self._relation]
        for view in OWN_CLOCKS.get(self._relation.lower(), ()):
            self._flow.bound(view, 0, CLOSING)
            out += self._flow.drain().outputs[self._relation]
        self._flow.check()
        return out

    def _tray(self, stream: str, rows: Rows) -> Tray:
        relation = self._inputs[stream]
        row_type, origin = self._flow.row_type(relation), self._flow.origin(relation, 0)
        columns = [Column(field.type, values) for field, values in zip(row_type, rows.columns, strict=True)]
        first = self._counts[stream]
        self._counts[stream] += len(rows.rowtime)
        counter = np.arange(first, self._counts[stream], dtype=np.int64)
        # A stream that is sorted first is shuffled by its own time, and arrives in order of another time.
        rowtime = rows.rowtime if relation == stream else counter
        return Tray.from_columns(row_type, columns, rowtime, origin, counter)

    def _side_input(self) -> Tray:
        row_type, origin = self._flow.row_type(SIDE_INPUT), self._flow.origin(SIDE_INPUT, 0)
        keys = np.arange(SIDE_ROWS, dtype=np.int64)
        columns = [Column(field.type, keys) for field in row_type]
        return Tray.from_columns(row_type, columns, np.full(SIDE_ROWS, -1, dtype=np.int64), origin, keys)


@cache
def check(name: str, disorder: int = 1) -> str:
    """Return ``ok``, or how a query's answer differs from the reference.

    With a ``disorder`` the events are shuffled in groups, and a t-sort sorts them.
    """
    running = QueryRun(name, IN_ORDER if disorder == 1 else SORTED)
    out: list[Tray] = []
    for rows in running.trays(EVENTS, MICROS, disorder=disorder):
        out += running.feed(rows)
    out += running.close()
    answer: Answer = ANSWERS[name]
    return answer.check(out)


def run(name: str, count: int, cache_folder: Path, clock: Clock) -> Outcome:
    """Check a query, then time it.

    The clock runs while the query runs, not while events are generated. The output is read, as by a
    sink, because joins and tables look fields up only then.
    """
    checked = check(name)
    running = QueryRun(name)
    seconds, rows = 0.0, 0

    def timed(work: Callable[[], list[Tray]]) -> None:
        nonlocal seconds, rows
        began = clock.monotonic()
        out = work()
        for tray in out:
            _read(tray)
        seconds += clock.monotonic() - began
        rows += sum(map(len, out))

    for each in running.trays(count, SPEED_MICROS):
        timed(partial(running.feed, each))
    timed(running.close)
    return Outcome(seconds, rows, checked)


def _read(tray: Tray) -> None:
    for column in tray.columns:
        assert len(column.values) == len(tray)


def _about(name: str) -> str:
    return query(name).splitlines()[0].removeprefix("-- ").rstrip(".")


BENCHMARKS = tuple(
    Benchmark(f"nexmark-{name}", _about(name), SPEED_EVENTS, partial(run, name)) for name in ANSWERS
)
