"""W3: the running VWAP of every key, emitted for every row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rowtide.bench.events import events
from rowtide.bench.suite import Benchmark, Outcome, close_to
from rowtide.bench.workload import run_query
from rowtide.clock import Clock
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray

W3_SQL = """
CREATE VIEW w3 OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM key, SUM(price * qty) / SUM(qty) AS vwap, SUM(qty) AS qty
  FROM events GROUP BY key EMIT CHANGES;
"""
W3_EVENTS = 2_000_000
W3_CHECKSUM = 134_016_577.377321
W3_ROWS = 3_990_000


def w3(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run W3."""
    found: list[float] = []
    rows: list[int] = []

    def take(tray: Tray) -> None:
        rows.append(len(tray))
        found.append(float(np.where(tray.opcode == Opcode.INSERT, 1.0, -0.5) @ tray.columns[1].values))

    def check(_: Sequence[Tray]) -> str:
        if count != W3_EVENTS:
            return "ok"
        if sum(rows) != W3_ROWS:
            return f"{sum(rows)} rows out, the reference has {W3_ROWS}"
        return close_to(sum(found), W3_CHECKSUM)

    return run_query(W3_SQL, "W3", events(count, cache), clock, check, take=take)


BENCHMARKS = (Benchmark("W3", "running VWAP by key, DELETE old and INSERT new at every row", W3_EVENTS, w3),)
