"""CREATE STREAM or TABLE name AS query: the relation with the columns of the query, and the pump that fills it.

See docs/sql/views-and-pumps.md#create-as.
"""

from __future__ import annotations

from rowtide.errors import StatementError
from rowtide.sql.definitions.objects import Catalog, Origin
from rowtide.sql.grammar.statements import ColumnDefinition, CreateAs, CreatePump, CreateRelation, ObjectKind
from rowtide.sql.grammar.syntax import Name, QualifiedName, ValuesSyntax
from rowtide.sql.planning.planner import Planner
from rowtide.sql.relations.relations import QueryShape, distinct_names, is_unnamed, projected, renamed
from rowtide.sql.statements.define import define, refuse_existing

PUMP = "_PUMP"
"""The name of the pump is that of the relation with this at its end."""


def relation_and_pump(
    catalog: Catalog, planner: Planner, statement: CreateAs, origin: Origin
) -> tuple[CreateRelation, CreatePump]:
    """Return the two statements that ``statement`` stands for. ``planner`` is one of an earlier catalog.

    Raises:
      StatementError: the query cannot be planned, one of its columns has no name, or the pump exists.
    """
    if isinstance(statement.query, ValuesSyntax):
        raise StatementError(
            f"a {statement.kind.value} cannot be created AS VALUES",
            span=statement.query.place,
            hint=f"Write CREATE {statement.kind.value.upper()} name (..) and INSERT INTO name VALUES (..).",
        )
    refuse_existing(catalog, statement.name, statement.kind, replaced=statement.replace)
    pump = _pump(statement)
    try:
        refuse_existing(catalog, pump.name, ObjectKind.PUMP, replaced=statement.replace)
    except StatementError as error:
        error.hint = f'The pump that fills "{statement.name.parts[-1].text}" gets this name.'
        raise
    with_pump = define(catalog, pump, origin)
    shape = planner.grown(with_pump).pumped(with_pump.key(pump.name))
    distinct_names(statement.columns)
    shape = renamed(shape, statement.columns, f'{statement.kind.value} "{statement.name.parts[-1].text}"')
    row_type = projected(shape, pump.name.parts[-1].text).row_type
    columns: list[ColumnDefinition] = []
    for field, output in zip(row_type, shape.fields, strict=True):
        if not statement.columns and is_unnamed(output):
            raise StatementError(
                f"column {len(columns) + 1} of the {statement.kind.value} has no name",
                span=output.place,
                hint="Name it with AS.",
            )
        columns.append(ColumnDefinition(Name(field.name, output.place), field.type, field.nullable))
    relation = CreateRelation(
        statement.kind,
        statement.name,
        statement.replace,
        tuple(columns),
        statement.key or _key(statement, shape),
        statement.server,
        statement.options,
        statement.place,
    )
    return relation, pump


def _pump(statement: CreateAs) -> CreatePump:
    """Return the statement that creates the pump."""
    *schema, own = statement.name.parts
    name = QualifiedName((*schema, Name(own.text + PUMP, own.place)), statement.name.place)
    return CreatePump(
        name,
        statement.replace,
        started=True,
        target=statement.name,
        columns=(),
        query=statement.query,
        options=statement.pump_options,
        place=statement.place,
    )


def _key(statement: CreateAs, shape: QueryShape) -> tuple[Name, ...]:
    """Return the PRIMARY KEY of a table whose rows are those of a table: the columns of the key of its changes."""
    if not shape.changelog or statement.kind not in (ObjectKind.TABLE, ObjectKind.FOREIGN_TABLE):
        return ()
    node = projected(shape, statement.name.parts[-1].text)
    place = statement.name.place
    return tuple(Name(node.row_type[field].name, place) for field in node.key_fields() or ())
