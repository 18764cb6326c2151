"""INSERT INTO table VALUES: rows that are known when the pipeline is planned."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.errors import RejectedRowError, StatementError
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Expr, Literal
from rowtide.rows.rowop import Row
from rowtide.rows.types import RowType
from rowtide.sql.expressions import UNTYPED_NULL, ExpressionPlanner, assign
from rowtide.sql.relations import column_index
from rowtide.sql.scope import ROWTIME, Scope
from rowtide.sql.statements import InsertValues
from rowtide.sql.syntax import Expression


def inserted_rows(
    statement: InsertValues, row_type: RowType, key: Sequence[int], table: str
) -> tuple[Row, ...]:
    """Give the rows of an INSERT statement as the table stores them.

    Raises:
      StatementError: a value is no constant, does not fit its column, or is missing; with its place.
    """
    positions = list(range(len(row_type)))
    if statement.columns:
        for name in statement.columns:
            if name.text == ROWTIME:
                raise StatementError(
                    "INSERT with a ROWTIME is not supported yet",
                    place=name.place,
                    hint="Rows of INSERT statements are there from the beginning.",
                )
        positions = [column_index(row_type, name, table) for name in statement.columns]
    planner = ExpressionPlanner(Scope(()), "VALUES")
    rows = []
    for syntax in statement.rows:
        if len(syntax) != len(positions):
            raise StatementError(
                f'{len(syntax)} values are given, "{table}" takes {len(positions)}',
                place=syntax[0].place,
            )
        values: list[object] = [None] * len(row_type)
        for position, each in zip(positions, syntax, strict=True):
            column = row_type[position]
            typed = assign(
                planner.plan_as(each, UNTYPED_NULL.type),
                column.type,
                f'column "{column.name}" of "{table}"',
                each.place,
            )
            values[position] = _constant(typed, each)
        for position, column in enumerate(row_type):
            if values[position] is None and (not column.nullable or position in key):
                raise StatementError(
                    f'column "{column.name}" of "{table}" cannot be NULL', place=syntax[0].place
                )
        rows.append(tuple(values))
    return tuple(rows)


def _constant(expr: Expr, syntax: Expression) -> object:
    """Give the value of an expression that reads nothing.

    Raises:
      StatementError: it has none, such as a division by zero.
    """
    if isinstance(expr, Literal):
        return expr.value
    try:
        value: object = compile_row(expr)((), 0)
        return value
    except RejectedRowError as error:
        raise StatementError(error.message, place=syntax.place) from error
