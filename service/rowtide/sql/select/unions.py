"""UNION ALL: its branches, with columns of the same names and types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rowtide.errors import StatementError
from rowtide.expr.functions import common_type
from rowtide.plan.nodes import (
    Node,
    Sort,
)
from rowtide.sql.expressions.conversions import UNTYPED_NULL, assign, cast
from rowtide.sql.expressions.scope import ROWTIME
from rowtide.sql.expressions.text_constants import compared
from rowtide.sql.grammar.syntax import (
    ColumnRef,
    OrderItem,
    QuerySyntax,
    UnionAll,
)
from rowtide.sql.relations.relations import (
    QueryShape,
    SelectOutput,
)


def branches(query: QuerySyntax) -> Iterator[QuerySyntax]:
    """Yield the queries that UNION ALL connects, in order. One with its own ORDER BY is not split."""
    if isinstance(query, UnionAll):
        for each in (query.left, query.right):
            if isinstance(each, UnionAll) and not each.order_by:
                yield from branches(each)
            else:
                yield each
    else:
        yield query


def align(shapes: Sequence[QueryShape], operation: str) -> tuple[list[QueryShape], list[list[SelectOutput]]]:
    """Return the queries with the same columns, by position, and the columns one by one.

    Raises:
      StatementError: the numbers of columns differ, or their types have no common type.
    """
    for shape in shapes:
        if shape.changelog is not shapes[0].changelog:
            raise StatementError(
                f"{operation} cannot combine a stream with a table: one of these queries returns rows, the "
                "other changes",
                span=shape.place,
            )
        if len(shape.fields) != len(shapes[0].fields):
            raise StatementError(
                f"the queries of a {operation.split(maxsplit=1)[0]} give {len(shapes[0].fields)} and "
                f"{len(shape.fields)} columns",
                span=shape.place,
            )
    columns = [_alike(each) for each in zip(*(shape.fields for shape in shapes), strict=True)]
    aligned = []
    for side, shape in enumerate(shapes):
        fields = iter([column[side] for column in columns])
        outputs = tuple(each if each.is_rowtime else next(fields) for each in shape.outputs)
        aligned.append(replace(shape, outputs=outputs))
    return aligned, columns


def _alike(column: Sequence[SelectOutput]) -> list[SelectOutput]:
    """Return the column of each branch with one name, one type and one nullability."""
    typed = [output for output in column if output.expr != UNTYPED_NULL]
    if not typed:
        return list(column)
    exprs = iter(compared([each.expr for each in typed], [each.place for each in typed]))
    column = [each if each.expr == UNTYPED_NULL else replace(each, expr=next(exprs)) for each in column]
    known = [output.expr.type for output in column if output.expr != UNTYPED_NULL]
    try:
        of = common_type(known)
    except StatementError as error:
        error.place = error.place or column[-1].place
        raise
    nullable = any(output.nullable for output in column)
    given = []
    for output in column:
        expr = output.expr
        if expr == UNTYPED_NULL:
            expr = assign(expr, of, "", output.place)
        elif expr.type != of:
            expr = cast(expr, of, output.place)
        given.append(replace(output, name=column[0].name, expr=expr, nullable=nullable))
    return given


def ordered_union(node: Node, relation: str, item: OrderItem) -> Node:
    """Add the t-sort of a UNION's own ORDER BY."""
    expression = item.expression
    of_rowtime = isinstance(expression, ColumnRef) and [each.text for each in expression.parts] == [ROWTIME]
    if item.descending or not of_rowtime:
        raise StatementError("ORDER BY of a UNION ALL takes only ROWTIME, for now", span=item.place)
    return node if item.within_ms is None else Sort(relation, node, item.within_ms)
