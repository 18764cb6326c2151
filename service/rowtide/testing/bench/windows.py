"""W2: tumbling windows of a minute by key, after a t-sort of 5 seconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rowtide.clock import Clock
from rowtide.rows.tray import Tray
from rowtide.testing.bench.suite import Benchmark, Outcome, close_to
from rowtide.testing.bench.workload import run_query

W2_SQL = """
CREATE VIEW ordered AS
  SELECT STREAM ts AS ROWTIME, key, price, qty FROM events ORDER BY ts WITHIN INTERVAL '5' SECOND;
CREATE VIEW w2 AS
  SELECT STREAM FLOOR(o.ROWTIME TO MINUTE) AS window_start, key,
         COUNT(*) AS cnt, SUM(qty) AS total, MIN(price) AS lo, MAX(price) AS hi
  FROM ordered AS o GROUP BY FLOOR(o.ROWTIME TO MINUTE), key;
"""
W2_EVENTS = 2_000_000
W2_CHECKSUM = 121_713_521_580.732
W2_ROWS = 245_654


def w2(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run W2."""
    return run_query(W2_SQL, "W2", count, cache, clock, _check_w2, bounded=("ORDERED",))


def _check_w2(count: int, trays: Sequence[Tray]) -> str:
    if count != W2_EVENTS:
        return "ok"
    found = 0.0
    for tray in trays:
        start, _, rows, total, low, high = (column.values for column in tray.columns)
        found += float((start % 10**6).sum() + rows.sum() + total.sum() / 1000 + low.sum() + high.sum())
    if sum(map(len, trays)) != W2_ROWS:
        return f"{sum(map(len, trays))} rows out, the reference has {W2_ROWS}"
    return close_to(found, W2_CHECKSUM)


BENCHMARKS = (Benchmark("W2", "tumbling minutes by key: count, sum, min, max", W2_EVENTS, w2),)
