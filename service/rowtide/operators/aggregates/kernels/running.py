"""Results of groups before and after each row.

Every row has two output rows, the results before and after it, except the first row of a group,
which has only the second. All kernels write them in this order, so that their columns match.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rowtide.operators.storage.kernels.extremes import is_better
from rowtide.operators.storage.kernels.prefetch import prefetch_block
from rowtide.rows.arrays import Floats, Int64s, Mask

Opcodes = NDArray[np.int8]


@njit(cache=True, nogil=True)
def lay_out(begins: Mask, start: int, source: Int64s, opcodes: Opcodes) -> None:
    """Write for each output row its cause, counted from ``start``, and its opcode."""
    place = 0
    for row in range(len(begins)):
        if not begins[row]:
            source[place] = start + row
            opcodes[place] = -1
            place += 1
        source[place] = start + row
        opcodes[place] = 1
        place += 1


@njit(cache=True, nogil=True)
def count(groups: Int64s, begins: Mask, use: Mask, total: Int64s, out: Int64s, changed: Mask) -> None:
    """Count the rows to use."""
    place = 0
    for row in range(len(groups)):
        prefetch_block(total, groups, row)
        group = groups[row]
        if not begins[row]:
            out[place] = total[group]
            place += 1
        if use[row]:
            total[group] += 1
            changed[row] = True
        out[place] = total[group]
        place += 1


@njit(cache=True, nogil=True)
def add_up(
    groups: Int64s,
    begins: Mask,
    values: Int64s,
    use: Mask,
    total: Int64s,
    rows: Int64s,
    out: Int64s,
    valid: Mask,
    changed: Mask,
) -> None:
    """Add values that fit. Works on int64 and double arrays."""
    place = 0
    for row in range(len(groups)):
        prefetch_block(total, groups, row)
        prefetch_block(rows, groups, row)
        group = groups[row]
        if not begins[row]:
            out[place] = total[group]
            valid[place] = rows[group] > 0
            place += 1
        if use[row]:
            before = total[group]
            total[group] += values[row]
            if total[group] != before or rows[group] == 0:
                changed[row] = True
            rows[group] += 1
        out[place] = total[group]
        valid[place] = rows[group] > 0
        place += 1


@njit(cache=True, nogil=True)
def add_up_all(
    groups: Int64s, begins: Mask, values: Int64s, total: Int64s, rows: Int64s, out: Int64s, changed: Mask
) -> None:
    """Do the same as ``add_up`` if every row so far is used, so every group has a sum.

    ``rows`` says only whether a group exists.
    """
    place = 0
    for row in range(len(groups)):
        prefetch_block(total, groups, row)
        group = groups[row]
        before = total[group]
        after = before + values[row]
        total[group] = after
        if begins[row]:
            rows[group] = 1
        else:
            out[place] = before
            place += 1
            if after != before:
                changed[row] = True
        out[place] = after
        place += 1


@njit(cache=True, nogil=True)
def average(
    groups: Int64s,
    begins: Mask,
    values: Floats,
    use: Mask,
    total: Floats,
    rows: Int64s,
    out: Floats,
    valid: Mask,
    changed: Mask,
) -> None:
    """Add doubles that fit and divide by their number."""
    place = 0
    for row in range(len(groups)):
        prefetch_block(total, groups, row)
        prefetch_block(rows, groups, row)
        group = groups[row]
        before = total[group] / max(rows[group], 1)
        if not begins[row]:
            out[place] = before
            valid[place] = rows[group] > 0
            place += 1
        if use[row]:
            total[group] += values[row]
            rows[group] += 1
            if rows[group] == 1 or total[group] / rows[group] != before:
                changed[row] = True
        out[place] = total[group] / max(rows[group], 1)
        valid[place] = rows[group] > 0
        place += 1


@njit(cache=True, nogil=True)
def extreme(
    groups: Int64s,
    begins: Mask,
    values: Int64s,
    use: Mask,
    greatest: bool,
    best: Int64s,
    seen: Mask,
    out: Int64s,
    valid: Mask,
    changed: Mask,
) -> None:
    """Keep the least or greatest value. Works on int64 and double arrays."""
    place = 0
    for row in range(len(groups)):
        prefetch_block(best, groups, row)
        prefetch_block(seen, groups, row)
        group = groups[row]
        if not begins[row]:
            out[place] = best[group]
            valid[place] = seen[group]
            place += 1
        if use[row]:
            value = values[row]
            if not seen[group] or is_better(value, best[group], greatest):
                best[group] = value
                seen[group] = True
                changed[row] = True
        out[place] = best[group]
        valid[place] = seen[group]
        place += 1


@njit(cache=True, nogil=True)
def keep_changed(begins: Mask, changed: Mask, keep: Mask) -> None:
    """Return which of the output rows are a change."""
    place = 0
    for row in range(len(begins)):
        if not begins[row]:
            keep[place] = changed[row]
            place += 1
        keep[place] = changed[row] or begins[row]
        place += 1
