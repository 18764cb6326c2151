"""VALUES: tables of constant rows. SELECT without FROM reads a table of one row."""

from __future__ import annotations

import hashlib
from functools import partial

from rowtide.errors import StatementError
from rowtide.expr.functions import common_type
from rowtide.expr.tree import FieldRef
from rowtide.plan.nodes import TableSource
from rowtide.rows.types import Field, RowType
from rowtide.sql.catalog.values import constant_of
from rowtide.sql.expressions.conversions import UNTYPED_NULL, guarded
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.expressions.text_constants import compared
from rowtide.sql.grammar.syntax import ValuesSyntax
from rowtide.sql.relations.relations import QueryShape, SelectOutput, unnamed


def table_of(values: ValuesSyntax) -> QueryShape:
    """Return the table of VALUES; its columns are EXPR$0, EXPR$1 and so on.

    Raises:
      StatementError: a value is not a constant, or the rows do not fit together.
    """
    planner = ExpressionPlanner(NameScope(()), "VALUES")
    width = len(values.rows[0])
    for row in values.rows:
        if len(row) != width:
            raise StatementError(
                f"this row has {len(row)} values, the first row has {width}", span=row[0].place
            )
    fields = []
    for at, column in enumerate(zip(*values.rows, strict=True)):
        typed = [planner.plan_as(each, UNTYPED_NULL.type) for each in column]
        known = [(each, at.place) for each, at in zip(typed, column, strict=True) if each != UNTYPED_NULL]
        if not known:
            raise StatementError(
                "NULL has no type here", span=column[0].place, hint="Write CAST(NULL AS type)."
            )
        alike = compared(*zip(*known, strict=True))
        of = guarded(partial(common_type, [each.type for each in alike]), column[0].place)
        fields.append(Field(unnamed(at), of, nullable=True))
    rows = tuple(
        tuple(constant_of(each, field, "VALUES") for each, field in zip(row, fields, strict=True))
        for row in values.rows
    )
    held = [
        Field(field.name, field.type, any(row[at] is None for row in rows)) for at, field in enumerate(fields)
    ]
    node = constant_table(RowType(tuple(held)), rows)
    outputs = tuple(
        SelectOutput(field.name, FieldRef(at, field.type), field.nullable, values.rows[0][at].place)
        for at, field in enumerate(held)
    )
    return QueryShape(node, outputs, changelog=True, place=values.place)


def constant_table(row_type: RowType, rows: tuple[tuple[object, ...], ...]) -> TableSource:
    """Return rows as a table. Its name depends only on the rows, so that equal tables are shared."""
    digest = hashlib.sha256(repr((row_type, rows)).encode()).hexdigest()
    return TableSource(f"VALUES {digest[:12]}", row_type, rows, loaded_once=True)
