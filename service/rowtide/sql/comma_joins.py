"""FROM a, b WHERE a.x = b.x: what WHERE says of both sides of a join without ON is its ON.

That changes no row, only how it is found. Conditions are not moved where a missing row of an outer join would
pass by them, nor if they name ROWTIME, which means that of the joined row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rowtide.sql.scope import ROWTIME, Binding, Scope
from rowtide.sql.syntax import (
    Binary,
    BooleanLiteral,
    DerivedTable,
    Expression,
    FromItem,
    Join,
    RelationRef,
    Select,
)
from rowtide.sql.syntax_walk import columns_in, conjuncts, connected, holds_query

Leaf = RelationRef | DerivedTable
_INNER_ON = {"INNER": (True, True), "LEFT": (True, False), "RIGHT": (False, True), "FULL": (False, False)}
"""Of which sides of a join every row that comes out is one that WHERE sees as it was."""


def with_joined_where(select: Select, scope_of: Callable[[Leaf], Scope]) -> Select:
    """Give the SELECT with conditions of WHERE in the joins that have none; ``scope_of`` is of one relation.

    Raises:
      StatementError: a column of such a condition is ambiguous.
    """
    if select.where is None or not _has_cross(select.source):
        return select
    pending = list(conjuncts(select.where))
    moved: list[Expression] = []

    def visit(item: FromItem, *, inner: bool) -> tuple[FromItem, tuple[Binding, ...]]:
        if not isinstance(item, Join):
            return item, scope_of(item).bindings
        on_left, on_right = _INNER_ON[item.kind]
        left, lefts = visit(item.left, inner=inner and on_left)
        right, rights = visit(item.right, inner=inner and on_right)
        item = replace(item, left=left, right=right)
        if inner and _is_cross(item):
            for each in [each for each in pending if _joins(each, Scope(lefts), Scope(rights))]:
                pending.remove(each)
                moved.append(each)
                before = item.condition
                plain = isinstance(before, BooleanLiteral)
                item = replace(item, condition=each if plain else Binary("AND", before, each, each.place))
        return item, (*lefts, *rights)

    source, bindings = visit(select.source, inner=True)
    for each in moved:
        for column in columns_in(each):
            Scope(bindings).resolve(column)
    return replace(select, source=source, where=connected(pending))


def _joins(condition: Expression, left: Scope, right: Scope) -> bool:
    """Tell whether a condition names both sides and nothing else."""
    columns = list(columns_in(condition))
    if holds_query(condition) or any(column.parts[-1].text == ROWTIME for column in columns):
        return False
    of_left = [left.resolves(column) for column in columns]
    of_right = [right.resolves(column) for column in columns]
    either = all(one or other for one, other in zip(of_left, of_right, strict=True))
    return either and any(of_left) and any(of_right)


def _is_cross(join: Join) -> bool:
    plain = isinstance(join.condition, BooleanLiteral) and join.condition.value is True
    return plain and join.kind == "INNER" and join.using is None


def _has_cross(item: FromItem) -> bool:
    return isinstance(item, Join) and (_is_cross(item) or _has_cross(item.left) or _has_cross(item.right))
