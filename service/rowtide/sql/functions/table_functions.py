"""Rows of a table function in FROM: syntax -> TableFunction. See docs/sql/functions.md#table-functions-in-python."""

from __future__ import annotations

from rowtide.errors import StatementError
from rowtide.expr.constant import fold
from rowtide.expr.tree import Expr, FieldRef, Literal, PythonTable
from rowtide.plan.nodes.table_function import TableFunction
from rowtide.rows.types import Field, RowType, Type
from rowtide.sql.definitions.objects import Retention
from rowtide.sql.expressions.conversions import assign
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.keys import check_key
from rowtide.sql.expressions.scope import NameScope
from rowtide.sql.functions.built_in import is_built_in
from rowtide.sql.grammar.syntax import DeclaredFunction, Expression, RowsOfFunction
from rowtide.sql.relations.relations import (
    QueryShape,
    SelectOutput,
    column_index,
    distinct_names,
    project,
    projected,
    unique_names,
)


def rows_of_function(
    syntax: RowsOfFunction, cursor: QueryShape, relation: str, retention: Retention | None
) -> QueryShape:
    """Return the rows that a table function makes of the rows of ``cursor``.

    Raises:
      StatementError: the function does not return rows, ``cursor`` is not a stream, or its columns and the
        arguments do not fit the parameters.
    """
    function, of = _declared(syntax)
    if cursor.changelog:
        raise StatementError(
            f"CURSOR reads a stream: {function.name} cannot take back the rows that it made of a deleted row",
            span=syntax.query.place,
            hint="Write SELECT STREAM .. FROM a stream or its view.",
        )
    distinct_names(syntax.partition)
    node = projected(cursor, relation)
    keys = [column_index(node.row_type, name, "CURSOR") for name in syntax.partition]
    for key, name in zip(keys, syntax.partition, strict=True):
        check_key(node.row_type[key].type, f'column "{name.text}" of PARTITION BY', name.place)
    values = [at for at in range(len(node.row_type)) if at not in keys]
    if len(values) + len(syntax.call.args) != len(function.parameters):
        raise StatementError(
            f"CURSOR gives {len(values)} columns besides PARTITION BY, and {len(syntax.call.args)} arguments "
            f'follow it: "{function.name}" takes {len(function.parameters)}',
            span=syntax.call.place,
            hint=f"It is {function}: first the columns of the rows, then the arguments.",
        )
    parameters = function.parameters
    named = [f'parameter "{name}" of "{function.name}"' for name, _ in parameters]
    taken: list[Expr] = [FieldRef(key, node.row_type[key].type) for key in keys]
    fields = [node.row_type[key] for key in keys]
    for at, (parameter, kind), what in zip(values, parameters, named, strict=False):
        taken.append(assign(FieldRef(at, node.row_type[at].type), kind, what, cursor.fields[at].place))
        fields.append(Field(parameter, kind, node.row_type[at].nullable))
    constants = tuple(
        _constant(arg, kind, what)
        for arg, (_, kind), what in zip(
            syntax.call.args, parameters[len(values) :], named[len(values) :], strict=True
        )
    )
    names = unique_names([field.name for field in fields])
    input_type = RowType(
        tuple(Field(name, each.type, each.nullable) for name, each in zip(names, fields, strict=True))
    )
    given = (*fields[: len(keys)], *of.returns)
    made_type = RowType(
        tuple(
            Field(name, each.type, each.nullable)
            for name, each in zip(unique_names([each.name for each in given]), given, strict=True)
        )
    )
    length = None if retention is None else retention.length_ms
    made = TableFunction(
        relation,
        project(relation, node, tuple(taken), input_type),
        len(keys),
        constants,
        of,
        made_type,
        length,
        is_endless=retention is not None and length is None,
    )
    outputs = tuple(
        SelectOutput(each.name, FieldRef(at, each.type), each.nullable, syntax.place)
        for at, each in enumerate(given)
    )
    return QueryShape(made, outputs, changelog=False, place=syntax.place)


def _declared(syntax: RowsOfFunction) -> tuple[DeclaredFunction, PythonTable]:
    """Return the declaration of the called function."""
    call = syntax.call
    if call.declared is not None and isinstance(call.declared.body, PythonTable):
        return call.declared, call.declared.body
    exists = call.declared is not None or is_built_in(call.name)
    raise StatementError(
        f'function "{call.name}" {"does not return rows" if exists else "does not exist"}',
        span=call.place,
        hint=f"CREATE FUNCTION {'name' if exists else call.name}(x DOUBLE) RETURNS TABLE (y DOUBLE) LANGUAGE PYTHON "
        "AS 'module.Class' declares one that does.",
    )


def _constant(syntax: Expression, kind: Type, what: str) -> Literal:
    """Return an argument after the cursor.

    Raises:
      StatementError: it is not a constant of the parameter's type.
    """
    typed = ExpressionPlanner(NameScope(()), "an argument after CURSOR").typed(syntax)
    found = fold(assign(typed, kind, what, syntax.place))
    if not isinstance(found, Literal):
        raise StatementError(
            f"{what} is a constant here",
            span=syntax.place,
            hint="Values of the rows are columns of CURSOR(SELECT STREAM ..).",
        )
    return found
