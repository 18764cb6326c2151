"""The aggregates of groups with changes, and the values that they take of a row."""

from __future__ import annotations

from rowtide.expr.aggregates import aggregate_of
from rowtide.expr.tree import AggregateCall, Expr, FieldRef
from rowtide.operators.aggregates.changes.change_functions import limit_of, make, takes_rows
from rowtide.operators.aggregates.row_functions import WindowFunction
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType


class GroupCall:
    """One aggregate, and the values that it takes of a row."""

    def __init__(self, call: AggregateCall, row_type: RowType, *, of_changes: bool) -> None:
        self.call = call
        aggregate = aggregate_of(call)
        self.fallible = aggregate.can_fail and not aggregate.between
        self._row_type = row_type
        self._of_changes = of_changes
        self._by_row = of_changes and takes_rows(call)
        self.never = limit_of(call)
        self._argument = _index(call.argument)
        self._condition = _index(call.condition)
        self._nulls = aggregate.counts_nulls(call)
        # Both zeros are one value: which of them is left must not matter.
        self._signless = of_changes and call.argument is not None and call.argument.type.is_float

    def takes(self, row: Row) -> bool:
        """Return whether the aggregate uses a row."""
        if self._condition is not None and row[self._condition] is not True:
            return False
        return self._argument is None or self._nulls or row[self._argument] is not None

    def function(self) -> WindowFunction:
        """Make the function of a new group."""
        return make(self.call, self._row_type, of_changes=self._of_changes)

    def value(self, row: Row) -> object:
        """Return the argument of the function for a row that it uses."""
        if self._argument is None:
            return True
        if self._by_row:
            return row
        value = row[self._argument]
        return value + 0.0 if self._signless and isinstance(value, float) else value


def _index(expr: Expr | None) -> int | None:
    """Return the input field of an aggregate's argument or condition: a Project below has computed it."""
    return expr.index if isinstance(expr, FieldRef) else None
