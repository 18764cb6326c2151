"""DISTINCT, UNION, EXCEPT and INTERSECT: of streams within a period, or of tables.

See docs/sql/semantics.md#distinct-and-order-by-within-a-period, #set-operations.

One column, the same one in every query, is a period of ROWTIME. Each query first emits its distinct rows at
the end of the period, with this end as ROWTIME. Then rows with equal ROWTIME are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.functions import resolve
from rowtide.expr.tree import AggregateCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.nodes import Filter, GroupByPeriod, GroupChanges, Merge, Node
from rowtide.rows.types import INTEGER, TIMESTAMP, Field, RowType, Type
from rowtide.rowtime.period import Period, PeriodEdge
from rowtide.sql.catalog.objects import Retention
from rowtide.sql.group.changes import limited
from rowtide.sql.group.group_windows import period_of
from rowtide.sql.select.relations import Closed, QueryShape, SelectOutput, project, projected, unique_names

SIDE = "$SIDE"
"""The field with the number of the query of EXCEPT or INTERSECT that a row comes from: 0 is the first."""
EXACT = Period(PeriodEdge.EXACT)


def closed_by_period(shape: QueryShape, relation: str, what: str) -> QueryShape:
    """Return the rows of ``shape``, each once in a period; ``what`` names the clause.

    Raises:
      StatementError: none of its columns is a period of ROWTIME.
    """
    found = shape.closed or _period_column(shape.outputs)
    if found is None:
        raise StatementError(
            f"{what} on a stream needs a column that is a period: without one it would never end",
            place=shape.place,
            hint="Select FLOOR(ROWTIME TO MINUTE), or another unit, too.",
        )
    # A closed query already has one ROWTIME for all rows of a period.
    period = EXACT if shape.closed else found.period
    at = None if shape.closed else found.column
    input_node = projected(shape, relation)
    keys = tuple(index for index in range(len(input_node.row_type)) if index != at)
    node = _group(relation, input_node, period, keys, ())
    exprs: dict[int, Expr] = {
        key: FieldRef(1 + place, _type(input_node, key)) for place, key in enumerate(keys)
    }
    if at is not None:
        exprs[at] = FieldRef(0, TIMESTAMP)
    return replace(shape, node=node, outputs=_outputs(shape.outputs, exprs), closed=found)


def combined(operation: str, sides: Sequence[QueryShape], relation: str, place: SourceSpan) -> QueryShape:
    """Return UNION, EXCEPT or INTERSECT of shapes that have the same columns.

    Raises:
      StatementError: they have no common period.
    """
    closed = [side if side.closed else closed_by_period(side, relation, operation) for side in sides]
    if len({each.closed for each in closed}) > 1:
        raise StatementError(
            f"the queries of {operation} have different periods",
            place=place,
            hint="The same column has to be the same period of ROWTIME in each of them.",
        )
    first = closed[0]
    inputs = [_with_side(projected(each, relation), relation, side) for side, each in enumerate(closed)]
    fields = range(len(inputs[0].row_type) - 1)
    side = FieldRef(len(fields), INTEGER)
    calls = (AggregateCall("MIN", side, INTEGER), AggregateCall("MAX", side, INTEGER))
    node: Node = _group(relation, Merge(relation, tuple(inputs)), EXACT, tuple(fields), calls)
    least, greatest = (FieldRef(1 + len(fields) + at, INTEGER) for at in range(2))
    if operation == "INTERSECT":
        node = Filter(relation, node, _call("<", least, greatest))
    elif operation == "EXCEPT":
        node = Filter(relation, node, _call("=", greatest, Literal(0, INTEGER)))
    exprs: dict[int, Expr] = {key: FieldRef(1 + key, _type(inputs[0], key)) for key in fields}
    nullable = {key: any(each.row_type[key].nullable for each in inputs) for key in fields}
    outputs = _outputs(first.outputs, exprs, nullable)
    return QueryShape(node, outputs, changelog=False, place=place, closed=first.closed)


def combined_changes(
    operation: str, sides: Sequence[QueryShape], relation: str, place: SourceSpan, retention: Retention | None
) -> QueryShape:
    """Return UNION, EXCEPT or INTERSECT of tables that have the same columns, as changes: without a period.

    Raises:
      StatementError: a side has no limit, and no RETENTION is declared.
    """
    inputs = [_with_side(projected(each, relation), relation, side) for side, each in enumerate(sides)]
    fields = range(len(inputs[0].row_type) - 1)
    side = FieldRef(len(fields), INTEGER)
    merged = Merge(relation, tuple(inputs), of_changes=True)
    calls: tuple[AggregateCall, ...] = ()
    if operation != "UNION":
        calls = (AggregateCall("MIN", side, INTEGER), AggregateCall("MAX", side, INTEGER))
    given = [inputs[0].row_type[key] for key in fields]
    given += [Field(call.function, call.type, nullable=False) for call in calls]
    names = unique_names([field.name for field in given])
    row_type = RowType(tuple(replace(field, name=name) for field, name in zip(given, names, strict=True)))
    groups = GroupChanges(relation, merged, None, tuple(fields), calls, row_type, of_changes=True)
    node: Node = limited(groups, retention, place)
    least, greatest = (FieldRef(len(fields) + at, INTEGER) for at in range(2))
    if operation == "INTERSECT":
        node = Filter(relation, node, _call("<", least, greatest))
    elif operation == "EXCEPT":
        node = Filter(relation, node, _call("=", greatest, Literal(0, INTEGER)))
    exprs: dict[int, Expr] = {key: FieldRef(key, _type(inputs[0], key)) for key in fields}
    nullable = {key: any(each.row_type[key].nullable for each in inputs) for key in fields}
    return QueryShape(node, _outputs(sides[0].outputs, exprs, nullable), changelog=True, place=place)


def _period_column(outputs: Sequence[SelectOutput]) -> Closed | None:
    """Return the period within which rows are compared: ROWTIME, or the first column that is a period of it."""
    if any(output.is_rowtime for output in outputs):
        return Closed(EXACT, None)
    for column, output in enumerate(outputs):
        period = period_of(output.expr)
        if period is not None:
            # A column that is ROWTIME under another name is also an ordinary key.
            return Closed(period, column)
    return None


def _group(
    relation: str, node: Node, period: Period, keys: tuple[int, ...], calls: tuple[AggregateCall, ...]
) -> GroupByPeriod:
    fields = [Field("$PERIOD", TIMESTAMP, nullable=False)]
    fields += [node.row_type[key] for key in keys]
    fields += [Field(call.function, call.type, nullable=False) for call in calls]
    names = unique_names([field.name for field in fields])
    row_type = RowType(tuple(replace(field, name=name) for field, name in zip(fields, names, strict=True)))
    return GroupByPeriod(relation, node, period, keys, calls, row_type)


def _with_side(node: Node, relation: str, side: int) -> Node:
    row_type = node.row_type
    exprs: list[Expr] = [FieldRef(index, field.type) for index, field in enumerate(row_type)]
    fields = (*row_type, Field(SIDE, INTEGER, nullable=False))
    return project(relation, node, (*exprs, Literal(side, INTEGER)), RowType(fields))


def _outputs(
    outputs: Sequence[SelectOutput], exprs: dict[int, Expr], nullable: dict[int, bool] | None = None
) -> tuple[SelectOutput, ...]:
    """Return outputs over the group's row; ``exprs`` are indexed by position among the outputs that are fields."""
    given = []
    position = 0
    for output in outputs:
        if output.is_rowtime:
            given.append(replace(output, expr=RowtimeRef()))
            continue
        may = output.nullable if nullable is None else nullable[position]
        given.append(replace(output, expr=exprs[position], nullable=may))
        position += 1
    return tuple(given)


def _type(node: Node, index: int) -> Type:
    return node.row_type[index].type


def _call(name: str, left: Expr, right: Expr) -> Call:
    return Call(name, (left, right), resolve(name, (left.type, right.type)))
