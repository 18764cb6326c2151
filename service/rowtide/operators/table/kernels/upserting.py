"""Replacing and deleting the rows of a table by key, one rowop after the other."""

from __future__ import annotations

from numba import njit

from rowtide.rows.arrays import Int8s, Int64s, Mask


@njit(cache=True, nogil=True)
def upsert(
    groups: Int64s,
    opcodes: Int8s,
    first: int,
    current: Int64s,
    out_row: Int64s,
    out_number: Int64s,
    out_opcode: Int8s,
) -> int:
    """Apply rowops to the table and write its changelog; return the number of its rowops.

    ``current`` has the number of each key's row, -1 for none; the rowops' own rows are numbered from
    ``first``. It writes the rowop that caused it, the number of the row and the opcode. It skips a
    group of -1.
    """
    count = 0
    for row in range(len(groups)):
        group = groups[row]
        if group < 0 or opcodes[row] == 0:
            continue
        if current[group] >= 0:
            out_row[count] = row
            out_number[count] = current[group]
            out_opcode[count] = -1
            count += 1
        if opcodes[row] > 0:
            current[group] = first + row
            out_row[count] = row
            out_number[count] = first + row
            out_opcode[count] = 1
            count += 1
        else:
            current[group] = -1
    return count


@njit(cache=True, nogil=True)
def count_copies(
    groups: Int64s,
    opcodes: Int8s,
    first: int,
    oldest: Int64s,
    youngest: Int64s,
    came: Int64s,
    following: Int64s,
    is_there: Mask,
    changes: Mask,
) -> int:
    """Apply rowops to a table of equal rows (groups); return which change it, and the growth of the table.

    The rowops' own rows are numbered from ``first``; equal ones that are there are chained from ``oldest``
    along ``following``, -1 at the end. ``came`` is the number of the row with which a group began.
    """
    grown = 0
    for row in range(len(groups)):
        group, number = groups[row], first + row
        changes[row] = False
        if opcodes[row] > 0:
            if oldest[group] < 0:
                oldest[group] = came[group] = number
            else:
                following[youngest[group]] = number
            youngest[group] = number
            is_there[number] = True
            changes[row] = True
            grown += 1
        elif opcodes[row] < 0 and oldest[group] >= 0:
            is_there[oldest[group]] = False
            oldest[group] = following[oldest[group]]
            changes[row] = True
            grown -= 1
    return grown
