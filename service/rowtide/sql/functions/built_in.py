"""The names of built-in functions, which CREATE FUNCTION cannot define."""

from __future__ import annotations

from rowtide.expr.aggregates import OF_GROUPS, ONLY_OVER, SPELLED
from rowtide.expr.functions import FUNCTIONS
from rowtide.sql.expressions.aggregate_list import GROUP_WINDOWS, LATER, WINDOW_EDGES
from rowtide.sql.expressions.function_calls import PLANNED_APART
from rowtide.sql.expressions.function_forms import WRITTEN_OUT
from rowtide.sql.grammar.clauses.aggregate_forms import OTHER_NAMES

_OF_GRAMMAR = frozenset(
    {
        *("CAST", "TRY_CAST", "EXTRACT", "STEP", "DATE", "TIME", "TIMESTAMP", "INTERVAL", "CURSOR", "TABLE"),
        *("EXISTS", "CASE", "ROW", "ANY", "SOME", "ALL", "PERIOD", "ARRAY", "UNNEST", "LATERAL"),
    }
)
"""Words that the grammar reads as something other than a function, at least before a parenthesis."""
BUILT_IN = frozenset(
    {
        *_OF_GRAMMAR,
        *FUNCTIONS,
        *OF_GROUPS,
        *ONLY_OVER,
        *SPELLED,
        *GROUP_WINDOWS,
        *WINDOW_EDGES,
        *LATER,
        *PLANNED_APART,
        *WRITTEN_OUT,
        *OTHER_NAMES,
    }
)
"""The names of all built-in functions, operators, and words that are read like them."""


def is_built_in(name: str) -> bool:
    """Return whether a name, folded, is that of a built-in function."""
    return name in BUILT_IN
