"""``keys``: W3's query with a thousand to ten million keys, all of which exist before the clock starts.

The cost of a row must not depend on the number of keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rowtide.bench.events import BASE_MS
from rowtide.bench.running import W3_SQL
from rowtide.bench.suite import Benchmark, Outcome, close_to
from rowtide.bench.workload import EVENTS_SQL, STREAM, Script, cut, run_script
from rowtide.clock import Clock
from rowtide.flow.flow import Flow
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray

EVENTS = 1_000_000
SIZES = {"1k": 10**3, "10k": 10**4, "100k": 10**5, "1m": 10**6, "10m": 10**7}
SEED = 42
DIGITS = 7
"""The digits of a key's name, which has eight characters."""


def keys(size: int, count: int, _cache: Path, clock: Clock) -> Outcome:
    """Run W3 over ``count`` events of ``size`` keys, uniformly drawn."""
    draw = np.random.default_rng(SEED)
    key = np.concatenate([np.arange(size), draw.integers(0, size, count)])
    price, qty = draw.uniform(10, 500, size + count), draw.integers(1, 1001, size + count).astype(np.int32)
    found: list[float] = []

    def prepare(flow: Flow) -> tuple[Script, Script]:
        rowtime = BASE_MS + np.arange(size + count, dtype=np.int64)
        trays = [(STREAM, tray) for tray in cut(STREAM, flow, (rowtime, _names(key), price, qty), rowtime)]
        # Split the tray that has both the last keys and the first events.
        before: list[tuple[str, Tray]] = []
        after: list[tuple[str, Tray]] = []
        start = 0
        for name, tray in trays:
            split = min(max(size - start, 0), len(tray))
            before += [(name, tray.slice(0, split))] if split else []
            after += [(name, tray.slice(split, len(tray)))] if split < len(tray) else []
            start += len(tray)
        return before, after

    def take(tray: Tray) -> None:
        found.append(float(np.where(tray.opcode == Opcode.INSERT, 1.0, -0.5) @ tray.columns[1].values))

    outcome = run_script(EVENTS_SQL + W3_SQL, "W3", clock, prepare, (STREAM,), lambda out: "ok", take)
    wanted = size + 2 * count
    check = close_to(sum(found), _digest(key, price, qty))
    if outcome.rows_out != wanted:
        check = f"{outcome.rows_out} rows out, not {wanted}"
    return Outcome(outcome.seconds, outcome.rows_out, check)


def _names(key: NDArray[np.int64]) -> pa.Array:
    padded = pc.utf8_lpad(pa.array(key).cast(pa.string()), DIGITS, "0")
    return pc.binary_join_element_wise(pa.scalar("k"), padded, "")


def _digest(key: NDArray[np.int64], price: NDArray[np.float64], qty: NDArray[np.int32]) -> float:
    """Add up inserted rows, less half of the deleted ones, over all rows at once."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    weights = qty[order].astype(np.float64)
    vwap = _running(price[order] * weights, begins) / _running(weights, begins)
    ends = np.concatenate([begins[1:], [True]])
    return float(vwap.sum() - vwap[~ends].sum() / 2)


def _running(values: NDArray[np.float64], begins: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Add up within each stretch that ``begins`` starts."""
    total = np.cumsum(values)
    before = np.where(begins, total - values, 0.0)
    return np.asarray(total - np.maximum.accumulate(before))


def _run(size: int) -> Callable[[int, Path, Clock], Outcome]:
    return partial(keys, size)


BENCHMARKS = tuple(
    Benchmark(f"keys-{name}", f"W3 with {size:,} keys, uniform", EVENTS, _run(size))
    for name, size in SIZES.items()
)
