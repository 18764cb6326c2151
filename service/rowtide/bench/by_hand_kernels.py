"""The least cost of W1 to W6: one kernel for each, without any other work.

They are quick implementations: plain loops over the columns, texts hashed byte by byte, at most
``MAX_KEYS`` keys. No late rows, no NULLs, no overflow, no state that could be saved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.storage.kernels.lean import lean
from rowtide.rows.arrays import Bytes, Floats, Int32s, Int64s

OFFSET, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
"""Constants of the FNV hash (Fowler, Noll and Vo)."""
SHIFT = np.uint64(32)
MIX = np.uint64(0x9E3779B97F4A7C15)
MAX_KEYS = 1 << 14
MINUTE = 60_000
LAST = 10
"""Rows in the average of W4."""
ORDERS = 1 << 21
"""Places for the orders of W6."""
ORDER_SHIFT = np.uint64(43)
NEVER = -1


@lean
def code_keys(
    offsets: Int32s, data: Bytes, slots: Int32s, starts: Int64s, pool: Bytes, known: int, out: Int32s
) -> int:
    """Write the code of each text; return the number of codes. Text i begins at ``pool[starts[i]]``."""
    for row in range(len(out)):
        begin, end = offsets[row], offsets[row + 1]
        value = OFFSET
        for at in range(begin, end):
            value = (value ^ np.uint64(data[at])) * PRIME
        place = np.int64((value ^ (value >> SHIFT)) & np.uint64(len(slots) - 1))
        while slots[place] > 0:
            code = slots[place] - 1
            if starts[code + 1] - starts[code] == end - begin:
                at = 0
                while at < end - begin and pool[starts[code] + at] == data[begin + at]:
                    at += 1
                if at == end - begin:
                    break
            place = (place + 1) & (len(slots) - 1)
        if slots[place] == 0:
            starts[known + 1] = starts[known] + end - begin
            for at in range(end - begin):
                pool[starts[known] + at] = data[begin + at]
            known += 1
            slots[place] = known
        out[row] = slots[place] - 1
    return known


@lean
def w1(
    ts: Int64s,
    offsets: Int32s,
    data: Bytes,
    price: Floats,
    qty: Int32s,
    out_ts: Int64s,
    out_offsets: Int32s,
    out_data: Bytes,
    out_notional: Floats,
    out_minute: Int64s,
    out_side: Bytes,
) -> int:
    """Filter and derive; ``out_data`` has eight bytes more than it needs."""
    count, end = 0, 0
    for row in range(len(ts)):
        if price[row] > 50.0 and qty[row] >= 100:
            for at in range(offsets[row], offsets[row + 1]):
                out_data[end] = data[at]
                end += 1
            out_offsets[count + 1] = end
            out_ts[count] = ts[row]
            out_notional[count] = price[row] * qty[row]
            out_minute[count] = ts[row] // MINUTE
            out_side[count] = ord("B") if qty[row] & 1 else ord("S")
            count += 1
    return count


@lean
def w2(
    ts: Int64s,
    key: Int32s,
    price: Floats,
    qty: Int32s,
    clock: Int64s,
    begun: Int64s,
    totals: Int64s,
    extremes: Floats,
    out: Int64s,
    out_extremes: Floats,
) -> int:
    """Add rows to their minute; write those minutes that the watermark has closed.

    Two minutes can be open, minute m at ``m & 1``: ``begun`` has the number of the minute, ``totals``
    count and sum of each key, ``extremes`` its least and greatest price. ``clock[0]`` is the latest
    time.
    """
    count = 0
    latest = clock[0]
    for row in range(len(ts)):
        minute = ts[row] // MINUTE
        at = minute & 1
        if begun[at] != minute:
            count = close(at, begun, totals, extremes, out, out_extremes, count)
            begun[at] = minute
        one = key[row]
        if totals[at, one, 0] == 0:
            extremes[at, one, 0] = price[row]
            extremes[at, one, 1] = price[row]
        totals[at, one, 0] += 1
        totals[at, one, 1] += qty[row]
        extremes[at, one, 0] = min(extremes[at, one, 0], price[row])
        extremes[at, one, 1] = max(extremes[at, one, 1], price[row])
        latest = max(latest, ts[row])
    clock[0] = latest
    for at in range(2):
        if begun[at] != NEVER and (begun[at] + 1) * MINUTE <= latest - 5_000:
            count = close(at, begun, totals, extremes, out, out_extremes, count)
    return count


@lean
def close(
    at: int, begun: Int64s, totals: Int64s, extremes: Floats, out: Int64s, out_extremes: Floats, count: int
) -> int:
    """Write a minute's rows after ``count`` others, and clear it."""
    if begun[at] == NEVER:
        return count
    for key in range(totals.shape[1]):
        if totals[at, key, 0]:
            out[0, count], out[1, count] = begun[at] * MINUTE, key
            out[2, count], out[3, count] = totals[at, key, 0], totals[at, key, 1]
            out_extremes[0, count], out_extremes[1, count] = extremes[at, key, 0], extremes[at, key, 1]
            totals[at, key, 0] = totals[at, key, 1] = 0
            count += 1
    begun[at] = NEVER
    return count


@lean
def w3(
    key: Int32s,
    price: Floats,
    qty: Int32s,
    volume: Floats,
    held: Int64s,
    op: NDArray[np.int8],
    out_key: Int32s,
    vwap: Floats,
    out_qty: Int64s,
) -> int:
    """Write each row's changes; ``volume`` and ``held`` are the sums of price * qty and of qty by key."""
    count = 0
    for row in range(len(key)):
        one = key[row]
        if held[one]:
            op[count], out_key[count], out_qty[count] = -1, one, held[one]
            vwap[count] = volume[one] / held[one]
            count += 1
        held[one] += qty[row]
        volume[one] += price[row] * qty[row]
        op[count], out_key[count], out_qty[count] = 1, one, held[one]
        vwap[count] = volume[one] / held[one]
        count += 1
    return count


@lean
def w4(key: Int32s, price: Floats, last: Floats, rows: Int64s, total: Floats, average: Floats) -> None:
    """Write the average of each row and the rows before it; ``last`` holds ``LAST`` prices of each key."""
    for row in range(len(key)):
        one = key[row]
        at = rows[one] % LAST
        total[one] += price[row] - last[one, at]
        last[one, at] = price[row]
        rows[one] += 1
        average[row] = total[one] / min(rows[one], LAST)


@lean
def w5(
    time: Int64s,
    key: Int32s,
    price: Floats,
    changed_at: Int64s,
    changed: Int32s,
    factors: Floats,
    factor: Floats,
    sector: NDArray[np.int8],
    adjusted: Floats,
    out_sector: NDArray[np.int8],
) -> None:
    """Apply the changes up to each row's rowtime, and look the row up."""
    change = 0
    for row in range(len(key)):
        while change < len(changed) and changed_at[change] <= time[row]:
            factor[changed[change]] = factors[change]
            change += 1
        one = key[row]
        adjusted[row] = price[row] * factor[one]
        out_sector[row] = sector[one]


@lean
def w6_orders(ident: Int64s, ts: Int64s, price: Floats, orders: Int64s, prices: Floats) -> None:
    """Keep orders: ``orders`` has the number, one more than it, and the time at each place."""
    for row in range(len(ident)):
        place = np.int64((np.uint64(ident[row]) * MIX) >> ORDER_SHIFT)
        while orders[place, 0] != 0:
            place = (place + 1) & (ORDERS - 1)
        orders[place, 0], orders[place, 1], prices[place] = ident[row] + 1, ts[row], price[row]


@lean
def w6_trades(
    ident: Int64s,
    ts: Int64s,
    price: Floats,
    orders: Int64s,
    prices: Floats,
    within: int,
    out: Int64s,
    out_prices: Floats,
) -> int:
    """Write each trade with its order, which arrived before it."""
    count = 0
    for row in range(len(ident)):
        place = np.int64((np.uint64(ident[row]) * MIX) >> ORDER_SHIFT)
        while orders[place, 0] != 0 and orders[place, 0] != ident[row] + 1:
            place = (place + 1) & (ORDERS - 1)
        if orders[place, 0] != 0 and ts[row] >= orders[place, 1] and ts[row] - orders[place, 1] <= within:
            out[0, count], out[1, count], out[2, count] = ident[row], orders[place, 1], ts[row]
            out_prices[0, count], out_prices[1, count] = prices[place], price[row]
            count += 1
    return count
