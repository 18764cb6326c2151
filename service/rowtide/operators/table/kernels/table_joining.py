"""Joins two tables: the changes of the result for a change of one side.

The distinct rows of a side have numbers (``KeyGroups``), and so have keys (groups). ``copies`` is the
number of copies of a row. The existing rows of one side and group are chained, in order of arrival:
``ends`` has the first and the last of them and their total number of copies, by side and group,
``links`` the previous and the next one, by side and row; -1 for none.
"""

from __future__ import annotations

import numpy as np

from rowtide.operators.storage.kernels.lean import lean
from rowtide.rows.arrays import Int8s, Int64s, Mask

FIRST, LAST, TOTAL = 0, 1, 2
"""Indexes in ``ends``."""
BEFORE, BEHIND, CAME = 0, 1, 2
"""Indexes in ``links``. ``CAME`` numbers the rows in order of arrival."""
DONE, WRITTEN, NEEDED, NEXT = 0, 1, 2, 3
"""Indexes in ``progress``: changes and output rows done, needed room, the next arrival number."""


@lean
def join_changes(
    sides: Int8s,
    opcodes: Int8s,
    groups: Int64s,
    rows: Int64s,
    keeps: Mask,
    copies: Int64s,
    links: Int64s,
    ends: Int64s,
    progress: Int64s,
    causes: Int64s,
    out_opcodes: Int8s,
    places: Int64s,
) -> None:
    """Apply changes, and write the resulting changes: cause, opcode, and the rows of both sides (-1: none).

    ``groups`` is -1 where a key has a NULL: that row matches nothing. A call ends when all is done or
    the output of the next change does not fit, and can be repeated with room for
    ``progress[NEEDED]``.
    """
    change, written = progress[DONE], progress[WRITTEN]
    while change < len(sides):
        side, opcode, group, row = sides[change], opcodes[change], groups[change], rows[change]
        other = 1 - side
        if opcode == 0 or (opcode < 0 and copies[side, row] == 0):
            change += 1
            continue
        matched = ends[other, group, TOTAL] if group >= 0 else np.int64(0)
        if written + 2 * matched + 1 > len(causes):
            progress[NEEDED] = written + 2 * matched + 1
            break
        begin = ends[other, group, FIRST] if matched > 0 else np.int64(-1)
        if opcode < 0:
            written = _pairs(
                begin, change, -1, side, row, copies, links, causes, out_opcodes, places, written
            )
        if keeps[side] and matched == 0:
            causes[written], out_opcodes[written] = change, opcode
            places[written, side], places[written, other] = row, -1
            written += 1
        _count(side, group, row, opcode, copies, links, ends, progress)
        if keeps[other] and matched > 0 and ends[side, group, TOTAL] == (0 if opcode < 0 else 1):
            # The first match of these rows has arrived, or the last one was deleted.
            written = _pairs(
                begin, change, -opcode, side, -1, copies, links, causes, out_opcodes, places, written
            )
        if opcode > 0:
            written = _pairs(begin, change, 1, side, row, copies, links, causes, out_opcodes, places, written)
        change += 1
    progress[DONE], progress[WRITTEN] = change, written


@lean
def _pairs(
    begin: int | np.int64,
    change: int,
    opcode: int,
    side: int,
    row: int,
    copies: Int64s,
    links: Int64s,
    causes: Int64s,
    out_opcodes: Int8s,
    places: Int64s,
    written: int,
) -> int:
    """Write a row beside each of the other side's, in the order in which these came."""
    match = begin
    while match >= 0:
        for _ in range(copies[1 - side, match]):
            causes[written], out_opcodes[written] = change, opcode
            places[written, side], places[written, 1 - side] = row, match
            written += 1
        match = links[1 - side, match, BEHIND]
    return written


@lean
def _count(
    side: int,
    group: int,
    row: int,
    opcode: int,
    copies: Int64s,
    links: Int64s,
    ends: Int64s,
    progress: Int64s,
) -> None:
    """Count an added or removed copy of a row."""
    before = copies[side, row]
    copies[side, row] = before + opcode
    if before == 0:
        links[side, row, CAME] = progress[NEXT]
        progress[NEXT] += 1
    if group < 0:
        return
    ends[side, group, TOTAL] += opcode
    if before == 0:
        last = ends[side, group, LAST]
        links[side, row, BEFORE], links[side, row, BEHIND] = last, -1
        if last < 0:
            ends[side, group, FIRST] = row
        else:
            links[side, last, BEHIND] = row
        ends[side, group, LAST] = row
    elif before + opcode == 0:
        left, right = links[side, row, BEFORE], links[side, row, BEHIND]
        if left < 0:
            ends[side, group, FIRST] = right
        else:
            links[side, left, BEHIND] = right
        if right < 0:
            ends[side, group, LAST] = left
        else:
            links[side, right, BEFORE] = left
