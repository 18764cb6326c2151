"""W1: filter and projection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute

from rowtide.bench.events import events
from rowtide.bench.suite import Benchmark, Outcome, close_to
from rowtide.bench.workload import run_query
from rowtide.clock import Clock
from rowtide.rows.tray import Tray

W1_SQL = """
CREATE VIEW w1 AS
  SELECT STREAM ts, key, price * qty AS notional,
         TSDIFF(TIMESTAMP '1970-01-01 00:00:00', ts) / 60000 AS minute,
         CASE WHEN qty % 2 = 1 THEN 'B' ELSE 'S' END AS side
  FROM events WHERE price > 50.0 AND qty >= 100;
"""
W1_EVENTS = 2_000_000
W1_CHECKSUM = 149_835_582_466.265
W1_ROWS = 959_327


def w1(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run W1."""
    return run_query(W1_SQL, "W1", events(count, cache), clock, partial(_check_w1, count))


def _check_w1(count: int, trays: Sequence[Tray]) -> str:
    if count != W1_EVENTS:
        return "ok"
    rows = sum(map(len, trays))
    if rows != W1_ROWS:
        return f"{rows} rows out, the reference has {W1_ROWS}"
    found = 0.0
    for tray in trays:
        _, _, notional, minute, side = (column.values for column in tray.columns)
        bought = pa.compute.sum(pa.compute.equal(side, "B")).as_py()
        found += float(notional.sum() + (minute / 1000).sum()) + bought
    return close_to(found, W1_CHECKSUM)


BENCHMARKS = (Benchmark("W1", "filter and projection", W1_EVENTS, w1),)
