"""HAVING with a sub-query: the groups go into FROM of another query, whose WHERE has it."""

from __future__ import annotations

from dataclasses import replace

from rowtide.errors import Place, StatementError
from rowtide.sql.aggregates import OF_GROUPS, WINDOW_EDGES
from rowtide.sql.scope import ROWTIME
from rowtide.sql.syntax import (
    Binary,
    ColumnRef,
    DerivedTable,
    Expression,
    FunctionCall,
    Name,
    Rounded,
    Select,
    SelectItem,
    StarItem,
    Stepped,
)
from rowtide.sql.syntax_walk import conjuncts, holds_query, replaced


def groups_in_from(select: Select) -> Select:
    """Give a grouped SELECT whose HAVING has a sub-query as a SELECT from its groups, where that is WHERE.

    Raises:
      StatementError: it sorts its groups, too.
    """
    if select.having is None:
        return select
    if select.order_by or select.distinct or select.limit is not None:
        raise StatementError(
            "a query with a sub-query in HAVING has neither ORDER BY nor DISTINCT",
            place=select.place,
            hint="Put it into FROM (..) of another one, which has them.",
        )
    inner: list[SelectItem] = []
    outer: list[SelectItem | StarItem] = []
    for position, item in enumerate(select.items):
        if isinstance(item, StarItem):
            raise StatementError("* cannot stand in a grouped query", place=item.place)
        name = _name_of(item, position)
        is_rowtime = name.text == ROWTIME
        inner.append(item if is_rowtime else replace(item, alias=name))
        outer.append(SelectItem(ColumnRef((name,), item.place), None, item.place))

    def computed(syntax: object) -> Expression | None:
        """Give the column of the groups that a part of HAVING is."""
        if isinstance(syntax, ColumnRef) and syntax.parts[-1].text == ROWTIME:
            return ColumnRef((syntax.parts[-1],), syntax.place)
        if not isinstance(syntax, ColumnRef | Rounded | Stepped) and not _is_of_group(syntax):
            return None
        if not isinstance(syntax, ColumnRef | Rounded | Stepped | FunctionCall):
            return None
        name = Name(f"$H{len(inner)}", syntax.place)
        inner.append(SelectItem(syntax, name, syntax.place))
        return ColumnRef((name,), syntax.place)

    where: Expression | None = None
    having: Expression | None = None
    for each in conjuncts(select.having):
        if holds_query(each):
            where = _both(where, replaced(each, computed), each.place)
        else:
            having = _both(having, each, each.place)
    groups = replace(select, items=tuple(inner), having=having)
    source = DerivedTable(groups, None, None, select.place)
    return Select(tuple(outer), source, select.stream, where, (), None, (), select.place)


def _is_of_group(syntax: object) -> bool:
    if not isinstance(syntax, FunctionCall):
        return False
    return syntax.over is None and syntax.name in OF_GROUPS | WINDOW_EDGES


def _both(first: Expression | None, second: Expression, place: Place) -> Expression:
    return second if first is None else Binary("AND", first, second, place)


def _name_of(item: SelectItem, position: int) -> Name:
    if item.alias is not None:
        return item.alias
    if isinstance(item.expression, ColumnRef):
        return item.expression.parts[-1]
    return Name(f"EXPR${position}", item.place)
