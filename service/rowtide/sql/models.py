"""CREATE MODEL: a class becomes a schema of streams and tables, and a node (sql-decisions 24).

The names of ports and fields fold as names in SQL do, so that none needs quotes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from rowtide.engine.errors import ModelError
from rowtide.engine.loading import ModelOptionError, look_in, model_code, model_maker
from rowtide.engine.model import ModelRun
from rowtide.engine.modules import absolute
from rowtide.engine.row_type import RowType as EngineRowType
from rowtide.errors import Place, StatementError
from rowtide.plan.models import Model, ModelPort, tagged, tagging, untagging
from rowtide.plan.nodes import Filter, KeyedTable, Merge, Node, Project
from rowtide.rows.types import Field, RowType
from rowtide.sql.objects import (
    SYSTEM_SCHEMA,
    Catalog,
    Definition,
    Key,
    ModelDefinition,
    ModelOutputDefinition,
    Origin,
    StreamDefinition,
    relation_name,
)
from rowtide.sql.scope import ROWTIME
from rowtide.sql.servers import single
from rowtide.sql.statements import CreateModel, Drop
from rowtide.sql.suggestions import did_you_mean
from rowtide.sql.syntax import QualifiedName


def define_model(catalog: Catalog, statement: CreateModel, origin: Origin) -> Catalog:
    """Give the catalog after CREATE MODEL: the class is loaded and wired once, to learn its ports.

    Raises:
      StatementError: the name is taken, or the class cannot be loaded, wired or put into SQL.
    """
    name, place = single(statement.name, "a model"), statement.name.place
    if name in catalog.models and not statement.replace:
        raise StatementError(
            f'model "{name}" is there already', place=place, hint="CREATE OR REPLACE MODEL replaces it."
        )
    if name in catalog.schemas or name == SYSTEM_SCHEMA:
        raise StatementError(f'"{name}" is a schema, and a model is one of its own', place=place)
    options = tuple((item.name, item.value) for item in statement.options)
    try:
        folder = absolute(_folder(origin.file))
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
        # It was raised where the engine knows no text: here it has one.
        place = statement.path_place
        if isinstance(error, ModelOptionError):
            place = next(item.place for item in statement.options if item.name == error.option)
        raise StatementError(error.message, place=place, hint=error.hint) from error
    kept = _without_ports(catalog, name)
    found: dict[Key, Definition] = {}
    definitions: list[Definition] = [*inputs, *outputs]
    for port, definition in zip((*accepts, *gives), definitions, strict=True):
        key = (name, port.name.upper())
        if key in found:
            raise StatementError(
                f'model "{statement.path}" offers "{port.name}" as input and as output, or in two spellings',
                place=statement.path_place,
            )
        found[key] = definition
    model = ModelDefinition(statement.path, options, accepts, gives, origin, code, folder)
    return replace(kept, models={**catalog.models, name: model}, objects={**kept.objects, **found})


def drop_model(catalog: Catalog, statement: Drop) -> Catalog:
    """Give the catalog without a model.

    Raises:
      StatementError: there is none of that name.
    """
    name = single(statement.name, "a model")
    if name not in catalog.models:
        if statement.if_exists:
            return catalog
        raise StatementError(
            f'model "{name}" does not exist',
            place=statement.name.place,
            hint=did_you_mean(name, catalog.models),
        )
    models = {other: kept for other, kept in catalog.models.items() if other != name}
    return replace(_without_ports(catalog, name), models=models)


def ports_of(catalog: Catalog, name: QualifiedName) -> list[Key]:
    """Give the keys of the ports of the model that ``name`` means; none where there is no such model."""
    return [key for key in catalog.objects if len(name.parts) == 1 and _is_port(catalog, key, name)]


def refuse_port(catalog: Catalog, key: Key, place: Place) -> None:
    """Refuse to create, replace or drop something in the schema of a model.

    Raises:
      StatementError: if ``key`` is there.
    """
    if key[0] in catalog.models:
        raise StatementError(
            f'"{relation_name(key)}" is in the schema of model "{key[0]}"',
            place=place,
            hint="What is there comes and goes with the model.",
        )


def model_node(name: str, model: ModelDefinition, source: Callable[[Key], Node]) -> Model:
    """Give the node of a model; ``source`` gives those of its inputs."""
    sources = tuple(
        Project(
            name, source((name, port.name.upper())), tagging(model.accepts, number), tagged(model.accepts)
        )
        for number, port in enumerate(model.accepts)
    )
    below: Node = sources[0] if len(sources) == 1 else Merge(name, sources)
    return Model(
        name,
        below,
        model.path,
        model.options,
        model.accepts,
        model.gives,
        tagged(model.gives),
        model.code,
        model.folder,
    )


def output_node(relation: str, output: ModelOutputDefinition, model: Model) -> Node:
    """Give the node of one output: its rows, or the table that its changes make."""
    condition, expressions = untagging(model.gives, output.number)
    node: Node = Filter(relation, model, condition) if len(model.gives) > 1 else model
    node = Project(relation, node, expressions, output.row_type)
    return KeyedTable(relation, node, output.key) if output.changes else node


def _folder(file: str | None) -> str:
    """Give the folder of a pipeline's file, as its name says it; that of the process if there is none."""
    return (file or "").rpartition("/")[0] or "."


def _is_port(catalog: Catalog, key: Key, name: QualifiedName) -> bool:
    return key[0] in catalog.models and key[0] == name.parts[0].text


def _without_ports(catalog: Catalog, model: str) -> Catalog:
    kept = {key: found for key, found in catalog.objects.items() if key[0] != model}
    return replace(catalog, objects=kept)


def _ports(types: Mapping[str, EngineRowType], changes: tuple[str, ...]) -> tuple[ModelPort, ...]:
    """Give ports with SQL row types, fields spelled as the class does.

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
    """Give inputs with the keys by which the model is split.

    Raises:
      ModelError: the keys of two inputs do not go together.
    """
    found = [
        replace(port, key=tuple(port.row_type.index(field) for field in keys[port.name])) for port in accepts
    ]
    types = [[port.row_type[index].type for index in port.key] for port in found]
    for port, kinds in zip(found, types, strict=True):
        if kinds != types[0]:
            shown = [", ".join(map(str, each)) or "none" for each in (types[0], kinds)]
            raise ModelError(
                f'the keys of inputs "{found[0].name}" and "{port.name}" do not go together: '
                f"{shown[0]}; {shown[1]}",
                hint="A model is split by as many fields of the same types in all inputs, or not at all.",
            )
    return tuple(found)


def _folded(port: ModelPort) -> RowType:
    """Give the columns of a port: its fields under folded names.

    Raises:
      ModelError: two fields have one name then, or one is called ROWTIME.
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
