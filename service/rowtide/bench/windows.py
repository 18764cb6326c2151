"""W2, tumbling minutes by key after a t-sort, and W4, the average of the last ten rows of a key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rowtide.bench.events import events
from rowtide.bench.suite import Benchmark, Outcome, close_to
from rowtide.bench.workload import run_query
from rowtide.clock import Clock
from rowtide.rows.tray import Tray

W2_SQL = """
CREATE VIEW ordered AS
  SELECT STREAM ts AS ROWTIME, key, price, qty FROM events ORDER BY ts WITHIN INTERVAL '5' SECOND;
CREATE VIEW w2 AS
  SELECT STREAM FLOOR(o.ROWTIME TO MINUTE) AS window_start, key,
         COUNT(*) AS cnt, SUM(qty) AS total, MIN(price) AS lo, MAX(price) AS hi
  FROM ordered AS o GROUP BY FLOOR(o.ROWTIME TO MINUTE), key;
"""
W4_SQL = """
CREATE VIEW w4 AS
  SELECT STREAM ts, key, AVG(price) OVER (PARTITION BY key ROWS 9 PRECEDING) AS average FROM events;
"""
W4_EVENTS = 2_000_000
W4_CHECKSUM = 265_439_979.283223
W2_EVENTS = 2_000_000
W2_CHECKSUM = 121_713_521_580.732
W2_ROWS = 245_654


def w2(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run W2."""
    return run_query(
        W2_SQL, "W2", events(count, cache), clock, partial(_check_w2, count), bounded=("ORDERED",)
    )


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


def w4(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run W4."""
    return run_query(W4_SQL, "W4", events(count, cache), clock, partial(_check_w4, count))


def _check_w4(count: int, trays: Sequence[Tray]) -> str:
    rows = sum(map(len, trays))
    if rows != count:
        return f"{rows} rows out of {count}"
    if count != W4_EVENTS:
        return "ok"
    return close_to(sum(float(tray.columns[2].values.sum()) for tray in trays), W4_CHECKSUM)


BENCHMARKS = (
    Benchmark("W2", "tumbling minutes by key: count, sum, min, max", W2_EVENTS, w2),
    Benchmark("W4", "average of the last 10 rows of a key", W4_EVENTS, w4),
)
