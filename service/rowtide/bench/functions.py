"""A function in Python in its forms: function-rows, function-numpy, function-arrow.

Each computes the same formula of the price and the quantity of every event; the check computes
it from the input with NumPy alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rowtide.bench.events import Events, events
from rowtide.bench.suite import Benchmark, Outcome, close_to
from rowtide.bench.workload import run_query
from rowtide.clock import Clock
from rowtide.rows.tray import Tray

EVENTS = {"rows": 500_000, "numpy": 2_000_000, "arrow": 2_000_000}


def impact_rows(price: float, qty: int) -> float:
    """Return a price impact: price times the square root of the quantity."""
    return price * math.sqrt(qty) / 100


def impact_numpy(price: NDArray[np.float64], qty: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return ``impact_rows`` of each row of NumPy arrays."""
    return price * np.sqrt(qty.astype(np.float64)) / 100


def impact_arrow(price: pa.Array, qty: pa.Array) -> pa.Array:
    """Return ``impact_rows`` of each row of Arrow arrays."""
    product: Any = pc.multiply(price, pc.sqrt(qty.cast(pa.float64())))
    return pc.divide(product, 100.0)


def function_in(form: str, count: int, cache: Path, clock: Clock) -> Outcome:
    """Run the benchmark of one form."""
    sql = f"""
    CREATE FUNCTION impact(price DOUBLE, qty INTEGER) RETURNS DOUBLE LANGUAGE PYTHON
      RETURNS NULL ON NULL INPUT OPTIONS (form '{form}') AS '{__name__}.impact_{form}';
    CREATE VIEW impacts AS SELECT STREAM impact(price, qty) AS impact FROM events;
    """
    given = events(count, cache)
    return run_query(sql, "IMPACTS", given, clock, partial(_check, given))


def _check(given: Events, trays: Sequence[Tray]) -> str:
    rows = sum(map(len, trays))
    if rows != len(given.price):
        return f"{rows} rows out, {len(given.price)} in"
    found = float(sum(np.sum(tray.columns[0].values) for tray in trays))
    return close_to(found, float(np.sum(given.price * given.qty**0.5) / 100))


BENCHMARKS = tuple(
    Benchmark(f"function-{form}", f"a function in Python, form {form}", count, partial(function_in, form))
    for form, count in EVENTS.items()
)
