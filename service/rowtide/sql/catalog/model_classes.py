"""CREATE MODEL: a class becomes a schema of streams and tables (docs/sql/semantics.md#models).

The names of ports and fields fold as names in SQL do, so that none needs quotes.
Only here does the planner need the procedural engine, so a pipeline without models is checked without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rowtide.engine.errors import ModelError
from rowtide.engine.loading import ModelOptionError, model_code, model_maker
from rowtide.engine.model import ModelRun
from rowtide.engine.row_type import RowType as EngineRowType
from rowtide.errors import StatementError
from rowtide.expr.python.loading import look_in
from rowtide.expr.python.modules import absolute
from rowtide.plan.nodes import ModelPort
from rowtide.rows.types import Field, RowType
from rowtide.sql.catalog.models import without_ports
from rowtide.sql.catalog.servers import single
from rowtide.sql.definitions.objects import (
    SYSTEM_SCHEMAS,
    Catalog,
    Key,
    ModelDefinition,
    ModelOutputDefinition,
    ObjectDefinition,
    Origin,
    StreamDefinition,
    folder_of,
)
from rowtide.sql.expressions.scope import ROWTIME
from rowtide.sql.grammar.statements import CreateModel


def define_model(catalog: Catalog, statement: CreateModel, origin: Origin) -> Catalog:
    """Return the catalog after CREATE MODEL: the class is loaded and wired once, to learn its ports.

    Raises:
      StatementError: the name is taken, or the class cannot be loaded, wired or put into SQL.
    """
    name, place = single(statement.name, "a model"), statement.name.place
    if name in catalog.models and not statement.replace:
        raise StatementError(
            f'model "{name}" already exists', span=place, hint="CREATE OR REPLACE MODEL replaces it."
        )
    if name in catalog.schemas or name in SYSTEM_SCHEMAS:
        raise StatementError(
            f'"{name}" already exists as a schema, and a model creates its own schema', span=place
        )
    options = tuple((item.name, item.value) for item in statement.options)
    try:
        folder = absolute(folder_of(origin.file))
        look_in(folder)
        run = model_maker(name, statement.path, dict(options), folder)()
        code = model_code(statement.path, folder)
        accepts = _split(_ports(run.input_types, ()), run.keys)
        gives = _ports(run.output_types, tuple(run.changes))
        if not accepts:
            raise ModelError(f'model "{statement.path}" offers no input')
        outputs = [
            ModelOutputDefinition(name, number, row_type, port.changes, _key(run, port), origin)
            for number, (port, row_type) in enumerate(zip(gives, map(_folded, gives), strict=True))
        ]
        inputs = [StreamDefinition(_folded(port), origin, model=name) for port in accepts]
    except ModelError as error:
        # The engine does not know the SQL text, so it is added here.
        place = statement.path_place
        if isinstance(error, ModelOptionError):
            place = next(item.place for item in statement.options if item.name == error.option)
        raise StatementError(error.message, span=place, hint=error.hint) from error
    kept = without_ports(catalog, name)
    found: dict[Key, ObjectDefinition] = {}
    definitions: list[ObjectDefinition] = [*inputs, *outputs]
    for port, definition in zip((*accepts, *gives), definitions, strict=True):
        key = (name, port.name.upper())
        if key in found:
            raise StatementError(
                f'model "{statement.path}" offers "{port.name}" as input and as output, or in two spellings',
                span=statement.path_place,
            )
        found[key] = definition
    model = ModelDefinition(statement.path, options, accepts, gives, origin, code, folder)
    return replace(kept, models={**catalog.models, name: model}, objects={**kept.objects, **found})


def _ports(types: Mapping[str, EngineRowType], changes: tuple[str, ...]) -> tuple[ModelPort, ...]:
    """Return ports with SQL row types, with fields spelled as in the class.

    Raises:
      ModelError: a field has no SQL type.
    """
    found = []
    for name, row_type in types.items():
        try:
            sql = row_type.to_sql()
        except ModelError as error:
            raise ModelError(f'"{name}" of the model: {error.message}', hint=error.hint) from error
        if not len(sql):
            raise ModelError(f'"{name}" of the model has no fields')
        found.append(ModelPort(name, sql, name in changes))
    return tuple(found)


def _split(accepts: tuple[ModelPort, ...], keys: Mapping[str, tuple[str, ...]]) -> tuple[ModelPort, ...]:
    """Return inputs with the keys by which the model is split.

    Raises:
      ModelError: the keys of two inputs do not match.
    """
    found = [
        replace(port, key=tuple(port.row_type.index(field) for field in keys[port.name])) for port in accepts
    ]
    types = [[port.row_type[index].type for index in port.key] for port in found]
    for port, kinds in zip(found, types, strict=True):
        if kinds != types[0]:
            shown = [", ".join(map(str, each)) or "none" for each in (types[0], kinds)]
            raise ModelError(
                f'the keys of inputs "{found[0].name}" and "{port.name}" do not match: '
                f"{shown[0]}; {shown[1]}",
                hint="A model is split by as many fields of the same types in all inputs, or not at all.",
            )
    return tuple(found)


def _folded(port: ModelPort) -> RowType:
    """Return the columns of a port: its fields under folded names.

    Raises:
      ModelError: two fields get the same name, or a field is named ROWTIME.
    """
    names = [field.name.upper() for field in port.row_type]
    for name in names:
        if names.count(name) > 1:
            raise ModelError(f'fields of "{port.name}" of the model differ in capitals only: "{name}"')
        if name == ROWTIME:
            raise ModelError(
                f'"{port.name}" of the model has a field "{name}"',
                hint="Every row has ROWTIME besides: a model reads it from its clock.",
            )
    return RowType(tuple(Field(name, field.type) for name, field in zip(names, port.row_type, strict=True)))


def _key(run: ModelRun, port: ModelPort) -> tuple[int, ...]:
    return tuple(port.row_type.index(field) for field in run.changes.get(port.name, ()))
