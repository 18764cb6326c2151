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
"""The rowtime of the first event, 2023-11-14 22:13:20 UTC; one event per millisecond follows."""
KEYS = 10_000
LATE_SHARE = 0.05
LATEST_MS = 5_000
NEAR_SHARE, NEAR_ORDERS, FAR_ORDERS = 0.9, 30_000, 600_000
"""The share of W6's trades on one of the last orders, and how many orders back they may go."""
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
    """Return the first ``count`` events; the first n events are the same whatever the count."""
    file = cache / f"events-{count}.npz"
    if file.exists():
        with np.load(file) as kept:
            return Events(kept["ts"], kept["key"], kept["price"], kept["qty"])
    made = _generate(count)
    cache.mkdir(parents=True, exist_ok=True)
    np.savez(file, ts=made.ts, key=made.key, price=made.price, qty=made.qty)
    return made


def updates(count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the key and the new factor of each update of W5: one after every 100 of ``count`` events."""
    drawn = _draws(43, 2 * (count // 100)).reshape(-1, 2)
    return (drawn[:, 0] * KEYS).astype(np.int64), np.round(0.5 + drawn[:, 1], 4)


def trades(count: int) -> NDArray[np.int64]:
    """Return the order of each trade of W6, every second one of ``count`` events; some are negative."""
    pairs = count // 2
    drawn = _draws(44, 2 * pairs).reshape(-1, 2)
    near = drawn[:, 0] < NEAR_SHARE
    lag = np.where(near, drawn[:, 1] * NEAR_ORDERS, drawn[:, 1] * FAR_ORDERS).astype(np.int64)
    return np.arange(pairs, dtype=np.int64) - lag


def _draws(seed: int, number: int) -> NDArray[np.float64]:
    # Seeded with an array, this is the same generator as that of Python's random module.
    return np.random.RandomState([seed]).random_sample(number)


def _generate(count: int) -> Events:
    draw = iter(_draws(42, DRAWS_PER_EVENT * count).tolist())
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
