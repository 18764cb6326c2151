"""W1 to W6 by hand: the same input, trays and checksums, processed by a kernel written for just that work.

Both run on the same machine within the same minutes. On a machine whose speed varies, the ratio of W2
to ``W2-by-hand`` is more reliable than events/s. A kernel maps text keys to codes; output rows have a
key's code, except in W1, where they have the text. The work sorts and saves nothing, and has neither
late rows nor NULLs. The kernels are plain, as those from which the targets were set; optimized ones
are at least twice as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.bench import joins, running, stateless, windows
from rowtide.bench.events import BASE_MS, KEYS, Events, events, trades, updates
from rowtide.bench.joins import EVENTS_PER_UPDATE, SECTORS
from rowtide.bench.suite import Benchmark, Outcome, close_to
from rowtide.bench.workload import TRAY_ROWS, key_names
from rowtide.clock import Clock
from rowtide.operators.storage.arrow_buffers import text_buffers

Array = NDArray[Any]
Columns = tuple[Array, ...]
Prepared = tuple[Iterable[Callable[[], Columns]], Callable[[Columns], float]]
"""The work, tray by tray, each returning columns of as many rows; and their part of the checksum."""
TEN_MINUTES_MS = 600_000
LONGEST_KEY = 8


def run_by_hand(
    prepare: Callable[[Events, int], Prepared],
    rows: int,
    checksum: float,
    count: int,
    cache: Path,
    clock: Clock,
) -> Outcome:
    """Process the trays one by one, and check the results if ``count`` is that of the reference."""
    work, adds = prepare(events(count, cache), count)
    given: list[Columns] = []
    seconds = 0.0
    for tray in list(work):
        began = clock.monotonic()
        given.append(tray())
        seconds += clock.monotonic() - began
    found = sum(len(columns[-1]) for columns in given)
    check = "ok"
    if count == windows.W2_EVENTS:
        check = close_to(sum(map(adds, given)), checksum)
        if found != rows:
            check = f"{found} rows out, the reference has {rows}"
    return Outcome(seconds, found, check)


def _slices(count: int) -> Iterator[slice]:
    return (slice(start, min(start + TRAY_ROWS, count)) for start in range(0, count, TRAY_ROWS))


def _texts(key: Array) -> Columns:
    """Return texts as their offsets and bytes."""
    return text_buffers(key_names().take(pa.array(key)))


class _Coder:
    """Codes of texts."""

    def __init__(self) -> None:
        from rowtide.bench.by_hand_kernels import MAX_KEYS

        self._slots = np.zeros(2 * MAX_KEYS, dtype=np.int32)
        self._starts = np.zeros(MAX_KEYS + 1, dtype=np.int64)
        self._pool = np.empty(MAX_KEYS * LONGEST_KEY, dtype=np.uint8)
        self._known = 0

    def __call__(self, offsets: Array, data: Array) -> Array:
        from rowtide.bench.by_hand_kernels import code_keys

        codes = np.empty(len(offsets) - 1, dtype=np.int32)
        self._known = code_keys(offsets, data, self._slots, self._starts, self._pool, self._known, codes)
        return codes


def _w1(given: Events, count: int) -> Prepared:
    from rowtide.bench.by_hand_kernels import w1

    def work(part: slice, texts: Columns) -> Columns:
        offsets, data = texts
        rows = part.stop - part.start
        out = (
            np.empty(rows, dtype=np.int64),
            np.zeros(rows + 1, dtype=np.int32),
            np.empty(len(data), dtype=np.uint8),
            np.empty(rows),
            np.empty(rows, dtype=np.int64),
            np.empty(rows, dtype=np.uint8),
        )
        kept = w1(given.ts[part], offsets, data, given.price[part], given.qty[part], *out)
        return (*out[:3], *(column[:kept] for column in out[3:]))

    def adds(columns: Columns) -> float:
        *_, notional, minute, side = columns
        return float(notional.sum() + (minute / 1000).sum()) + np.count_nonzero(side == ord("B"))

    return [_later(work, part, _texts(given.key[part])) for part in _slices(count)], adds


def _w2(given: Events, count: int) -> Prepared:
    from rowtide.bench.by_hand_kernels import MAX_KEYS, NEVER, close, w2

    coder = _Coder()
    clock, begun = np.zeros(1, dtype=np.int64), np.full(2, NEVER, dtype=np.int64)
    totals, extremes = np.zeros((2, MAX_KEYS, 2), dtype=np.int64), np.zeros((2, MAX_KEYS, 2))
    state = (begun, totals, extremes)

    def room() -> tuple[Array, Array]:
        return np.empty((4, 2 * KEYS), dtype=np.int64), np.empty((2, 2 * KEYS))

    def given_out(closed: int, out: Array, out_extremes: Array) -> Columns:
        # Copies, because only a few of the trays close a window.
        return (*out[:, :closed].copy(), *out_extremes[:, :closed].copy())

    def work(part: slice, texts: Columns) -> Columns:
        out = room()
        closed = w2(given.ts[part], coder(*texts), given.price[part], given.qty[part], clock, *state, *out)
        return given_out(closed, *out)

    def end() -> Columns:
        out = room()
        closed = 0
        for at in np.argsort(begun).tolist():
            closed = close(at, *state, *out, closed)
        return given_out(closed, *out)

    def adds(columns: Columns) -> float:
        start, _, rows, total, low, high = columns
        return float((start % 10**6).sum() + rows.sum() + total.sum() / 1000 + low.sum() + high.sum())

    return [*(_later(work, part, _texts(given.key[part])) for part in _slices(count)), end], adds


def _w3(given: Events, count: int) -> Prepared:
    from rowtide.bench.by_hand_kernels import MAX_KEYS, w3

    coder = _Coder()
    volume, held = np.zeros(MAX_KEYS), np.zeros(MAX_KEYS, dtype=np.int64)

    def work(part: slice, texts: Columns) -> Columns:
        room = 2 * (part.stop - part.start)
        out = (
            np.empty(room, dtype=np.int8),
            np.empty(room, dtype=np.int32),
            np.empty(room),
            np.empty(room, dtype=np.int64),
        )
        rows_out = w3(coder(*texts), given.price[part], given.qty[part], volume, held, *out)
        return tuple(column[:rows_out] for column in out)

    def adds(columns: Columns) -> float:
        op, _, vwap, _ = columns
        return float(np.where(op > 0, 1.0, -0.5) @ vwap)

    return [_later(work, part, _texts(given.key[part])) for part in _slices(count)], adds


def _w4(given: Events, count: int) -> Prepared:
    from rowtide.bench.by_hand_kernels import LAST, MAX_KEYS, w4

    coder = _Coder()
    last, total = np.zeros((MAX_KEYS, LAST)), np.zeros(MAX_KEYS)
    rows = np.zeros(MAX_KEYS, dtype=np.int64)

    def work(part: slice, texts: Columns) -> Columns:
        codes, average = coder(*texts), np.empty(part.stop - part.start)
        w4(codes, given.price[part], last, rows, total, average)
        return given.ts[part], codes, average

    def adds(columns: Columns) -> float:
        return float(columns[2].sum())

    return [_later(work, part, _texts(given.key[part])) for part in _slices(count)], adds


def _w5(given: Events, count: int) -> Prepared:
    from rowtide.bench.by_hand_kernels import MAX_KEYS, w5

    changed, factors = updates(count)
    changed_at = BASE_MS + EVENTS_PER_UPDATE * np.arange(1, len(changed) + 1, dtype=np.int64)
    time = BASE_MS + np.arange(count, dtype=np.int64)
    coder = _Coder()
    keys = np.arange(KEYS)
    # The table has all keys before the clock starts, so a key's code is its number.
    coder(*_texts(keys))
    factor, sector = np.zeros(MAX_KEYS), np.zeros(MAX_KEYS, dtype=np.int8)
    factor[:KEYS], sector[:KEYS] = 1 + (keys % 100) / 100, keys % SECTORS

    def work(part: slice, texts: Columns, changes: slice, changed_texts: Columns) -> Columns:
        codes, change_codes = coder(*texts), coder(*changed_texts)
        adjusted, out_sector = np.empty(len(codes)), np.empty(len(codes), dtype=np.int8)
        w5(
            time[part],
            codes,
            given.price[part],
            changed_at[changes],
            change_codes,
            factors[changes],
            factor,
            sector,
            adjusted,
            out_sector,
        )
        return given.ts[part], codes, out_sector, adjusted

    def adds(columns: Columns) -> float:
        return float(columns[3].sum()) + int(columns[2].sum(dtype=np.int64))

    trays, done = [], 0
    for part in _slices(count):
        upto = int(np.searchsorted(changed_at, time[part.stop - 1], "right"))
        changes = slice(done, upto)
        trays.append(_later(work, part, _texts(given.key[part]), changes, _texts(changed[changes])))
        done = upto
    return trays, adds


def _w6(given: Events, count: int) -> Prepared:
    from rowtide.bench.by_hand_kernels import ORDERS, w6_orders, w6_trades

    ident, on_order = np.arange(len(given.ts[0::2]), dtype=np.int64), trades(count)
    order_ts, order_price = given.ts[0::2].copy(), given.price[0::2].copy()
    trade_ts, trade_price = given.ts[1::2].copy(), given.price[1::2].copy()
    orders, prices = np.zeros((ORDERS, 2), dtype=np.int64), np.zeros(ORDERS)

    def work(part: slice) -> Columns:
        w6_orders(ident[part], order_ts[part], order_price[part], orders, prices)
        out = np.empty((3, TRAY_ROWS), dtype=np.int64), np.empty((2, TRAY_ROWS))
        met = w6_trades(
            on_order[part], trade_ts[part], trade_price[part], orders, prices, TEN_MINUTES_MS, *out
        )
        return (*out[0][:, :met], *out[1][:, :met])

    def adds(columns: Columns) -> float:
        _, ordered, traded, order_price, trade_price = columns
        return float((trade_price - order_price / 2 + (traded - ordered) / 1000).sum())

    return [_later(work, part) for part in _slices(len(ident))], adds


def _later(work: Callable[..., Columns], *given: Any) -> Callable[[], Columns]:
    """Return the work on one tray, which exists before the clock starts."""
    return lambda: work(*given)


def _benchmark(
    name: str, prepare: Callable[[Events, int], Prepared], rows: int, checksum: float
) -> Benchmark:
    def run(count: int, cache: Path, clock: Clock) -> Outcome:
        return run_by_hand(prepare, rows, checksum, count, cache, clock)

    return Benchmark(f"{name}-by-hand", f"a kernel for {name} alone", windows.W2_EVENTS, run)


BENCHMARKS = (
    _benchmark("W1", _w1, stateless.W1_ROWS, stateless.W1_CHECKSUM),
    _benchmark("W2", _w2, windows.W2_ROWS, windows.W2_CHECKSUM),
    _benchmark("W3", _w3, running.W3_ROWS, running.W3_CHECKSUM),
    _benchmark("W4", _w4, windows.W4_EVENTS, windows.W4_CHECKSUM),
    _benchmark("W5", _w5, joins.W5_ROWS, joins.W5_CHECKSUM),
    _benchmark("W6", _w6, joins.W6_ROWS, joins.W6_CHECKSUM),
)
