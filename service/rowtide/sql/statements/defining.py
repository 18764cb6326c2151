"""CREATE FUNCTION and DROP FUNCTION: their effect on the catalog. Pure but for the import of users' modules.

A replaced function reaches all views, pumps, tables and functions that call it: their definitions are bound
again, as a replaced view reaches its readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rowtide.errors import StatementError
from rowtide.expr.constant import fold
from rowtide.expr.python.aggregate_loading import check_aggregate, check_table_function
from rowtide.expr.python.batches import BATCH_FORMS
from rowtide.expr.python.loading import LoadingError, check_arguments, function_path, load_function, look_in
from rowtide.expr.python.modules import absolute, code_of
from rowtide.expr.tree import Call, Expr, FieldRef, Literal, PythonAggregate, PythonFunction, PythonTable
from rowtide.rows.types import BOOLEAN, Field, RowType, Type
from rowtide.sql.catalog.servers import refuse_if_used, single
from rowtide.sql.definitions.objects import (
    Catalog,
    FunctionDefinition,
    Key,
    ObjectDefinition,
    Origin,
    folder_of,
    relation_name,
)
from rowtide.sql.expressions.conversions import assign
from rowtide.sql.expressions.expression_planner import ExpressionPlanner
from rowtide.sql.expressions.scope import ROWTIME, Binding, NameScope
from rowtide.sql.functions.binding import bound, calls_in, functions_in
from rowtide.sql.functions.built_in import is_built_in
from rowtide.sql.grammar.statements import CreateFunction, Drop
from rowtide.sql.grammar.suggestions import did_you_mean
from rowtide.sql.grammar.syntax import DeclaredFunction, Expression
from rowtide.sql.grammar.syntax_walk import columns_in
from rowtide.sql.relations.relations import distinct_names

FORM = "form"
ROWS = "rows"
FORMS = (ROWS, *BATCH_FORMS)
"""What a function in Python is called with: the values of one row, or arrays of the values of many rows."""


def define_function(catalog: Catalog, statement: CreateFunction, origin: Origin) -> Catalog:
    """Return the catalog after CREATE FUNCTION.

    Raises:
      StatementError: the name is taken, a function in Python cannot be loaded, or an expression does not fit.
    """
    name, place = single(statement.name, "a function"), statement.name.place
    if is_built_in(name):
        raise StatementError(
            f'function "{name}" is built in', span=place, hint="Use another name: built-in functions stay."
        )
    if name in catalog.functions and not statement.replace:
        raise StatementError(
            f'function "{name}" already exists', span=place, hint="CREATE OR REPLACE FUNCTION replaces it."
        )
    names = [each.name for each in statement.parameters]
    for at, parameter in enumerate(names):
        if parameter in names[:at]:
            raise StatementError(f'parameter "{parameter.text}" appears twice', span=parameter.place)
    if name in calls_in(statement.source) or name in _called_by(catalog, functions_in(statement.source)):
        raise StatementError(
            f'function "{name}" calls itself', span=statement.source_place, hint="A model can have loops."
        )
    definition = FunctionDefinition(_declared(name, statement, origin), statement, origin)
    functions = {**catalog.functions, name: definition}
    catalog = replace(catalog, functions=functions)
    return _bound_again(catalog, name) if statement.replace else catalog


def drop_function(catalog: Catalog, statement: Drop) -> Catalog:
    """Return the catalog without a function.

    Raises:
      StatementError: the function does not exist, or is used.
    """
    name = single(statement.name, "a function")
    if name not in catalog.functions:
        if statement.if_exists:
            return catalog
        hint = "It is built in." if is_built_in(name) else did_you_mean(name, catalog.functions)
        raise StatementError(f'function "{name}" does not exist', span=statement.name.place, hint=hint)
    users = [relation_name(key) for key in _objects_calling(catalog, name)]
    users += [other for other in catalog.functions if name in _calls_of(catalog.functions[other])]
    refuse_if_used(f'function "{name}"', users, statement.name.place)
    return replace(catalog, functions=_without(catalog.functions, [name]))


def objects_calling(catalog: Catalog, name: str) -> list[Key]:
    """Return the objects whose definition calls a function, directly or through other functions."""
    callers = _callers(catalog, name)
    return [key for other in (name, *callers) for key in _objects_calling(catalog, other)]


def without_functions_calling(catalog: Catalog, name: str) -> Catalog:
    """Return the catalog without the functions that call ``name``."""
    return replace(catalog, functions=_without(catalog.functions, _callers(catalog, name)))


def _without(
    functions: Mapping[str, FunctionDefinition], names: list[str]
) -> Mapping[str, FunctionDefinition]:
    return {name: function for name, function in functions.items() if name not in names}


def _calls_of(function: FunctionDefinition) -> frozenset[str]:
    return functions_in(function.statement.source)


def _called_by(catalog: Catalog, names: frozenset[str]) -> frozenset[str]:
    """Return functions and all that they call."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        each = pending.pop()
        if each not in found:
            found.add(each)
            pending += _calls_of(catalog.functions[each])
    return frozenset(found)


def _callers(catalog: Catalog, name: str) -> list[str]:
    """Return the functions that call a function, directly or through other functions."""
    return [
        other
        for other, function in catalog.functions.items()
        if other != name and name in _called_by(catalog, _calls_of(function))
    ]


def _objects_calling(catalog: Catalog, name: str) -> list[Key]:
    return [key for key, found in catalog.objects.items() if name in functions_in(found)]


def _bound_again(catalog: Catalog, name: str) -> Catalog:
    """Return the catalog in which all that call a replaced function call the new one.

    Raises:
      StatementError: the expression of another function no longer fits.
    """
    functions = dict(catalog.functions)
    # A function may call one that was replaced after it, so the order of creation is not the order of calls.
    pending = _callers(catalog, name)
    while pending:
        for other in pending:
            if not _calls_of(functions[other]).intersection(pending):
                break
        definition = functions[other]
        statement = bound(definition.statement, {each: functions[each].declared for each in functions})
        declared = _declared(other, statement, definition.origin)
        functions[other] = replace(definition, declared=declared, statement=statement)
        pending.remove(other)
    again = {each: function.declared for each, function in functions.items()}
    objects: dict[Key, ObjectDefinition] = {
        key: bound(definition, again) for key, definition in catalog.objects.items()
    }
    return replace(catalog, functions=functions, objects=objects)


# --------------------------------------------------------------- declarations


def _declared(name: str, statement: CreateFunction, origin: Origin) -> DeclaredFunction:
    """Return the declaration of a statement.

    Raises:
      StatementError: a function in Python cannot be loaded, or an expression does not fit.
    """
    parameters = tuple((each.name.text, each.type) for each in statement.parameters)
    if isinstance(statement.source, str):
        body: Expr | PythonFunction | PythonAggregate | PythonTable
        body = _in_python(statement, statement.source, origin)
    else:
        try:
            body = _in_sql(name, statement, statement.source)
        except StatementError as error:
            if error.text is None:
                error.text, error.file = origin.text, origin.file
            raise
    returns = body.returns if isinstance(body, PythonTable) else statement.returns
    assert not isinstance(returns, tuple)
    return DeclaredFunction(name, parameters, returns, body)


def _in_python(
    statement: CreateFunction, written: str, origin: Origin
) -> PythonFunction | PythonAggregate | PythonTable:
    form = _form(statement)
    folder = absolute(folder_of(origin.file))
    look_in(folder)
    try:
        path = function_path(written)
        names = [each.name.text for each in statement.parameters]
        retracts = False
        if isinstance(statement.returns, tuple):
            check_table_function(path, folder, names)
        elif statement.is_aggregate:
            retracts = check_aggregate(path, folder, names)
        else:
            check_arguments(path, load_function(path, folder), names)
        code = code_of(path.partition(":")[0], folder)
    except LoadingError as error:
        # What loads modules does not know the SQL text.
        raise StatementError(error.message, span=statement.source_place, hint=error.hint) from error
    name, takes = single(statement.name, "a function"), tuple(each.type for each in statement.parameters)
    if isinstance(statement.returns, tuple):
        distinct_names([each.name for each in statement.returns])
        returns = RowType(tuple(Field(each.name.text, each.type) for each in statement.returns))
        return PythonTable(name, path, takes, returns, statement.takes_null is not False, code, folder)
    if statement.is_aggregate:
        takes_null = statement.takes_null is True
        return PythonAggregate(name, path, takes, statement.returns, takes_null, retracts, code, folder)
    return PythonFunction(
        name,
        path,
        takes,
        statement.returns,
        takes_null=statement.takes_null is not False,
        form=form,
        code=code,
        folder=folder,
    )


def _form(statement: CreateFunction) -> str:
    form = ROWS
    is_table = isinstance(statement.returns, tuple)
    if (statement.is_aggregate or is_table) and statement.options:
        item, kind = statement.options[0], "a table function" if is_table else "an aggregate"
        raise StatementError(f'option "{item.name}" is not for {kind}', span=item.place)
    for item in statement.options:
        if item.name != FORM:
            raise StatementError(
                f'option "{item.name}" does not exist here', span=item.place, hint=f"Available: {FORM}."
            )
        form = item.value.lower()
        if form not in FORMS:
            raise StatementError(
                f"option \"{FORM}\": '{item.value}' is not a form",
                span=item.place,
                hint=f"Available: {', '.join(FORMS)}.",
            )
        if form != ROWS and not statement.parameters:
            raise StatementError(
                "a function that is called with arrays needs a parameter",
                span=item.place,
                hint="The length of an array is the number of rows.",
            )
    return form


def _in_sql(name: str, statement: CreateFunction, source: Expression) -> Expr:
    """Return the expression of a function over the fields of its parameters."""
    if statement.options:
        item = statement.options[0]
        raise StatementError(f'option "{item.name}" is for a function in Python', span=item.place)
    fields = tuple(Field(each.name.text, each.type) for each in statement.parameters)
    for column in columns_in(source):
        if column.parts[-1].text == ROWTIME and all(field.name != ROWTIME for field in fields):
            raise StatementError(
                "a function has no ROWTIME",
                span=column.place,
                hint="Declare a parameter of type TIMESTAMP, and call the function with ROWTIME.",
            )
    scope = NameScope((Binding((name,), RowType(fields), 0, has_rowtime=False),))
    planner = ExpressionPlanner(scope, "a function")
    assert isinstance(statement.returns, Type)
    typed = assign(
        planner.typed(source), statement.returns, f'the result of "{name}"', statement.source_place
    )
    if statement.takes_null is False and fields:
        nulls = [Call("IS NULL", (FieldRef(at, field.type),), BOOLEAN) for at, field in enumerate(fields)]
        missing = nulls[0] if len(nulls) == 1 else Call("OR", tuple(nulls), BOOLEAN)
        typed = Call("CASE", (missing, Literal(None, typed.type), typed), typed.type)
    return fold(typed)
