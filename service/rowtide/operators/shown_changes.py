"""Changes of groups that no one sees: DELETE old, INSERT new of which all that is read is the same."""

from __future__ import annotations

import numpy as np

from rowtide.expr.columnar import compile_columns
from rowtide.expr.tree import Expr, FieldRef
from rowtide.plan.nodes import GroupChanges
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rows.types import Type


class ShownChanges:
    """Leaves out changes that do not change a node's ``shown`` expressions."""

    def __init__(self, node: GroupChanges) -> None:
        self._expressions = None
        if node.shown is not None:
            compared = [each for each in node.shown if not _is_of_the_key(each, node)]
            # The cheap ones first: if they differ in all rows, the others are not computed.
            compared.sort(key=lambda each: (_is_slow(each.type), not isinstance(each, FieldRef)))
            self._expressions = [compile_columns(each) for each in compared]

    def of(self, tray: Tray | None, paired: Mask) -> Tray | None:
        """Return the visible changes, or None.

        ``paired``: a DELETE, followed by the INSERT of the same group that the same input row has caused.
        """
        if tray is None or self._expressions is None or not paired.any():
            return tray
        # Of each row: whether it and the next one are such a pair, and alike so far. To compare all neighbours
        # is quicker than to take the pairs out.
        same = paired[:-1]
        for expression in self._expressions:
            found = expression(tray)
            same = same & _alike(found.column, same)
            if found.errors is not None:
                failed = found.errors.mask(len(tray))
                same &= ~(failed[:-1] | failed[1:])
            if not same.any():
                return tray
        keep = np.ones(len(tray), dtype=np.bool_)
        keep[:-1] &= ~same
        keep[1:] &= ~same
        return tray.where(keep) if keep.any() else None


def _is_of_the_key(expression: Expr, node: GroupChanges) -> bool:
    """Return whether an expression is the same in all rows of a group: a key that has one form of each value."""
    keys = node.key_fields() or ()
    return isinstance(expression, FieldRef) and expression.index in keys and not expression.type.is_float


def _is_slow(kind: Type) -> bool:
    return kind.is_variable_width or kind.dtype == object


def _alike(column: Column, wanted: Mask) -> Mask:
    """Return the rows whose next row has exactly the same value: zeros have signs. Only the wanted ones count."""
    if _is_slow(column.type):
        alike = np.zeros(len(wanted), dtype=np.bool_)
        first = np.flatnonzero(wanted)
        pairs = zip(column.take(first).to_list(), column.take(first + 1).to_list(), strict=True)
        alike[first] = [one == other for one, other in pairs]
        return alike
    values = column.values
    if column.type.is_float:
        values = values.view(f"i{values.itemsize}")
    alike = np.asarray(values[1:] == values[:-1])
    if column.valid is None:
        return alike
    was, is_now = column.valid[:-1], column.valid[1:]
    return np.asarray((was == is_now) & (~was | alike))
