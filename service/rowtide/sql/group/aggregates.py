"""The aggregates of a grouped query, and what else GROUP BY names."""

from __future__ import annotations

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.aggregates import AGGREGATES
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.rows.types import Type

LATER = frozenset(
    {"NTH_VALUE", "COVAR_POP", "COVAR_SAMP", "CORR", "EXP_AVG", "COLLECT", "APPROX_COUNT_DISTINCT"}
)
"""Aggregates that are not there yet."""
GROUP_WINDOWS = frozenset({"TUMBLE", "HOP", "SESSION"})
"""What cuts groups by time, in GROUP BY only."""
WINDOW_EDGES = frozenset(f"{name}_{edge}" for name in GROUP_WINDOWS for edge in ("START", "END"))
"""The edges of the window that GROUP BY names, in the select list and HAVING."""


def result_type(function: str, argument: Type | None, place: SourceSpan) -> Type:
    """Return the type of an aggregate's result (docs/sql/semantics.md#numbers).

    Raises:
      StatementError: the aggregate does not take this type.
    """
    if argument is None and function != "COUNT":
        raise StatementError(f"{function} takes one argument", place=place)
    found = AGGREGATES[function].result(argument)
    if found is None:
        raise StatementError(f"{function} does not take {argument}", place=place)
    return found


class AggregateList:
    """The aggregates that one grouped query needs, each once.

    They are the fields from ``first`` on of the group's row, in the order in which they are noted.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self.calls: list[AggregateCall] = []

    def reference(self, call: AggregateCall) -> FieldRef:
        """Return the field of the group's row that holds ``call``, noting it if it is new."""
        if call not in self.calls:
            self.calls.append(call)
        return FieldRef(self._first + self.calls.index(call), call.type)
