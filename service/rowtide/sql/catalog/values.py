"""INSERT INTO table VALUES: constant rows of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowtide.errors import RejectedRowError, StatementError
from rowtide.expr.rowwise import compile_row
from rowtide.expr.tree import Expr, Literal, uses_rowtime
from rowtide.rows.rowop import Row
from rowtide.rows.types import TIMESTAMP, Field, RowType
from rowtide.sql.expressions.conversions import UNTYPED_NULL, assign
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.scope import ROWTIME, Binding, NameScope
from rowtide.sql.grammar.statements import InsertValues
from rowtide.sql.grammar.syntax import Expression, FunctionCall
from rowtide.sql.relations.relations import column_index, distinct_names

_ARRIVING = (Binding(("$ARRIVAL",), RowType(()), 0, True),)
_ROWTIME_COLUMN = Field(ROWTIME, TIMESTAMP)

ARRIVAL = frozenset({"CURRENT_ROW_TIMESTAMP", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"})
"""Expressions that, as the ROWTIME of an inserted row, mean its time of arrival, as without a ROWTIME.

See docs/sql/semantics.md#pumps-and-inserts.
"""

TimedValues = tuple[int | None, Row]
"""A row, and its ROWTIME (ms) if the statement names ROWTIME."""


@dataclass(frozen=True, slots=True)
class AtArrival:
    """A value of an inserted row that depends on its time of arrival: ``NOW()``, and expressions with it."""

    expr: Expr


def arrived(rows: Sequence[TimedValues], now_ms: int) -> tuple[TimedValues, ...]:
    """Return inserted rows with the values that depend on their time of arrival.

    Raises:
      StatementError: an expression fails, such as a time beyond the calendar.
    """

    def value(each: object) -> object:
        return _evaluated(each.expr, now_ms) if isinstance(each, AtArrival) else each

    return tuple((rowtime, tuple(value(each) for each in row)) for rowtime, row in rows)


def _evaluated(expr: Expr, now_ms: int) -> object:
    try:
        value: object = compile_row(expr)((), now_ms)
        return value
    except RejectedRowError as error:
        raise StatementError(error.message) from error


def inserted_rows(
    statement: InsertValues,
    row_type: RowType,
    key: Sequence[int],
    table: str,
    defaults: Mapping[int, object],
) -> tuple[Row, ...]:
    """Return the rows of an INSERT statement as the table stores them.

    Raises:
      StatementError: a value is not a constant, does not fit its column, or is missing; with its place.
    """
    for name in statement.columns:
        if name.text == ROWTIME:
            raise StatementError(
                "INSERT with a ROWTIME into a table is not supported yet",
                span=name.place,
                hint="Remove ROWTIME: rows of INSERT statements exist from the start.",
            )
    return tuple(row for _, row in timed_rows(statement, row_type, key, table, defaults))


def timed_rows(
    statement: InsertValues,
    row_type: RowType,
    key: Sequence[int],
    relation: str,
    defaults: Mapping[int, object],
    *,
    arrives: bool = False,
) -> tuple[TimedValues, ...]:
    """Return the rows of an INSERT statement, which may name ROWTIME among its columns.

    ``defaults`` are the values of fields that have a default. With ``arrives`` a value can be ``AtArrival``.

    Raises:
      StatementError: a value is not a constant, does not fit its column, or is missing; with its place.
    """
    positions: list[int | None] = list(range(len(row_type)))
    if statement.columns:
        distinct_names(statement.columns)
        positions = [
            None if name.text == ROWTIME else column_index(row_type, name, relation)
            for name in statement.columns
        ]
    rows = []
    for syntax in statement.rows:
        if len(syntax) != len(positions):
            raise StatementError(
                f'{len(syntax)} values are given, "{relation}" takes {len(positions)}',
                span=syntax[0].place,
            )
        rowtime: int | None = None
        values: list[object] = [defaults.get(position) for position in range(len(row_type))]
        for position, each in zip(positions, syntax, strict=True):
            column = _ROWTIME_COLUMN if position is None else row_type[position]
            if isinstance(each, FunctionCall) and each.name == "DEFAULT":
                continue
            if position is None and isinstance(each, FunctionCall) and each.name in ARRIVAL:
                continue
            what = f'column "{column.name}" of "{relation}"'
            found = _typed(each, column, what, at_arrival=arrives and position is not None)
            value = AtArrival(found) if uses_rowtime(found) else _constant(found, each)
            if position is not None:
                values[position] = value
            elif isinstance(value, int):
                rowtime = value
        for position, column in enumerate(row_type):
            if values[position] is None and (not column.nullable or position in key):
                raise StatementError(
                    f'column "{column.name}" of "{relation}" cannot be NULL', span=syntax[0].place
                )
        rows.append((rowtime, tuple(values)))
    return tuple(rows)


def constant_of(syntax: Expression, column: Field, what: str) -> object:
    """Return the value of a constant in a column; ``what`` names it in messages.

    Raises:
      StatementError: it is not a constant, or does not fit.
    """
    return _constant(_typed(syntax, column, what, at_arrival=False), syntax)


def _typed(syntax: Expression, column: Field, what: str, *, at_arrival: bool) -> Expr:
    """Return a value of a column, which can read ROWTIME if it is computed ``at_arrival``."""
    scope = NameScope(_ARRIVING if at_arrival else ())
    typed = ExpressionPlanner(scope, "a constant").plan_as(syntax, UNTYPED_NULL.type)
    return assign(typed, column.type, what, syntax.place)


def _constant(expr: Expr, syntax: Expression) -> object:
    """Return the value of a constant expression.

    Raises:
      StatementError: it fails, for example by a division by zero.
    """
    if isinstance(expr, Literal):
        return expr.value
    try:
        value: object = compile_row(expr)((), 0)
        return value
    except RejectedRowError as error:
        raise StatementError(error.message, span=syntax.place) from error
