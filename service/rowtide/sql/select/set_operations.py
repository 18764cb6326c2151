"""DISTINCT, UNION, EXCEPT and INTERSECT, with and without ALL: of streams within a period, or of tables.

See docs/sql/semantics.md#distinct-and-order-by-within-a-period, #set-operations.

One column, the same one in every query, is a period of ROWTIME. Each query first emits its distinct rows at
the end of the period, with this end as ROWTIME. Then rows with equal ROWTIME are combined. With ALL, equal rows of
a query are numbered before, so that they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.functions import resolve
from rowtide.expr.tree import AggregateCall, Call, Expr, FieldRef, Literal, RowtimeRef
from rowtide.plan.frames import CURRENT_ROW, Frame, WindowCall
from rowtide.plan.nodes import Filter, GroupByPeriod, GroupChanges, Merge, Node, WindowAggregate
from rowtide.plan.nodes.changes.combined_copies import CombinedCopies
from rowtide.rows.types import BIGINT, INTEGER, TIMESTAMP, Field, RowType, Type
from rowtide.rowtime.period import Period, PeriodEdge
from rowtide.sql.definitions.objects import Retention
from rowtide.sql.expressions.keys import check_key
from rowtide.sql.grammar.syntax import SetOperation
from rowtide.sql.group.changes import limited, refuse_time
from rowtide.sql.group.group_windows import period_of
from rowtide.sql.relations.relations import Closed, QueryShape, SelectOutput, project, projected, unique_names

SIDE = "$SIDE"
"""The field with the number of the query of EXCEPT or INTERSECT that a row comes from: 0 is the first."""
NUMBER = "$NUMBER"
"""The field with the number of a row among equal rows of its period."""
EXACT = Period(PeriodEdge.EXACT)


def closed_by_period(shape: QueryShape, relation: str, what: str) -> QueryShape:
    """Return the rows of ``shape``, each once in a period; ``what`` names the clause.

    Raises:
      StatementError: none of its columns is a period of ROWTIME.
    """
    found = _period_of(shape, what)
    # A closed query already has one ROWTIME for all rows of a period.
    period = EXACT if shape.closed else found.period
    at = None if shape.closed else found.column
    input_node = projected(shape, relation)
    for field in input_node.row_type:
        check_key(field.type, f'column "{field.name}" of {what}', shape.place)
    keys = tuple(index for index in range(len(input_node.row_type)) if index != at)
    node = _group(relation, input_node, period, keys, ())
    exprs: dict[int, Expr] = {
        key: FieldRef(1 + place, _type(input_node, key)) for place, key in enumerate(keys)
    }
    if at is not None:
        exprs[at] = FieldRef(0, TIMESTAMP)
    return replace(shape, node=node, outputs=_outputs(shape.outputs, exprs), closed=found)


def combined(query: SetOperation, sides: Sequence[QueryShape], relation: str) -> QueryShape:
    """Return UNION, EXCEPT or INTERSECT of shapes that have the same columns.

    Raises:
      StatementError: they have no common period.
    """
    operation, place = query.operation, query.place
    if query.every:
        sides = [_numbered(side, relation, f"{operation} ALL") for side in sides]
    closed = [side if side.closed else closed_by_period(side, relation, operation) for side in sides]
    if len({each.closed for each in closed}) > 1:
        raise StatementError(
            f"the queries of {operation} have different periods",
            span=place,
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
    if query.every:
        outputs = outputs[:-1]
    return QueryShape(node, outputs, changelog=False, place=place, closed=first.closed)


def _numbered(shape: QueryShape, relation: str, what: str) -> QueryShape:
    """Return ``shape`` with one more output: the number of a row among equal rows of its period."""
    found = _period_of(shape, what)
    node = projected(shape, relation)
    fields = tuple(node.row_type)
    exprs: list[Expr] = [FieldRef(at, field.type) for at, field in enumerate(fields)]
    for field in fields:
        check_key(field.type, f'column "{field.name}" of {what}', shape.place)
    period, column = (EXACT, None) if shape.closed else (found.period, found.column)
    others = tuple(at for at in range(len(fields)) if at != column)
    if column is None:
        column, fields = len(fields), (*fields, Field("$PERIOD", TIMESTAMP, nullable=False))
        node = project(relation, node, (*exprs, RowtimeRef()), RowType(fields))
    row_type = RowType((*fields, Field(NUMBER, BIGINT, nullable=False)))
    calls = (WindowCall("ROW_NUMBER", None, BIGINT),)
    frame = Frame(end=CURRENT_ROW)
    node = WindowAggregate(relation, node, (column, *others), EXACT, frame, calls, row_type, (0, period))
    # The column of the period stays an expression of ROWTIME, which is how it is found again.
    position, outputs = iter(range(len(exprs))), list[SelectOutput]()
    for output in shape.outputs:
        if not output.is_rowtime and ((at := next(position)) != found.column or shape.closed):
            outputs.append(replace(output, expr=exprs[at]))
        else:
            outputs.append(output)
    outputs.append(SelectOutput(NUMBER, FieldRef(len(fields), BIGINT), nullable=False, place=shape.place))
    return replace(shape, node=node, outputs=tuple(outputs))


def combined_changes(
    query: SetOperation, sides: Sequence[QueryShape], relation: str, retention: Retention | None
) -> QueryShape:
    """Return UNION, EXCEPT or INTERSECT of tables that have the same columns, as changes: without a period.

    Raises:
      StatementError: a side has no limit, and no RETENTION is declared; or a column has no comparison.
    """
    operation, place = query.operation, query.place
    inputs = [_with_side(projected(each, relation), relation, side) for side, each in enumerate(sides)]
    fields = range(len(inputs[0].row_type) - 1)
    for field in tuple(inputs[0].row_type)[:-1]:
        check_key(field.type, f'column "{field.name}" of {operation}', place)
    exprs: dict[int, Expr] = {key: FieldRef(key, _type(inputs[0], key)) for key in fields}
    nullable = {key: any(each.row_type[key].nullable for each in inputs) for key in fields}
    outputs = _outputs(sides[0].outputs, exprs, nullable)
    merged = Merge(relation, tuple(inputs), of_changes=True)
    if query.every:
        copies = _limited_copies(CombinedCopies(relation, merged, operation), retention, place)
        return QueryShape(copies, outputs, changelog=True, place=place)
    side = FieldRef(len(fields), INTEGER)
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
    return QueryShape(node, outputs, changelog=True, place=place)


def _limited_copies(node: CombinedCopies, retention: Retention | None, span: SourceSpan) -> CombinedCopies:
    """Check that copies without a limit are meant to be kept.

    Raises:
      StatementError: they would be kept forever, and no RETENTION is declared.
    """
    if node.unlimited_state() is None:
        return node
    if retention is None:
        raise StatementError(
            f"the rows of this {node.detail()} never end: all of them would have to be counted forever",
            span=span,
            hint="CREATE VIEW name OPTIONS (RETENTION 'UNBOUNDED') AS .. keeps them, if that is intended.",
        )
    refuse_time(retention, span)
    return node


def _period_of(shape: QueryShape, what: str) -> Closed:
    """Return the period of a stream's rows; ``what`` names the clause.

    Raises:
      StatementError: no column is a period of ROWTIME.
    """
    found = shape.closed or _period_column(shape.outputs)
    if found is None:
        raise StatementError(
            f"{what} on a stream needs a column that is a period: without one it would never end",
            span=shape.place,
            hint="Select FLOOR(ROWTIME TO MINUTE), or another unit, too.",
        )
    return found


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
