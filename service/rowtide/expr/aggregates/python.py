"""Aggregates in Python, as CREATE AGGREGATE FUNCTION declares them (docs/sql/functions.md).

The value of one in a plan is its state. The order of rows matters to it, because no one knows that it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from rowtide.expr.aggregates.aggregate import Aggregate, Calling
from rowtide.expr.functions.arguments import PACKED
from rowtide.expr.python.states import KEPT_FUNCTIONS, aggregator_of
from rowtide.expr.tree import PythonAggregate
from rowtide.rows.types import Type


@lru_cache(KEPT_FUNCTIONS)
def in_python(of: PythonAggregate) -> Aggregate:
    """Return the declaration of an aggregate in Python."""

    def state(argument: Type | None) -> Type | None:
        return None if argument is None else PACKED

    def folded(call: Calling, values: Sequence[Any]) -> object:
        del call
        return aggregator_of(of).folded(values)

    return Aggregate(
        of.name,
        "",
        state,
        spellings=(),
        order_matters=True,
        few_of_rows=True,
        few_of_changes=of.retracts,
        can_fail=True,
        undoes=True,
        of_values=folded,
    )
