"""Replacing and deleting the rows of a table by key, one rowop after the other."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Int8s = NDArray[np.int8]


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
    """Apply rowops to the table and write its changelog; give how many rowops that has.

    ``current`` has the number of each key's row, -1 for none; the rowops' own rows are numbered from
    ``first``. What is written is the rowop that caused it, the number of the row and the opcode. A
    group of -1 is passed over.
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
