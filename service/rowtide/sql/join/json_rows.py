"""Rows from JSON in FROM: syntax -> JsonTable. See docs/sql/json-table.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from rowtide.errors import StatementError
from rowtide.expr.constant import fold
from rowtide.expr.functions import cast_allowed
from rowtide.expr.functions.arrays.parts import ELEMENT
from rowtide.expr.json_path import JsonPathError, parse_path, parse_row_path
from rowtide.expr.tree import Call, Expr, FieldRef, Literal
from rowtide.plan.json_columns import JsonColumn, JsonColumnKind
from rowtide.plan.nodes import Filter, Node
from rowtide.plan.nodes.json_table import JsonTable
from rowtide.rows.types import BOOLEAN, JSON, VARCHAR, Field, RowType, Type
from rowtide.sql.expressions.conversions import assign, cast
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.scope import Binding, NameScope
from rowtide.sql.grammar.clauses.json_rows import UNNEST
from rowtide.sql.grammar.syntax import (
    BooleanLiteral,
    Expression,
    JsonColumnSyntax,
    JsonRows,
    NullLiteral,
    StringLiteral,
)
from rowtide.sql.relations.relations import distinct_names, unique_names

Steps = TypeVar("Steps")


def columns_of(item: JsonRows, start: int) -> Binding:
    """Return the columns of rows from JSON, which begin at ``start`` in the joined row.

    Raises:
      StatementError: two columns have one name, or the alias has another number of columns.
    """
    names = [column.name for column in item.columns]
    distinct_names(names)
    if item.names:
        if len(item.names) > len(names):
            raise StatementError(
                f"the alias names {len(item.names)} columns, {item.function} has {len(names)}",
                span=item.names[0].place,
            )
        names[: len(item.names)] = item.names
        distinct_names(names)
    fields = [
        Field(name.text, column.type, column.kind is not JsonColumnKind.ORDINALITY or item.kind == "LEFT")
        for name, column in zip(names, item.columns, strict=True)
    ]
    alias = item.function if item.alias is None else item.alias.text
    return Binding((alias,), RowType(tuple(fields)), start, has_rowtime=False, hidden=item.hidden)


def json_table(relation: str, item: JsonRows, left: Node, scope: NameScope) -> tuple[Node, NameScope]:
    """Return the rows of ``left``, each with the rows of its JSON, and their scope.

    Raises:
      StatementError: the document is not text, a path is not one, or a column cannot have its type; with its place.
    """
    document = ExpressionPlanner(scope, item.function).plan(item.document)
    element = document.type.element
    if element is not None and item.function == UNNEST:
        document = cast(document, VARCHAR, item.document.place)
        item = replace(item, columns=tuple(_of_element(each, element) for each in item.columns))
    elif not (document.type.is_text or document.type == JSON):
        raise StatementError(
            f"{item.function} reads JSON, not {document.type}",
            span=item.document.place,
            hint="A column of JSON or VARCHAR holds an array or object of a message."
            if element is None
            else "UNNEST (a) returns the elements of an array.",
        )
    own = columns_of(item, len(left.row_type))
    if own.alias in [binding.alias for binding in scope.bindings]:
        raise StatementError(
            f'two relations of this FROM are called "{own.alias}"',
            span=item.place,
            hint="Rename one of them with AS.",
        )
    fields = [*left.row_type, *own.row_type]
    named = [
        replace(field, name=name)
        for field, name in zip(fields, unique_names([field.name for field in fields]), strict=True)
    ]
    node: Node = JsonTable(
        relation,
        left,
        document,
        _path(item.path, parse_row_path),
        tuple(_column(each, element) for each in item.columns),
        item.kind == "LEFT",
        item.empty_on_error,
        RowType(tuple(named)),
    )
    both = NameScope((*scope.bindings, own), scope.merged)
    if item.kind == "INNER" and item.condition != BooleanLiteral(True):
        node = Filter(relation, node, ExpressionPlanner(both, "ON").condition(item.condition))
    return node, both


def _of_element(column: JsonColumnSyntax, element: Type) -> JsonColumnSyntax:
    return column if column.kind is JsonColumnKind.ORDINALITY else replace(column, type=element)


def _path(written: StringLiteral, parse: Callable[[str], Steps]) -> Steps:
    try:
        return parse(written.text)
    except JsonPathError as error:
        raise StatementError(str(error), span=written.place, hint=error.hint) from error


def _column(column: JsonColumnSyntax, element: Type | None) -> JsonColumn:
    """Return a column; ``element`` is the type of the elements if the rows are those of an array."""
    if column.kind is JsonColumnKind.ORDINALITY:
        return JsonColumn(column.kind)
    of, any_case, kind = column.type, column.path is None, column.kind
    if element is not None:
        value = Call(ELEMENT, (FieldRef(0, VARCHAR),), element)
        return JsonColumn(JsonColumnKind.JSON, (), value, Literal(None, element))
    if of.element is not None:
        return _array(column)
    if of == JSON and kind is JsonColumnKind.VALUE:
        kind = JsonColumnKind.JSON
    if kind is JsonColumnKind.JSON and not (of.is_text or of == JSON):
        raise StatementError(
            f'column "{column.name.text}" has FORMAT JSON, so its type must be JSON or text, not {of}',
            span=column.place,
            hint="Write JSON for an object or array; other values need no FORMAT JSON.",
        )
    steps = (column.name.text,) if column.path is None else _path(column.path, parse_path)
    given = BOOLEAN if kind is JsonColumnKind.EXISTS else VARCHAR
    if not cast_allowed(given, of):
        raise StatementError(
            f'column "{column.name.text}": a truth value is not a value of {of}', span=column.place
        )
    # A part of JSON is JSON.
    whole = kind is JsonColumnKind.JSON and of == JSON
    return JsonColumn(
        kind,
        steps,
        FieldRef(0, JSON) if whole else cast(FieldRef(0, given), of, column.place),
        _value(column.on_empty, column),
        _value(column.on_error, column),
        any_case,
    )


def _array(column: JsonColumnSyntax) -> JsonColumn:
    """Return a column of arrays; null of JSON is NULL."""
    steps = (column.name.text,) if column.path is None else _path(column.path, parse_path)
    if column.kind is JsonColumnKind.EXISTS:
        raise StatementError(
            f'column "{column.name.text}": a truth value is not a value of {column.type}', span=column.place
        )
    text = FieldRef(0, VARCHAR)
    given = Call("NULLIF", (text, Literal("null", VARCHAR)), VARCHAR)
    return JsonColumn(
        JsonColumnKind.JSON,
        steps,
        cast(given, column.type, column.place),
        _value(column.on_empty, column),
        _value(column.on_error, column),
        column.path is None,
    )


def _value(written: Expression | None, column: JsonColumnSyntax) -> Literal | None:
    """Return the value of ON EMPTY or ON ERROR; None for ERROR."""
    of, name = column.type, column.name.text
    if written is None:
        return None
    if isinstance(written, NullLiteral):
        return Literal(None, of)
    found: Expr = fold(ExpressionPlanner(NameScope(()), "DEFAULT").plan(written))
    if isinstance(found, Literal) and found.type != of:
        found = fold(assign(found, of, f'column "{name}"', written.place))
    if not isinstance(found, Literal):
        raise StatementError(
            f'the DEFAULT of column "{name}" is not a constant that {of} holds', span=written.place
        )
    return found
