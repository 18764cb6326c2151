"""Changes of groups that no one sees: DELETE old, INSERT new of which all that is read is the same."""

from __future__ import annotations

import numpy as np

from rowtide.expr.columnar import compile_columns
from rowtide.expr.tree import Expr, FieldRef
from rowtide.operators.net_changes import alike, is_slow
from rowtide.plan.nodes import GroupChanges
from rowtide.rows.arrays import Mask
from rowtide.rows.tray import Tray


class ShownChanges:
    """Leaves out changes that do not change a node's ``shown`` expressions."""

    def __init__(self, node: GroupChanges) -> None:
        self._expressions = None
        if node.shown is not None:
            compared = [each for each in node.shown if not _is_of_the_key(each, node)]
            # The cheap ones first: if they differ in all rows, the others are not computed.
            compared.sort(key=lambda each: (is_slow(each.type), not isinstance(each, FieldRef)))
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
            same = same & alike(found.column, same)
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
