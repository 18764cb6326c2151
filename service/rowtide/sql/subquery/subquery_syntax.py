"""Rewrites of sub-queries as syntax: with other columns, distinct rows, or grouped by their equalities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.grammar.syntax import (
    Binary,
    BooleanLiteral,
    ColumnRef,
    DerivedTable,
    Expression,
    FromItem,
    FunctionCall,
    Join,
    JsonRows,
    Name,
    NumberLiteral,
    QuerySyntax,
    RelationRef,
    Select,
    SelectItem,
    is_aggregate,
)
from rowtide.sql.grammar.syntax_walk import columns_in, conjuncts, connected, replaced
from rowtide.sql.group.grouped_expressions import has_aggregate

VALUE, COUNT, KNOWN = "$V", "$N", "$C"
"""Names of columns of a sub-query without a name in the text."""

Pair = tuple[Expression, Expression]
"""An equality of a sub-query: its own expression, and an expression of the outer query."""


@dataclass(frozen=True, slots=True)
class Inner:
    """A sub-query without its equalities with the outer query, which are ``pairs``."""

    query: QuerySyntax
    pairs: tuple[Pair, ...]

    @property
    def select(self) -> Select | None:
        """The query, if it is one SELECT whose columns can be replaced."""
        if isinstance(self.query, Select) and self.query.limit is None and not self.query.distinct:
            return self.query
        return None

    @property
    def aggregated(self) -> Select | None:
        """The query, if it is a SELECT of aggregates of all its rows: it always returns one row."""
        return self.select if self.select is not None and is_global(self.select) else None


def over_aggregates(
    expression: Expression, name: str, span: SourceSpan
) -> tuple[Expression, list[FunctionCall]]:
    """Return an expression over columns ``$A0``, ``$A1``, .. of ``name``, and the aggregates in these columns.

    For a row without a match, COUNT is 0.
    """
    calls: list[FunctionCall] = []

    def column(syntax: object) -> Expression | None:
        if not is_aggregate(syntax):
            return None
        if syntax not in calls:
            calls.append(syntax)
        ref = column_in(name, f"$A{calls.index(syntax)}", span)
        zero = FunctionCall("COALESCE", (ref, NumberLiteral("0", span)), span)
        return zero if syntax.name == "COUNT" else ref

    return replaced(expression, column), calls


def is_aggregated(item: object) -> bool:
    """Return whether a column of a select list has an aggregate."""
    return isinstance(item, SelectItem) and has_aggregate(item.expression)


def is_global(select: Select) -> bool:
    """Return whether a SELECT has aggregates of all its rows."""
    return not select.group_by and (select.having is not None or any(map(is_aggregated, select.items)))


def unlimited(query: QuerySyntax) -> QuerySyntax:
    """Return a query that is only tested for rows, without ORDER BY and without a LIMIT above 0."""
    if not isinstance(query, Select):
        return query
    limit = query.limit
    if limit is not None and (limit.count == 0 or limit.offset):
        return query
    query = replace(query, order_by=(), limit=None, distinct=False)
    return query if query.group_by or is_global(query) else _without_kept_rows(query)


def with_outer_in_where(query: Select) -> Select:
    """Return a sub-query whose WHERE has the conditions of ON that name the outer query, where both mean the same."""
    own = set(_aliases(query.source))
    moved: list[Expression] = []

    def visit(item: FromItem, *, inner: bool) -> FromItem:
        if not isinstance(item, Join):
            return item
        left = visit(item.left, inner=inner and item.kind in ("INNER", "LEFT"))
        right = visit(item.right, inner=inner and item.kind in ("INNER", "RIGHT"))
        condition = item.condition
        outer = [each for each in conjuncts(condition) if _names_others(each, own)]
        if outer and inner and item.kind == "INNER":
            rest = connected(each for each in conjuncts(condition) if each not in outer)
            condition = rest or BooleanLiteral(True, condition.place)
            moved.extend(outer)
        return replace(item, left=left, right=right, condition=condition)

    source = visit(query.source, inner=True)
    return (
        replace(query, source=source, where=connected([*conjuncts(query.where), *moved])) if moved else query
    )


def _without_kept_rows(query: Select) -> Select:
    """Return a query that is only tested for rows, without an outer join that keeps each row, if ON names others.

    ``EXISTS (SELECT * FROM a LEFT JOIN b ON b.x = outer.x)`` asks for rows of a, whatever ON says.
    """
    source = query.source
    if not isinstance(source, Join) or source.kind != "LEFT" or source.using is not None:
        return query
    columns = () if query.where is None else tuple(columns_in(query.where))
    dropped = set(_aliases(source.right))
    if any(len(column.parts) == 1 or column.parts[-2].text in dropped for column in columns):
        return query
    if not _names_others(source.condition, dropped.union(_aliases(source.left))):
        return query
    items = (SelectItem(NumberLiteral("1", source.place), None, source.place),)
    return _without_kept_rows(replace(query, source=source.left, items=items))


def _names_others(condition: Expression, own: set[str]) -> bool:
    """Return whether a condition names a relation that is not in FROM."""
    return any(len(column.parts) > 1 and column.parts[-2].text not in own for column in columns_in(condition))


def _aliases(item: FromItem) -> Iterator[str]:
    match item:
        case Join(left=left, right=right):
            yield from _aliases(left)
            yield from _aliases(right)
        case JsonRows(left=left, alias=alias):
            yield from _aliases(left)
            yield "" if alias is None else alias.text
        case RelationRef(alias=None, name=name):
            yield name.parts[-1].text
        case RelationRef(alias=Name(text=text)) | DerivedTable(alias=Name(text=text)):
            yield text


def unordered(query: QuerySyntax) -> QuerySyntax:
    """Return a query whose values are only compared, without ORDER BY and DISTINCT if it has no LIMIT."""
    if isinstance(query, Select) and query.limit is None:
        return replace(query, order_by=(), distinct=False)
    return query


def asked_for(select: Select, pairs: Sequence[Pair], further: Sequence[tuple[str, Expression]]) -> Select:
    """Return a SELECT of its own sides of the pairs and further columns; GROUP BY also gets the own sides."""
    columns = [(key_name(at), own) for at, (own, _) in enumerate(pairs)]
    items = tuple(SelectItem(each, Name(name, each.place), each.place) for name, each in (*columns, *further))
    group_by = (*select.group_by, *(own for own, _ in pairs)) if select.group_by else ()
    return replace(select, items=items, group_by=group_by, order_by=())


def each_once(select: Select, span: SourceSpan) -> Select:
    """Return the query of the distinct rows of a SELECT."""
    if not select.group_by:
        return replace(select, distinct=True)
    names = [each.alias for each in select.items if isinstance(each, SelectItem) and each.alias is not None]
    items = tuple(SelectItem(ColumnRef((name,), span), name, span) for name in names)
    return replace(plain_select(items, DerivedTable(select, None, None, span), span), distinct=True)


def grouped_by(
    query: QuerySyntax, keys: Sequence[str], further: Sequence[tuple[str, Expression]], span: SourceSpan
) -> Select:
    """Group a query by its columns, and select these and aggregates."""
    columns = [(key, own_column(key, span)) for key in keys]
    items = tuple(SelectItem(each, Name(name, span), span) for name, each in (*columns, *further))
    grouped = plain_select(items, DerivedTable(query, None, None, span), span)
    return replace(grouped, group_by=tuple(each for _, each in columns))


def plain_select(items: tuple[SelectItem, ...], source: FromItem, span: SourceSpan) -> Select:
    """Return a SELECT of columns of a relation, and nothing else."""
    return Select(items, source, False, None, (), None, (), span)


def key_name(at: int) -> str:
    """Return the name of the ``at``-th column that must be equal."""
    return f"$K{at}"


def own_column(name: str, span: SourceSpan) -> ColumnRef:
    """Return a column of the only relation."""
    return ColumnRef((Name(name, span),), span)


def column_in(relation: str, name: str, span: SourceSpan) -> ColumnRef:
    """Return a column of a relation."""
    return ColumnRef((Name(relation, span), Name(name, span)), span)


def count_of_rows(span: SourceSpan) -> FunctionCall:
    """Return COUNT(*)."""
    return FunctionCall("COUNT", (), span, star=True)


def only_column(select: Select, span: SourceSpan) -> Expression:
    """Return the one column of a SELECT.

    Raises:
      StatementError: it has several, or *.
    """
    (first, *others) = select.items
    if others or not isinstance(first, SelectItem):
        raise (
            several_columns(len(select.items), span)
            if others
            else StatementError("the column of a sub-query must be named here", span=span)
        )
    return first.expression


def several_columns(count: int, span: SourceSpan) -> StatementError:
    """Return the error that a sub-query has more than one column."""
    return StatementError(f"a sub-query must return one column here, this one returns {count}", span=span)


def pair_of(condition: Expression, own: NameScope) -> Pair | None:
    """Return both sides of an equality between columns of the scope on one side and others on the other."""
    if not isinstance(condition, Binary) or condition.operator != "=":
        return None
    for inside, outside in ((condition.left, condition.right), (condition.right, condition.left)):
        of_inside = [own.resolves(ref) for ref in columns_in(inside)]
        if of_inside and all(of_inside) and not any(own.resolves(ref) for ref in columns_in(outside)):
            return inside, outside
    return None


def decisive(operator: str, *, every: bool) -> str:
    """Return the aggregate that decides an inequality with some, or with ``every``, value."""
    return "MIN" if (operator in ("<", "<=")) is every else "MAX"
