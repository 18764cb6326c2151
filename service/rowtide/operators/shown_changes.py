"""Changes of groups that no one sees: DELETE old, INSERT new of which all that is read is the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rowtide.expr.columnar import compile_columns
from rowtide.plan.nodes import GroupChanges
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray

Pairs = NDArray[np.int64]


class ShownChanges:
    """Leaves out changes that do not change a node's ``shown`` expressions."""

    def __init__(self, node: GroupChanges) -> None:
        self._expressions = None if node.shown is None else [compile_columns(each) for each in node.shown]

    def of(self, tray: Tray | None, paired: Mask) -> Tray | None:
        """Return the visible changes, or None.

        ``paired``: a DELETE, followed by the INSERT of the same group that the same input row has caused.
        """
        if tray is None or self._expressions is None or not paired.any():
            return tray
        first = np.flatnonzero(paired)
        same = np.ones(len(first), dtype=np.bool_)
        for expression in self._expressions:
            found = expression(tray)
            same &= _alike(found.column, first)
            if found.errors is not None:
                failed = found.errors.mask(len(tray))
                same &= ~failed[first] & ~failed[first + 1]
        if not same.any():
            return tray
        keep = np.ones(len(tray), dtype=np.bool_)
        keep[first[same]] = keep[first[same] + 1] = False
        return tray.where(keep) if keep.any() else None


def _alike(column: Column, first: Pairs) -> Mask:
    """Return the rows whose next row has exactly the same value: zeros have signs."""
    before, after = column.take(first), column.take(first + 1)
    if column.type.is_variable_width or column.type.dtype == object:
        pairs = zip(before.to_list(), after.to_list(), strict=True)
        return np.array([one == other for one, other in pairs], dtype=np.bool_)
    was, is_now = before.valid_mask(), after.valid_mask()
    one, other = before.values, after.values
    if column.type.is_float:
        one, other = one.astype(np.float64).view(np.int64), other.astype(np.float64).view(np.int64)
    return np.asarray((was == is_now) & (~was | (one == other)))
