"""The input of W1 to W6: the same rows on every machine and for every engine.

Columns of ``n`` events in arrival order, made from Mersenne Twister 42: 5 % of
them up to 5 s late, 10,000 keys by Zipf's law, a price and a quantity.
Generated once and kept as arrays in the cache folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

BASE_MS = 1_700_000_000_000
"""The rowtime of the first event, 2023-11-14 22:13:20 UTC; one event a millisecond follows."""
KEYS = 10_000
LATE_SHARE = 0.05
LATEST_MS = 5_000
DRAWS_PER_EVENT = 5
"""At most: late or not, how late, key, price, quantity."""


@dataclass(frozen=True, slots=True)
class Events:
    """Parallel columns: time (ms), key index, price, quantity."""

    ts: NDArray[np.int64]
    key: NDArray[np.uint16]
    price: NDArray[np.float64]
    qty: NDArray[np.int32]


def events(count: int, cache: Path) -> Events:
    """Give the first ``count`` events; the first n events are the same whatever the count."""
    file = cache / f"events-{count}.npz"
    if file.exists():
        with np.load(file) as kept:
            return Events(kept["ts"], kept["key"], kept["price"], kept["qty"])
    made = _generate(count)
    cache.mkdir(parents=True, exist_ok=True)
    np.savez(file, ts=made.ts, key=made.key, price=made.price, qty=made.qty)
    return made


def _generate(count: int) -> Events:
    # Seeded with an array, this is the generator that Python's random module has for the seed 42.
    draw = iter(np.random.RandomState([42]).random_sample(DRAWS_PER_EVENT * count).tolist())
    weight = np.cumsum(1.0 / np.arange(1, KEYS + 1))
    total = float(weight[-1])
    ts = np.arange(BASE_MS, BASE_MS + count, dtype=np.int64)
    place = np.empty(count)
    spread = np.empty(count)
    qty = np.empty(count, dtype=np.int32)
    for index in range(count):
        if next(draw) < LATE_SHARE:
            ts[index] -= 1 + int(next(draw) * LATEST_MS)
        place[index] = next(draw) * total
        spread[index] = next(draw)
        qty[index] = 1 + int(next(draw) * 1000)
    key = np.searchsorted(weight, place, side="left").astype(np.uint16)
    price = np.round((10 + key % 500) * (0.95 + 0.1 * spread), 2)
    return Events(ts, key, price, qty)
