"""Guards of an expression: it is computed only for rows for which the preceding conditions hold.

``AND`` stops at the first FALSE: later conditions cannot fail (docs/sql/expressions.md). If a plan
computes an expression in an earlier step than its condition, the guards move with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from rowtide.expr.failing import can_fail
from rowtide.expr.tree import AggregateCall, Call, Expr, Literal, fields_used, uses_rowtime
from rowtide.plan.frames import WindowCall
from rowtide.rows.types import BOOLEAN
from rowtide.sql.relations.relations import conjunction, shifted

Aggregate = TypeVar("Aggregate", AggregateCall, WindowCall)


def filtered_first(call: Aggregate) -> Aggregate:
    """Return an aggregate whose argument is computed only for the rows that pass its FILTER."""
    if call.argument is None or call.condition is None:
        return call
    return replace(call, argument=only_where([call.condition], call.argument))


def only_where(guards: Sequence[Expr], expr: Expr) -> Expr:
    """Return an expression that is NULL, and computes nothing, for rows for which a guard does not hold.

    An expression that cannot fail is unchanged.
    """
    guard = conjunction(guards)
    if guard is None or not can_fail(expr):
        return expr
    return Call("CASE", (guard, expr, Literal(None, expr.type)), expr.type)


KeyPair = Callable[[Expr, int], "tuple[Expr, Expr] | None"]
"""Returns the left and right side of an equality between columns of both sides, else None."""


def keys_and_others(
    conditions: Iterable[Expr], width: int, key_pair: KeyPair, guarded: tuple[bool, bool]
) -> tuple[list[tuple[Expr, Expr]], list[Expr]]:
    """Return the keys of ON, over the fields of the left side and of the right one, and its other conditions.

    The left side has ``width`` fields. On a ``guarded`` side, keys are computed only for rows for which the
    earlier conditions on that side hold; on the other side these conditions filter the rows first.
    """
    pairs: list[tuple[Expr, Expr]] = []
    others: list[Expr] = []
    on_left: list[Expr] = []
    on_right: list[Expr] = []
    for each in conditions:
        if each == Literal(True, BOOLEAN):
            continue
        pair = key_pair(each, width)
        if pair is not None:
            left, right = pair[0], shifted(pair[1], width, -width)
            pairs.append((only_where(on_left, left), only_where(on_right, right)))
            continue
        others.append(each)
        used = fields_used(each)
        if guarded[0] and max(used, default=-1) < width:
            on_left.append(each)
        if guarded[1] and min(used, default=width) >= width and not uses_rowtime(each):
            on_right.append(shifted(each, width, -width))
    return pairs, others
