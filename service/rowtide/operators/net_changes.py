"""What the changes of one place come to: rows that are deleted and inserted alike are left out.

The rows of one place (rowtime, origin, counter) are one change of one input row: an UPDATE is its DELETE and its
INSERT. Operators apply them one after the other and so pass through states that never were; what they give of
those cancels out (docs/decisions/0028-an-update-is-one-change.md).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray, same_place
from rowtide.rows.types import BIGINT, Type


def net_changes(tray: Tray) -> Tray | None:
    """Return the net changes of each place, in order; None: there are none.

    Equal means bit by bit: zeros have signs. Of the equal rows of a place the first DELETEs stay, or the last
    INSERTs: so a key's DELETE stays before its INSERT. A place must not be divided between trays.
    """
    while True:
        if len(tray) < 2 or tray.opcode.min() > Opcode.DELETE or _nothing_cancels_out(tray):
            return tray
        same = same_place(tray.rowtime, tray.origin, tray.counter)
        opposed = same & (tray.opcode[:-1] * tray.opcode[1:] == -1)
        if not opposed.any():
            return tray
        cancelled = _alike_in_all(tray, opposed)
        if not cancelled.any():
            break
        # An aggregate of an update gives -old, +between, -between, +new: neighbours that cancel out.
        first = _apart(cancelled)
        keep = np.ones(len(tray), dtype=np.bool_)
        keep[first] = keep[first + 1] = False
        if not keep.any():
            return None
        tray = tray.where(keep)
    if not (same[1:] & same[:-1]).any():
        return tray
    return _without_pairs(tray, np.flatnonzero(np.concatenate(([True], ~same))))


def shares_places(tray: Tray | None) -> bool:
    """Return whether two neighbours of a tray have one place."""
    if tray is None or not (tray.counter[1:] == tray.counter[:-1]).any():
        return False
    return bool(same_place(tray.rowtime, tray.origin, tray.counter).any())


def alike(column: Column, wanted: Mask) -> Mask:
    """Return the rows whose next row has exactly the same value: zeros have signs. Only the wanted ones count."""
    values = column.values
    if is_slow(column.type):
        found = np.zeros(len(wanted), dtype=np.bool_)
        first = np.flatnonzero(wanted)
        pairs = zip(column.take(first).to_list(), column.take(first + 1).to_list(), strict=True)
        found[first] = [one == other for one, other in pairs]
        return found
    if column.type.is_float:
        values = values.view(f"i{values.itemsize}")
    found = np.asarray(values[1:] == values[:-1])
    if column.valid is None:
        return found
    was, is_now = column.valid[:-1], column.valid[1:]
    return np.asarray((was == is_now) & (~was | found))


def is_slow(kind: Type) -> bool:
    """Return whether comparing values of a type takes Python's time."""
    return kind.is_variable_width or kind.dtype == object


def _nothing_cancels_out(tray: Tray) -> bool:
    """Return whether it is quick to see that no row goes: a place has two rows at most, and a column tells these apart.

    Rows with one counter are taken for rows of one place here: that is one comparison instead of three.
    """
    same = tray.counter[1:] == tray.counter[:-1]
    if (same[1:] & same[:-1]).any():
        return False
    # Keys come first, and what changes after them.
    for column in reversed(tray.columns):
        if column.valid is None and not is_slow(column.type):
            values = column.values.view(f"i{column.values.itemsize}")
            if not ((values[1:] == values[:-1]) & same).any():
                return True
    return False


def _alike_in_all(tray: Tray, wanted: Mask) -> Mask:
    """Return the wanted rows that equal the next one."""
    found = wanted
    # The quick ones first, and those at the end: keys come first, and what changes after them.
    for column in sorted(reversed(tray.columns), key=lambda each: is_slow(each.type)):
        found = found & alike(column, found)
        if not found.any():
            break
    return found


def _apart(wanted: Mask) -> Int64s:
    """Return every other row of each run, from its first: pairs that have no row in common."""
    at = np.flatnonzero(wanted)
    begins = np.ones(len(at), dtype=np.bool_)
    begins[1:] = at[1:] != at[:-1] + 1
    place = np.arange(len(at))
    found: Int64s = at[(place - np.maximum.accumulate(np.where(begins, place, 0))) % 2 == 0]
    return found


def _without_pairs(tray: Tray, starts: Int64s) -> Tray | None:
    """Leave out the rows that cancel out with another one of their place; ``starts`` are the first ones of places."""
    sizes = np.diff(np.append(starts, len(tray)))
    least, greatest = (each.reduceat(tray.opcode, starts) for each in (np.minimum, np.maximum))
    larger = (sizes > 2) & (least < 0) & (greatest > 0)
    if not larger.any():
        return tray
    rows = np.flatnonzero(np.repeat(larger, sizes))
    place = np.repeat(starts[larger], sizes[larger])
    columns = [_as_bits(column.take(rows)) for column in tray.columns]
    kinds = [BIGINT, *(column.type for column in columns)]
    contents = KeyGroups(kinds).number([Column(BIGINT, place), *columns], len(rows))
    opcode = tray.opcode[rows]
    deleted, inserted = opcode < 0, opcode > 0
    pairs = np.minimum(*(np.bincount(contents[each], minlength=len(rows)) for each in (deleted, inserted)))
    if not pairs.any():
        return tray
    # The last DELETEs of a content leave, and its first INSERTs.
    leaves = np.zeros(len(rows), dtype=np.bool_)
    for at in (np.flatnonzero(inserted), np.flatnonzero(deleted)[::-1]):
        leaves[at] = _turns(contents[at]) < pairs[contents[at]]
    keep = np.ones(len(tray), dtype=np.bool_)
    keep[rows[leaves]] = False
    return tray.where(keep) if keep.any() else None


def _turns(numbers: Int64s) -> Int64s:
    """Return how many equal numbers stand before each."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = np.ones(len(numbers), dtype=np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    at = np.arange(len(numbers))
    found = np.empty(len(numbers), dtype=np.int64)
    found[order] = at - np.maximum.accumulate(np.where(begins, at, 0))
    return found


def _as_bits(column: Column) -> Column:
    """Return a column whose keys are equal where its values are, bit by bit."""
    if not column.type.is_float:
        return column
    values: NDArray[Any] = column.values
    return Column(BIGINT, values.view(f"i{values.itemsize}").astype(np.int64), column.valid)
