"""What guards an expression: it is computed only for the rows for which the conditions before it hold.

``AND`` looks no further than the first FALSE: what is not looked at cannot fail (docs/sql/expressions.md).
What a plan computes in a step of its own, before the condition that it stands in, takes its guards along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from rowtide.expr.failing import can_fail
from rowtide.expr.tree import AggregateCall, Call, Expr, Literal
from rowtide.plan.frames import WindowCall
from rowtide.sql.relations import conjunction

Aggregate = TypeVar("Aggregate", AggregateCall, WindowCall)


def filtered_first(call: Aggregate) -> Aggregate:
    """Give an aggregate whose argument is computed only for the rows that its FILTER takes."""
    if call.argument is None or call.condition is None:
        return call
    return replace(call, argument=only_where([call.condition], call.argument))


def only_where(guards: Sequence[Expr], expr: Expr) -> Expr:
    """Give an expression that is NULL, and computes nothing, where not all ``guards`` hold.

    One that cannot fail stays as it is.
    """
    guard = conjunction(guards)
    if guard is None or not can_fail(expr):
        return expr
    return Call("CASE", (guard, expr, Literal(None, expr.type)), expr.type)
