"""FROM a, b WHERE a.x = b.x: conditions of WHERE on both sides of a join without ON become its ON.

This does not change the result, only how rows are matched. A condition stays in WHERE if the missing row of
an outer join would bypass it in ON, or if it names ROWTIME, which is that of the joined row. A condition that
can fail is moved with the conditions before it, which guard it; these stay in WHERE, too.

Conditions on the ROWTIMEs of two streams, ``b.ROWTIME <= a.ROWTIME + INTERVAL '1' MINUTE``, can be the limit that
their join needs. So if neither has a window, an inner join also takes these, and takes them if it has an ON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from rowtide.errors import StatementError
from rowtide.expr.failing import can_fail
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.scope import ROWTIME, Binding, NameScope
from rowtide.sql.grammar.syntax import (
    Between,
    Binary,
    BooleanLiteral,
    DerivedTable,
    Expression,
    FromItem,
    Join,
    JsonRows,
    RelationRef,
    Select,
)
from rowtide.sql.grammar.syntax_walk import columns_in, conjuncts, connected, holds_query
from rowtide.sql.join.json_rows import columns_of

JoinLeaf = RelationRef | DerivedTable
_INNER_ON = {"INNER": (True, True), "LEFT": (True, False), "RIGHT": (False, True), "FULL": (False, False)}
"""The sides of a join whose rows reach WHERE unchanged."""
_COMPARED = ("<", "<=", ">", ">=", "=")


def with_joined_where(select: Select, scope_of: Callable[[JoinLeaf], NameScope]) -> Select:
    """Return the SELECT with conditions of WHERE moved to joins without ON; ``scope_of`` is for one relation.

    Raises:
      StatementError: a column of such a condition is ambiguous.
    """
    if select.where is None or not (_has_cross(select.source) or _may_limit(select)):
        return select
    pending = list(conjuncts(select.where))
    moved: list[Expression] = []

    def visit(item: FromItem, *, inner: bool) -> tuple[FromItem, tuple[Binding, ...]]:
        if isinstance(item, JsonRows):
            left, lefts = visit(item.left, inner=inner)
            return replace(item, left=left), (*lefts, columns_of(item, 0))
        if not isinstance(item, Join):
            return item, scope_of(item).bindings
        on_left, on_right = _INNER_ON[item.kind]
        left, lefts = visit(item.left, inner=inner and on_left)
        right, rights = visit(item.right, inner=inner and on_right)
        item = replace(item, left=left, right=right)
        streams = item.kind == "INNER" and _without_window(item) and _are_streams(lefts, rights)
        if inner and (streams or _is_cross(item)):
            scopes = NameScope(lefts), NameScope(rights)
            joining = [each for each in pending if _joins(each, *scopes, of_streams=streams)]
            condition = connected(_guarded(joining, pending, NameScope((*lefts, *rights))))
            for each in joining:
                pending.remove(each)
                moved.append(each)
            if condition is not None and not _is_true(item):
                condition = Binary("AND", item.condition, condition, item.condition.place)
            item = item if condition is None else replace(item, condition=condition)
        return item, (*lefts, *rights)

    source, bindings = visit(select.source, inner=True)
    for each in moved:
        for column in columns_in(each):
            NameScope(bindings).resolve(column)
    return replace(select, source=source, where=connected(pending))


def _guarded(joining: list[Expression], pending: list[Expression], scope: NameScope) -> Iterator[Expression]:
    """Yield conditions of a join; before one that can fail, the conditions of WHERE that guard it."""
    failing = [at for at, each in enumerate(pending) if each in joining and _can_fail(each, scope)]
    last = max(failing, default=-1)
    for at, each in enumerate(pending):
        if each in joining or (at < last and _can_move(each) and all(map(scope.resolves, columns_in(each)))):
            yield each


def _can_fail(condition: Expression, scope: NameScope) -> bool:
    """Return whether a condition can reject a row. Its planning reports errors."""
    try:
        return can_fail(ExpressionPlanner(scope, "WHERE").condition(condition))
    except StatementError:
        return False


def _can_move(condition: Expression, *, of_streams: bool = False) -> bool:
    """Return whether a condition means the same in ON as in WHERE; ``of_streams``: each side has its own ROWTIME."""
    names = [column.parts for column in columns_in(condition)]
    joined = any(parts[-1].text == ROWTIME and not (of_streams and parts[:-1]) for parts in names)
    return not holds_query(condition) and not joined


def _joins(condition: Expression, left: NameScope, right: NameScope, *, of_streams: bool) -> bool:
    """Return whether a condition names exactly both sides."""
    columns = list(columns_in(condition))
    if not _can_move(condition, of_streams=of_streams):
        return False
    of_left = [left.resolves(column) for column in columns]
    of_right = [right.resolves(column) for column in columns]
    either = all(one or other for one, other in zip(of_left, of_right, strict=True))
    return either and any(of_left) and any(of_right)


def _may_limit(select: Select) -> bool:
    """Return whether WHERE compares columns of two relations of an inner join without windows."""
    item = select.source
    while isinstance(item, Join):
        if item.kind == "INNER" and _without_window(item):
            return any(map(_compares_two, conjuncts(select.where)))
        item = item.left
    return False


def _compares_two(condition: Expression) -> bool:
    compares = isinstance(condition, Between) or (
        isinstance(condition, Binary) and condition.operator in _COMPARED
    )
    return compares and len({column.parts[:-1] for column in columns_in(condition)}) > 1


def _without_window(join: Join) -> bool:
    sides = (join.left, join.right)
    windows = (each.window for each in sides if isinstance(each, RelationRef | DerivedTable))
    return join.within is None and not any(windows)


def _are_streams(*sides: tuple[Binding, ...]) -> bool:
    return all(any(binding.has_rowtime for binding in side) for side in sides)


def _is_cross(join: Join) -> bool:
    return _is_true(join) and join.kind == "INNER" and join.using is None


def _is_true(join: Join) -> bool:
    return isinstance(join.condition, BooleanLiteral) and join.condition.value is True


def _has_cross(item: FromItem) -> bool:
    if isinstance(item, JsonRows):
        return _has_cross(item.left)
    return isinstance(item, Join) and (_is_cross(item) or _has_cross(item.left) or _has_cross(item.right))
