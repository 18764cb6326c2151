"""Counting the copies of rows in two tables, one rowop after the other."""

from __future__ import annotations

from numba import njit

from rowtide.rows.arrays import Int8s, Int32s, Int64s


@njit(cache=True, nogil=True)
def combine_copies(
    groups: Int64s, sides: Int32s, opcodes: Int8s, is_except: bool, counts: Int64s, changes: Int8s
) -> None:
    """Apply rowops of equal rows (groups) to ``counts``, and write whether each adds or removes a copy.

    ``counts`` has two numbers for each group: side 0 has the first one, any other side the second.
    """
    for row in range(len(groups)):
        group = groups[row]
        before = _copies(counts[group, 0], counts[group, 1], is_except)
        side = 0 if sides[row] == 0 else 1
        counts[group, side] = max(counts[group, side] + opcodes[row], 0)
        changes[row] = _copies(counts[group, 0], counts[group, 1], is_except) - before


@njit(cache=True, nogil=True)
def _copies(first: int, second: int, is_except: bool) -> int:
    return max(first - second, 0) if is_except else min(first, second)
