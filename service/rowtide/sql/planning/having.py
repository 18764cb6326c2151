"""HAVING with a sub-query: the groups become the FROM of another query, and HAVING its WHERE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rowtide.errors import StatementError
from rowtide.sql.expressions.aggregate_list import WINDOW_EDGES, star_of_groups
from rowtide.sql.expressions.scope import ROWTIME, NameScope
from rowtide.sql.grammar.syntax import (
    ColumnRef,
    DerivedTable,
    Expression,
    FromItem,
    FunctionCall,
    Join,
    JsonRows,
    Name,
    Rounded,
    Select,
    SelectItem,
    StarItem,
    Stepped,
    is_aggregate,
)
from rowtide.sql.grammar.syntax_walk import conjuncts, connected, holds_query, replaced
from rowtide.sql.join.comma_joins import JoinLeaf
from rowtide.sql.join.json_rows import columns_of
from rowtide.sql.relations.relations import unnamed
from rowtide.sql.subquery.lazy_parts import may_fail


def groups_in_from(select: Select, scope_of: Callable[[JoinLeaf], NameScope]) -> Select:
    """Rewrite a grouped SELECT with a sub-query in HAVING as a SELECT from its groups with WHERE.

    ``scope_of`` returns the scope of one relation.

    Raises:
      StatementError: the query also sorts its groups.
    """
    if select.having is None:
        return select
    if select.order_by or select.distinct or select.limit is not None:
        raise StatementError(
            "a query with a sub-query in HAVING cannot have ORDER BY or DISTINCT",
            span=select.place,
            hint="Put it into FROM (..) of another query, which has them.",
        )
    inner: list[SelectItem] = []
    outer: list[SelectItem | StarItem] = []
    for position, item in enumerate(select.items):
        if isinstance(item, StarItem):
            raise star_of_groups(item.place)
        name = _name_of(item, position)
        is_rowtime = name.text == ROWTIME
        inner.append(item if is_rowtime else replace(item, alias=name))
        outer.append(SelectItem(ColumnRef((name,), item.place), None, item.place))

    def computed(syntax: object) -> Expression | None:
        """Return the column of the groups that replaces a part of HAVING."""
        if isinstance(syntax, ColumnRef) and syntax.parts[-1].text == ROWTIME:
            return ColumnRef((syntax.parts[-1],), syntax.place)
        if not isinstance(syntax, ColumnRef | Rounded | Stepped) and not _is_of_group(syntax):
            return None
        if not isinstance(syntax, ColumnRef | Rounded | Stepped | FunctionCall):
            return None
        name = Name(f"$H{len(inner)}", syntax.place)
        inner.append(SelectItem(syntax, name, syntax.place))
        return ColumnRef((name,), syntax.place)

    rows = _scope(select.source, scope_of)

    def outside(syntax: object) -> object | None:
        """Return a query whose WHERE names the columns that replace terms of the outer groups."""
        if isinstance(syntax, Select) and syntax.where is not None:
            own = _scope(syntax.source, scope_of)

            def named(part: object) -> Expression | None:
                if not isinstance(part, ColumnRef) or own.resolves(part) or not rows.resolves(part):
                    return None
                return computed(part)

            return replace(syntax, where=replaced(syntax.where, named))
        return computed(syntax)

    having: list[Expression] = []
    where: list[Expression] = []
    for each in conjuncts(select.having):
        known = len(inner)
        condition = replaced(each, outside)
        # A condition that can fail stays after the sub-queries that guard it.
        if holds_query(each) or (where and may_fail(condition)):
            where.append(condition)
        else:
            del inner[known:]
            having.append(each)
    groups = replace(select, items=tuple(inner), having=connected(having))
    source = DerivedTable(groups, None, None, select.place)
    return Select(tuple(outer), source, select.stream, connected(where), (), None, (), select.place)


def _scope(source: FromItem, scope_of: Callable[[JoinLeaf], NameScope]) -> NameScope:
    """Return the scope of a FROM, without checks of its joins."""
    if isinstance(source, Join):
        sides = (_scope(source.left, scope_of), _scope(source.right, scope_of))
        return NameScope(tuple(each for side in sides for each in side.bindings))
    if isinstance(source, JsonRows):
        read = _scope(source.left, scope_of)
        return NameScope((*read.bindings, columns_of(source, 0)))
    return scope_of(source)


def _is_of_group(syntax: object) -> bool:
    if not isinstance(syntax, FunctionCall):
        return False
    return is_aggregate(syntax) or (syntax.over is None and syntax.name in WINDOW_EDGES)


def _name_of(item: SelectItem, position: int) -> Name:
    if item.alias is not None:
        return item.alias
    if isinstance(item.expression, ColumnRef):
        return item.expression.parts[-1]
    return Name(unnamed(position), item.place)
