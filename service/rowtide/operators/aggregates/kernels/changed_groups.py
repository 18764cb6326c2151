"""Groups of changes: selects the rows that count and the results to emit, before and after a row.

The kernels that follow the steps of ``kernels.frames`` compute the aggregates after each row: each row that
counts is a step by which a value enters or leaves. A group with an emitted row that these rows change for the
first time has an extra entry in front, without a value, for its earlier result. An output row names the entry
that has its result.
"""

from __future__ import annotations

from numba import njit

from rowtide.operators.aggregates.kernels.frames import ENTER, LEAVE, WRITE
from rowtide.rows.arrays import Int8s, Int32s, Int64s, Mask

ROWS, BEGUN, LAST, TIME, ORIGIN, COUNTER = range(6)
"""State of a group: its number of rows, its number in the order of beginning (-1: none), the rowtime of its
last row, the place of its first row."""
WIDTH = 6
ENTRIES, GIVEN, NUMBERS, LIVING = range(4)
"""Contents of ``counts``: entries and output rows, the number of the next group, existing groups."""


@njit(cache=True, nogil=True)
def follow_changes(
    opcodes: Int8s,
    groups: Int64s,
    rowtime: Int64s,
    origin: Int32s,
    counter: Int64s,
    keyed: bool,
    state: Int64s,
    latest: Int64s,
    counts: Int64s,
    sources: Int64s,
    entry_groups: Int64s,
    steps: Int64s,
    used: Mask,
    causes: Int64s,
    out_opcodes: Int8s,
    entries: Int64s,
    paired: Mask,
) -> None:
    """Count added and removed rows, and write the entries and the output rows.

    ``latest`` is -1 for every group, before and after. An entry has a row (``sources``), a group, a step and
    whether that brings a value; an output row has the row that caused it, an opcode, an entry, and whether
    another output row of its row follows it. A group without ``keyed`` stays when it has no rows.
    """
    entry, given = 0, 0
    for row in range(len(groups)):
        group, opcode = groups[row], opcodes[row]
        before = state[group, ROWS]
        if opcode == 0 or (opcode < 0 and before == 0):
            continue
        has_row = state[group, BEGUN] >= 0
        if not has_row:
            state[group, BEGUN] = counts[NUMBERS]
            state[group, TIME], state[group, ORIGIN] = rowtime[row], origin[row]
            state[group, COUNTER] = counter[row]
            counts[NUMBERS] += 1
            counts[LIVING] += 1
        elif latest[group] < 0:
            sources[entry], entry_groups[entry], steps[entry], used[entry] = row, group, WRITE, False
            latest[group] = entry
            entry += 1
        after = before + (1 if opcode > 0 else -1)
        state[group, ROWS], state[group, LAST] = after, rowtime[row]
        sources[entry], entry_groups[entry], used[entry] = row, group, True
        steps[entry] = ENTER if opcode > 0 else LEAVE
        stays = after > 0 or not keyed
        if has_row:
            causes[given], out_opcodes[given], entries[given] = row, -1, latest[group]
            paired[given] = stays
            given += 1
        if stays:
            causes[given], out_opcodes[given], entries[given] = row, 1, entry
            paired[given] = False
            given += 1
        else:
            state[group, BEGUN] = -1
            counts[LIVING] -= 1
        latest[group] = entry
        entry += 1
    for index in range(entry):
        latest[entry_groups[index]] = -1
    counts[ENTRIES], counts[GIVEN] = entry, given
