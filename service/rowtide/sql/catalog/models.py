"""Models in the catalog and in plans: their ports, their node, DROP MODEL (docs/sql/semantics.md#models).

``model_classes`` adds them to the catalog.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.plan.nodes import Filter, KeyedTable, Merge, Model, Node, Project
from rowtide.plan.nodes.model import tagged, tagging, untagging
from rowtide.sql.catalog.servers import single
from rowtide.sql.definitions.objects import (
    Catalog,
    Key,
    ModelDefinition,
    ModelOutputDefinition,
    relation_name,
)
from rowtide.sql.grammar.statements import Drop
from rowtide.sql.grammar.suggestions import did_you_mean
from rowtide.sql.grammar.syntax import QualifiedName


def drop_model(catalog: Catalog, statement: Drop) -> Catalog:
    """Return the catalog without a model.

    Raises:
      StatementError: the model does not exist.
    """
    name = single(statement.name, "a model")
    if name not in catalog.models:
        if statement.if_exists:
            return catalog
        raise StatementError(
            f'model "{name}" does not exist',
            span=statement.name.place,
            hint=did_you_mean(name, catalog.models),
        )
    models = {other: kept for other, kept in catalog.models.items() if other != name}
    return replace(without_ports(catalog, name), models=models)


def ports_of(catalog: Catalog, name: QualifiedName) -> list[Key]:
    """Return the keys of the ports of model ``name``; none if it does not exist."""
    return [key for key in catalog.objects if len(name.parts) == 1 and _is_port(catalog, key, name)]


def refuse_port(catalog: Catalog, key: Key, span: SourceSpan) -> None:
    """Refuse to create, replace or drop an object in the schema of a model.

    Raises:
      StatementError: if ``key`` is in such a schema.
    """
    if key[0] in catalog.models:
        raise StatementError(
            f'"{relation_name(key)}" is in the schema of model "{key[0]}"',
            span=span,
            hint="Its relations are created and dropped with the model.",
        )


def model_node(name: str, model: ModelDefinition, source: Callable[[Key], Node]) -> Model:
    """Return the node of a model; ``source`` returns the nodes of its inputs."""
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
    """Return the node of one output: its rows, or the table that its changes define."""
    condition, expressions = untagging(model.gives, output.number)
    node: Node = Filter(relation, model, condition) if len(model.gives) > 1 else model
    node = Project(relation, node, expressions, output.row_type)
    return KeyedTable(relation, node, output.key) if output.changes else node


def _is_port(catalog: Catalog, key: Key, name: QualifiedName) -> bool:
    return key[0] in catalog.models and key[0] == name.parts[0].text


def without_ports(catalog: Catalog, model: str) -> Catalog:
    """Return the catalog without the ports of a model."""
    kept = {key: found for key, found in catalog.objects.items() if key[0] != model}
    return replace(catalog, objects=kept)
