"""Sub-queries over a stream with a window: for each row, aggregates of the rows in its window.

``EXISTS (SELECT * FROM t OVER (RANGE INTERVAL '1' MINUTE FOLLOWING) AS t WHERE t.id = s.id)``: each row gets
a number and is left-joined with the window's rows; then the pairs are grouped by this number. The row comes
out when no further row can arrive in its window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.tree import Call, Expr, FieldRef, renumbered
from rowtide.plan.frames import CURRENT_ROW, Frame, WindowCall
from rowtide.plan.nodes import Node, WindowAggregate
from rowtide.rows.types import BIGINT, BOOLEAN, TIMESTAMP, Field, RowType
from rowtide.rowtime.period import Period, PeriodEdge
from rowtide.sql.expressions.aggregate_list import AggregateList
from rowtide.sql.expressions.scope import Binding, NameScope
from rowtide.sql.from_clause.joins import FromPlanner, PlannedFrom
from rowtide.sql.grammar.syntax import (
    ColumnRef,
    DerivedTable,
    Expression,
    FunctionCall,
    Name,
    QuerySyntax,
    RelationRef,
    Select,
)
from rowtide.sql.grammar.syntax_walk import conjuncts, connected, parts_of, replaced
from rowtide.sql.group.group_nodes import group_rows
from rowtide.sql.group.grouped_expressions import GroupedPlanner
from rowtide.sql.relations.relations import can_be_null, conjunction, project, unique_names
from rowtide.sql.subquery.lazy_parts import may_fail

EXACT = Period(PeriodEdge.EXACT)


@dataclass(frozen=True, slots=True)
class Windowed:
    """A sub-query over one stream with a window, ``source``; ``where`` is its WHERE."""

    select: Select
    source: RelationRef | DerivedTable


def windowed(query: QuerySyntax) -> Windowed | None:
    """Return a sub-query that reads one relation with a window; None for any other."""
    if not isinstance(query, Select) or query.group_by or query.having is not None or query.limit is not None:
        return None
    source = query.source
    if isinstance(source, RelationRef | DerivedTable) and source.window is not None:
        return Windowed(query, source)
    return None


def looked_at_where(
    window: Windowed, calls: Sequence[FunctionCall], guards: Sequence[Expression], outer: NameScope
) -> Windowed:
    """Return a window that has no rows unless all ``guards`` on the rows of ``outer`` hold.

    The window is unchanged if neither its WHERE nor the argument of an aggregate can fail.
    """
    where = list(conjuncts(window.select.where))
    if not guards or not any(map(may_fail, [*where, *(part for call in calls for part in parts_of(call))])):
        return window

    def qualified(syntax: object) -> ColumnRef | None:
        # The window can have a column of the same name.
        if not isinstance(syntax, ColumnRef) or len(syntax.parts) > 1:
            return None
        owner = next((each for each in outer.bindings if NameScope((each,)).resolves(syntax)), None)
        return None if owner is None else replace(syntax, parts=(Name(owner.alias), *syntax.parts))

    whole = connected([*(replaced(each, qualified) for each in guards), *where])
    return replace(window, select=replace(window.select, where=whole))


def with_aggregates(
    relation: str,
    from_planner: FromPlanner,
    read: PlannedFrom,
    inner: Windowed,
    calls: Sequence[FunctionCall],
    binding_name: str,
    span: SourceSpan,
) -> PlannedFrom:
    """Return each row with aggregates of the rows of its window that satisfy WHERE.

    The aggregates are the columns ``$A0``, ``$A1``, .. of a relation called ``binding_name``.

    Raises:
      StatementError: the outer query reads a table, or an aggregate or WHERE cannot be planned.
    """
    if read.changelog:
        raise StatementError(
            "a sub-query in a query over tables must read tables, this one reads a stream", span=span
        )
    numbered = _numbered(relation, read.node)
    pairs = from_planner.windowed(replace(read, node=numbered), inner.source, inner.select.where, span)
    own = pairs.scope.bindings[-1].rowtime_field
    if own is None:
        raise StatementError("a window is allowed only on a stream", span=span)
    met = Call("IS NOT NULL", (FieldRef(own, TIMESTAMP),), BOOLEAN)
    aggregates = AggregateList(0)
    planner = GroupedPlanner(pairs.scope, "a sub-query", {}, aggregates, exact=True, edges=_no_edge)
    # A result may be computed from a field: that of MAX_BY from a pair, that of an aggregate in Python from a state.
    results = [planner.plan(call) for call in calls]
    conditioned = [
        replace(each, condition=met if each.condition is None else conjunction([met, each.condition]))
        for each in aggregates.calls
    ]
    width = len(read.node.row_type)
    keys: list[Expr] = [FieldRef(at, field.type) for at, field in enumerate(numbered.row_type)]
    grouped = group_rows(relation, pairs.node, EXACT, keys, conditioned)
    fields = tuple(read.node.row_type)
    first = 1 + len(keys)
    moved = {at: first + at for at in range(len(conditioned))}
    given = [
        Field(f"$A{at}", found.type, can_be_null(renumbered(found, moved), grouped.row_type))
        for at, found in enumerate(results)
    ]
    expressions: list[Expr] = [FieldRef(1 + at, field.type) for at, field in enumerate(fields)]
    expressions += [renumbered(found, moved) for found in results]
    names = unique_names([*(field.name for field in fields), *(field.name for field in given)])
    row_type = RowType(
        tuple(replace(field, name=name) for field, name in zip((*fields, *given), names, strict=True))
    )
    node = project(relation, grouped, tuple(expressions), row_type)
    binding = Binding((binding_name,), RowType(tuple(given)), width, has_rowtime=False, hidden=len(given))
    return PlannedFrom(node, NameScope((*read.scope.bindings, binding), read.scope.merged), changelog=False)


def _numbered(relation: str, node: Node) -> WindowAggregate:
    """Return the rows with numbers, so that equal rows stay distinct."""
    name = unique_names([*node.row_type.names, "$ROW"])[-1]
    fields = (*node.row_type, Field(name, BIGINT, nullable=False))
    number = WindowCall("ROW_NUMBER", None, BIGINT)
    return WindowAggregate(relation, node, (), EXACT, Frame(end=CURRENT_ROW), (number,), RowType(fields))


def _no_edge(call: FunctionCall) -> Expr:
    raise StatementError(f"{call.name} is not allowed in a sub-query", span=call.place)
