"""W5, a stream joined with a table that changes, and W6, two streams joined within ten minutes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.bench.events import BASE_MS, KEYS, events, trades, updates
from rowtide.bench.suite import Benchmark, Outcome, close_to
from rowtide.bench.workload import EVENTS_SQL, STREAM, Script, cut, key_names, run_script
from rowtide.clock import Clock
from rowtide.flow.flow import Flow
from rowtide.rows.tray import Tray

EVENTS = 2_000_000
W5_SQL = """
CREATE TABLE factors (key VARCHAR(8) NOT NULL, sector VARCHAR(3), factor DOUBLE, PRIMARY KEY (key));
CREATE VIEW w5 AS
  SELECT STREAM e.ts, e.key, e.price * f.factor AS adjusted, f.sector
  FROM events AS e JOIN factors AS f ON e.key = f.key;
"""
W5_ROWS = 2_000_000
W5_CHECKSUM = 359_052_998.148661
SECTORS = 50
EVENTS_PER_UPDATE = 100
W6_SQL = """
CREATE STREAM orders (order_id BIGINT, ts TIMESTAMP, key VARCHAR(8), price DOUBLE, qty INTEGER);
CREATE STREAM trades (order_id BIGINT, ts TIMESTAMP, key VARCHAR(8), price DOUBLE, qty INTEGER);
CREATE VIEW ordered AS
  SELECT STREAM ts AS ROWTIME, order_id, price FROM orders ORDER BY ts WITHIN INTERVAL '5' SECOND;
CREATE VIEW traded AS
  SELECT STREAM ts AS ROWTIME, order_id, price FROM trades ORDER BY ts WITHIN INTERVAL '5' SECOND;
CREATE VIEW w6 AS
  SELECT STREAM o.order_id, o.ROWTIME AS order_ts, t.ROWTIME AS trade_ts, o.price AS order_price,
         t.price AS trade_price
  FROM ordered OVER (RANGE INTERVAL '10' MINUTE PRECEDING) AS o JOIN traded AS t ON o.order_id = t.order_id;
"""
W6_ROWS = 927_033
W6_CHECKSUM = 100_001_131.032996


def w5(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run W5."""
    given = events(count, cache)
    changed, factors = updates(count)

    def prepare(flow: Flow) -> tuple[Script, Script]:
        names = key_names()
        keys = np.arange(KEYS, dtype=np.int64)
        sectors = pa.array([f"S{key % SECTORS:02d}" for key in range(KEYS)])
        # The first rows are older than every event; an update continues their numbers.
        all_keys = np.concatenate([keys, changed])
        columns = (
            names.take(pa.array(all_keys)),
            sectors.take(pa.array(all_keys)),
            np.concatenate([1 + (keys % 100) / 100, factors]),
        )
        update_times = BASE_MS + EVENTS_PER_UPDATE * np.arange(1, len(changed) + 1, dtype=np.int64)
        rowtime = np.concatenate([np.full(KEYS, BASE_MS - 1, dtype=np.int64), update_times])
        arrival = BASE_MS + np.arange(count, dtype=np.int64)
        streamed = (given.ts, names.take(pa.array(given.key)), given.price, given.qty)
        table = Tray.concat(cut("FACTORS", flow, columns, rowtime))
        return [("FACTORS", table.slice(0, KEYS))], list(
            _in_turn(cut(STREAM, flow, streamed, arrival), table.slice(KEYS, len(table)))
        )

    def check(out: Sequence[Tray]) -> str:
        if count != EVENTS:
            return "ok"
        rows = sum(map(len, out))
        if rows != W5_ROWS:
            return f"{rows} rows out, the reference has {W5_ROWS}"
        found = 0.0
        for tray in out:
            sectors = pc.utf8_slice_codeunits(tray.columns[3].values, 1).cast(pa.int64())
            found += float(tray.columns[2].values.sum()) + pc.sum(sectors).as_py()
        return close_to(found, W5_CHECKSUM)

    return run_script(EVENTS_SQL + W5_SQL, "W5", clock, prepare, (STREAM, "FACTORS"), check)


def _in_turn(streamed: Sequence[Tray], changes: Tray) -> Iterator[tuple[str, Tray]]:
    """Yield each tray of events after the changes up to its last rowtime."""
    done = 0
    for tray in streamed:
        upto = int(np.searchsorted(changes.rowtime, tray.rowtime[-1], "right"))
        if upto > done:
            yield "FACTORS", changes.slice(done, upto)
        done = upto
        yield STREAM, tray


def w6(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run W6."""
    given = events(count, cache)
    on_order = trades(count)

    def prepare(flow: Flow) -> tuple[Script, Script]:
        names = key_names()
        sides = []
        for name, first, ids in (
            ("ORDERS", 0, np.arange(len(given.ts[0::2]), dtype=np.int64)),
            ("TRADES", 1, on_order),
        ):
            mine = slice(first, None, 2)
            keys = names.take(pa.array(given.key[mine]))
            columns = (ids, given.ts[mine], keys, given.price[mine], given.qty[mine])
            arrival = BASE_MS + np.arange(first, count, 2, dtype=np.int64)
            sides.append([(name, tray) for tray in cut(name, flow, columns, arrival)])
        return [], [turn for both in zip_longest(*sides) for turn in both if turn is not None]

    def check(out: Sequence[Tray]) -> str:
        if count != EVENTS:
            return "ok"
        rows = sum(map(len, out))
        if rows != W6_ROWS:
            return f"{rows} rows out, the reference has {W6_ROWS}"
        found = 0.0
        for tray in out:
            _, ordered, traded, order_price, trade_price = (column.values for column in tray.columns)
            found += float((trade_price - order_price / 2 + (traded - ordered) / 1000).sum())
        return close_to(found, W6_CHECKSUM)

    return run_script(W6_SQL, "W6", clock, prepare, ("ORDERED", "TRADED"), check)


BENCHMARKS = (
    Benchmark("W5", "a stream with a table of 10,000 rows that changes", EVENTS, w5),
    Benchmark("W6", "trades with their orders of the last ten minutes", EVENTS, w6),
)
