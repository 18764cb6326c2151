"""The aggregates of a grouped query: which names are aggregates, and their result types."""

from __future__ import annotations

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.tree import AggregateCall, FieldRef
from rowtide.rows.types import (
    BIGINT,
    DOUBLE,
    MAX_DECIMAL_PRECISION,
    VARCHAR,
    Kind,
    Type,
    decimal,
)

AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG"})
LATER = frozenset(
    {"NTH_VALUE", "COVAR_POP", "COVAR_SAMP", "CORR", "EXP_AVG", "COLLECT", "APPROX_COUNT_DISTINCT"}
)
"""Aggregates that are not there yet."""
ONLY_OVER = frozenset(
    {"ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD", "NTILE", "PERCENT_RANK", "CUME_DIST"}
)
SPREADS = {
    "STDDEV": "STDDEV_SAMP",
    "VARIANCE": "VAR_SAMP",
    **{name: name for name in ("STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP")},
}
"""Variances and their roots, by each of their names."""
PERCENTILES = frozenset({"PERCENTILE_CONT", "PERCENTILE_DISC"})
"""What is written ``PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)``."""
TRUTHS = frozenset({"EVERY", "BOOL_AND", "BOOL_OR"})
_ONE_OF_THEM = frozenset({"FIRST_VALUE", "LAST_VALUE", "ANY_VALUE", "MODE", "PERCENTILE_DISC", "MIN", "MAX"})
"""Their result is one of the values."""
LISTS = frozenset({"LISTAGG", "STRING_AGG"})
"""Text put together; what stands for either in a plan is LISTAGG, or SORTED_LISTAGG."""
OVER_VALUES = PERCENTILES | TRUTHS | {"MEDIAN", "MODE", "ANY_VALUE"}
"""What works over windows, too, and looks at all values there."""
NEVER_DISTINCT = (_ONE_OF_THEM | TRUTHS) - {"MODE", "PERCENTILE_DISC"}
"""It makes no difference to these how often a value comes."""
OF_GROUPS = AGGREGATES | PERCENTILES | TRUTHS | _ONE_OF_THEM | frozenset(SPREADS) | LISTS | {"MEDIAN"}
"""All that GROUP BY knows; some of them work over windows, too."""
GROUP_WINDOWS = frozenset({"TUMBLE", "HOP", "SESSION"})
"""What cuts groups by time, in GROUP BY only."""
WINDOW_EDGES = frozenset(f"{name}_{edge}" for name in GROUP_WINDOWS for edge in ("START", "END"))
"""The edges of the window that GROUP BY names, in the select list and HAVING."""
AVG_SCALE = 6
"""The least digits behind the point that AVG of exact numbers has (docs/sql/semantics.md#numbers)."""


def result_type(function: str, argument: Type | None, place: SourceSpan) -> Type:
    """Return the type of an aggregate's result (docs/sql/semantics.md#numbers).

    Raises:
      StatementError: the aggregate does not take this type.
    """
    if function == "COUNT":
        return BIGINT
    if argument is None:
        raise StatementError(f"{function} takes one argument", place=place)
    if function in ("LISTAGG", "SORTED_LISTAGG"):
        return VARCHAR
    if function in _ONE_OF_THEM:
        return argument
    if function in TRUTHS and argument.kind is Kind.BOOLEAN:
        return argument
    if (argument.is_float and function not in TRUTHS) or (function in SPREADS and argument.is_numeric):
        return DOUBLE
    if function == "SUM" and argument.is_integer:
        return BIGINT
    if function in ("SUM", "AVG", "MEDIAN", "PERCENTILE_CONT") and argument.is_exact:
        scale = argument.scale if function == "SUM" else max(AVG_SCALE, argument.scale)
        return decimal(MAX_DECIMAL_PRECISION, scale)
    raise StatementError(f"{function} does not take {argument}", place=place)


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
