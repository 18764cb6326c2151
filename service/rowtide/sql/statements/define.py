"""The effect of statements on the catalog. Pure: a catalog in, a catalog out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.sql.catalog.columns import (
    Defaults,
    column_options_of,
    defaults_of,
    filled_by_a_topic,
    row_type_of,
    with_column,
    with_renamed_column,
    without_column,
)
from rowtide.sql.catalog.foreign_keys import refuse_another_key, with_foreign_keys, with_renamed_table
from rowtide.sql.catalog.models import drop_model, refuse_port
from rowtide.sql.catalog.servers import (
    altered,
    create_server,
    create_wrapper,
    drop_server,
    drop_wrapper,
    max_ahead_ms,
    options_of,
    refuse_if_used,
    server_for,
    single,
)
from rowtide.sql.catalog.values import inserted_rows
from rowtide.sql.definitions.objects import (
    SYSTEM_SCHEMAS,
    Catalog,
    Key,
    ObjectDefinition,
    Origin,
    PumpDefinition,
    Retention,
    SecondaryIndex,
    StreamDefinition,
    TableDefinition,
    ViewDefinition,
    relation_name,
)
from rowtide.sql.grammar.literals import interval_text_ms
from rowtide.sql.grammar.statements import (
    AddColumn,
    Alter,
    AlterPump,
    CreateAs,
    Created,
    CreateFunction,
    CreateIndex,
    CreateModel,
    CreatePump,
    CreateRelation,
    CreateSchema,
    CreateServer,
    CreateView,
    CreateWrapper,
    Drop,
    DropColumn,
    IndexDefinition,
    InsertValues,
    ObjectKind,
    OptionItem,
    Rename,
    SetSchema,
    Statement,
)
from rowtide.sql.grammar.suggestions import did_you_mean
from rowtide.sql.grammar.syntax import Name, QualifiedName
from rowtide.sql.grammar.syntax_walk import pseudo_in
from rowtide.sql.relations.relations import column_index, distinct_names

RETENTION, UNBOUNDED = "retention", "UNBOUNDED"


def define(catalog: Catalog, statement: Statement, origin: Origin) -> Catalog:
    """Return the catalog after ``statement``.

    Raises:
      StatementError: the statement does not fit the catalog; with its place.
    """
    match statement:
        case CreateSchema():
            return _create_schema(catalog, statement)
        case SetSchema(name=name):
            return replace(catalog, current=_schema(catalog, name))
        case CreateServer():
            return create_server(catalog, statement)
        case CreateWrapper():
            return create_wrapper(catalog, statement)
        case CreateIndex(table=table, index=index):
            return _create_index(catalog, table, index)
        case Alter():
            return altered(catalog, statement)
        case CreateRelation():
            return _create_relation(catalog, statement, origin)
        case CreateView(alters=True):
            return _altered_view(catalog, statement, origin)
        case CreateView():
            view = ViewDefinition(
                statement.query,
                statement.columns,
                catalog.current,
                origin,
                pseudo_in(statement.query),
                _retention(statement.options),
            )
            distinct_names(statement.columns)
            return _create(catalog, statement.name, statement.replace, view)
        case CreatePump():
            pump = PumpDefinition(
                statement.query,
                statement.target,
                statement.columns,
                catalog.current,
                statement.started,
                origin,
                pseudo_in(statement.query),
                _retention(statement.options),
            )
            return _create(catalog, statement.name, statement.replace, pump)
        case CreateModel():
            from rowtide.sql.catalog.model_classes import define_model

            return define_model(catalog, statement, origin)
        case CreateFunction():
            from rowtide.sql.statements.defining import define_function

            return define_function(catalog, statement, origin)
        case InsertValues():
            return _insert(catalog, statement)
        case AddColumn():
            return with_column(catalog, statement)
        case DropColumn():
            return without_column(catalog, statement)
        case Rename(column=Name() as column):
            return with_renamed_column(catalog, statement, column)
        case Rename():
            return _renamed(catalog, statement)
        case AlterPump(names=(name,), start=start, every=True):
            schema = _schema(catalog, name) if name.parts else catalog.current
            for key, pump in catalog.pumps():
                if key[0] == schema:
                    catalog = catalog.define(key, replace(pump, started=start, origin=origin))
            return catalog
        case AlterPump(names=names, start=start):
            for name in names:
                key, found = catalog.find(name, "pump")
                if not isinstance(found, PumpDefinition):
                    raise StatementError(
                        f'"{relation_name(key)}" is a {found.kind.value}, not a pump', span=name.place
                    )
                catalog = catalog.define(key, replace(found, started=start, origin=origin))
            return catalog
        case Drop():
            return _drop(catalog, statement)
        case _:
            raise StatementError("a query does not define a relation", span=statement.place)


def exists(catalog: Catalog, statement: Created) -> bool:
    """Return whether there is an object of the kind and name that a statement creates."""
    match statement:
        case CreateSchema(name=name):
            return single(name, "a schema") in catalog.schemas
        case CreateServer(name=name):
            return single(name, "a server") in catalog.servers
        case CreateWrapper(name=name):
            return single(name, "a wrapper") in catalog.wrappers
        case CreateModel(name=name):
            return single(name, "a model") in catalog.models
        case CreateFunction(name=name):
            return single(name, "a function") in catalog.functions
        case CreateIndex(table=table, index=index):
            schema = catalog.key(table)[0]
            tables = (found for key, found in catalog.objects.items() if key[0] == schema)
            indexes = (
                each for found in tables if isinstance(found, TableDefinition) for each in found.indexes
            )
            return index.name is not None and any(each.name == index.name.text for each in indexes)
        case CreateRelation(name=name, kind=kind) | CreateAs(name=name, kind=kind):
            pass
        case CreateView(name=name):
            kind = ObjectKind.VIEW
        case CreatePump(name=name):
            kind = ObjectKind.PUMP
    there = catalog.objects.get(catalog.key(name))
    return there is not None and there.kind is kind


# -------------------------------------------------------------------- schemas


def _altered_view(catalog: Catalog, statement: CreateView, origin: Origin) -> Catalog:
    """Replace the query of a view. Its OPTIONS stay unless the statement has OPTIONS."""
    key, found = catalog.find(statement.name, "view")
    if not isinstance(found, ViewDefinition):
        raise StatementError(
            f'"{relation_name(key)}" is a {found.kind.value}, not a view', span=statement.name.place
        )
    distinct_names(statement.columns)
    view = replace(
        found,
        query=statement.query,
        columns=statement.columns,
        schema=catalog.current,
        origin=origin,
        pseudo=pseudo_in(statement.query),
        retention=_retention(statement.options) if statement.options else found.retention,
    )
    return catalog.define(key, view)


def _create_schema(catalog: Catalog, statement: CreateSchema) -> Catalog:
    name = single(statement.name, "a schema")
    if name in catalog.models:
        raise StatementError(f'"{name}" is a model', span=statement.name.place)
    if name in catalog.schemas:
        if not statement.replace:
            raise StatementError(f'schema "{name}" already exists', span=statement.name.place)
        return catalog
    if name in SYSTEM_SCHEMAS:
        raise StatementError(f'schema "{name}" belongs to the system', span=statement.name.place)
    return replace(catalog, schemas=(*catalog.schemas, name))


def _schema(catalog: Catalog, name: QualifiedName) -> str:
    wanted = single(name, "a schema")
    if wanted not in catalog.schemas:
        raise StatementError(
            f'schema "{wanted}" does not exist',
            span=name.place,
            hint=did_you_mean(wanted, catalog.schemas) or f"Create it with CREATE SCHEMA {wanted};.",
        )
    return wanted


# -------------------------------------------------------------------- options


def _retention(items: Sequence[OptionItem]) -> Retention | None:
    """Read the options of a view or pump; the only one is RETENTION.

    Raises:
      StatementError: an option does not exist, or its value is not an interval.
    """
    retention = None
    for item in items:
        if item.name != RETENTION:
            raise StatementError(
                f'option "{item.name}" does not exist here', span=item.place, hint=f"Available: {RETENTION}."
            )
        if item.value.strip().upper() == UNBOUNDED:
            retention = Retention(None)
            continue
        try:
            retention = Retention(interval_text_ms(item.value))
        except ValueError as error:
            raise StatementError(
                f'option "{RETENTION}": {error}', span=item.place, hint=f"'{UNBOUNDED}' keeps everything."
            ) from error
    return retention


# ------------------------------------------------------------------ relations


def _create_relation(catalog: Catalog, statement: CreateRelation, origin: Origin) -> Catalog:
    row_type, key = row_type_of(statement.columns, statement.key)
    defaults = defaults_of(statement.columns, row_type)
    server = None if statement.server is None else server_for(catalog, statement).name
    options = options_of(statement.options)
    read_by = column_options_of(statement.columns, statement.kind, of_messages=server is not None)
    definition: ObjectDefinition
    if statement.kind in (ObjectKind.STREAM, ObjectKind.FOREIGN_STREAM):
        if statement.key:
            raise StatementError("a stream has no PRIMARY KEY", span=statement.key[0].place)
        if statement.indexes:
            what = "UNIQUE" if statement.indexes[0].unique else "INDEX"
            raise StatementError(f"a stream has no {what}", span=statement.indexes[0].place)
        max_ahead = None if server is None else max_ahead_ms(options, statement.options)
        definition = StreamDefinition(
            row_type,
            origin,
            server,
            options,
            max_ahead,
            defaults=_no_defaults_of_messages(statement, defaults),
            checks=statement.checks,
            column_options=read_by,
        )
    elif statement.kind is ObjectKind.TABLE and server is not None:
        _check_filled(statement)
        definition = TableDefinition(
            row_type,
            key,
            origin,
            source=server,
            options=options,
            checks=statement.checks,
            column_options=read_by,
        )
    else:
        table = TableDefinition(
            row_type, key, origin, server, options, defaults=defaults, checks=statement.checks
        )
        own = catalog.key(statement.name)
        table = with_foreign_keys(catalog, own, table, statement.foreign_keys)
        refuse_another_key(catalog, own, table, statement.name.place)
        definition = _indexed(relation_name(own), table, statement.indexes)
    if server is None and statement.options:
        item = statement.options[0]
        raise StatementError(f'option "{item.name}" is for a foreign {statement.kind.value}', span=item.place)
    return _create(catalog, statement.name, statement.replace, definition)


def _check_filled(statement: CreateRelation) -> None:
    """Check that a topic, or a table of a database, can fill a table.

    Raises:
      StatementError: it has no PRIMARY KEY, or it has constraints that only INSERT and pumps support.
    """
    if not statement.key:
        raise StatementError(
            "a table with SERVER has a PRIMARY KEY: changes are applied by it",
            span=statement.name.place,
            hint="Name the columns that tell its rows apart: PRIMARY KEY (id).",
        )
    if statement.indexes:
        what = "UNIQUE" if statement.indexes[0].unique else "INDEX"
        raise StatementError(f"a table with SERVER cannot have {what}", span=statement.indexes[0].place)
    for column in statement.columns:
        if column.default is not None:
            raise StatementError(
                "a table with SERVER cannot have DEFAULT: a missing field is NULL",
                span=column.name.place,
                hint="Use COALESCE(column, ..) in a view on it.",
            )


def _no_defaults_of_messages(statement: CreateRelation, defaults: Defaults) -> Defaults:
    if statement.kind is ObjectKind.FOREIGN_STREAM and defaults:
        raise StatementError(
            "a foreign stream cannot have DEFAULT: a missing field is NULL",
            span=statement.columns[defaults[0][0]].name.place,
            hint="Use COALESCE(column, ..) in a view on it.",
        )
    return defaults


def _indexed(relation: str, table: TableDefinition, indexes: Sequence[IndexDefinition]) -> TableDefinition:
    """Return a table with further indexes. An index without a name gets a name from its columns.

    Raises:
      StatementError: the table is a foreign one, a column does not exist, or a name appears twice.
    """
    for index in indexes:
        if table.server is not None:
            raise StatementError(
                f"a foreign table cannot have {'UNIQUE' if index.unique else 'INDEX'}",
                span=index.place,
                hint="Create it in the database.",
            )
        distinct_names(index.columns)
        columns = tuple(column_index(table.row_type, name, relation) for name in index.columns)
        name = "_".join(each.text for each in index.columns) if index.name is None else index.name.text
        if any(name == other.name for other in table.indexes):
            raise StatementError(f'index "{name}" of the table already exists', span=index.place)
        table = replace(table, indexes=(*table.indexes, SecondaryIndex(name, columns, index.unique)))
    return table


def _create_index(catalog: Catalog, name: QualifiedName, index: IndexDefinition) -> Catalog:
    key, found = catalog.find(name, "table")
    if not isinstance(found, TableDefinition):
        raise StatementError(f'"{relation_name(key)}" is a {found.kind.value}, not a table', span=name.place)
    return catalog.define(key, _indexed(relation_name(key), found, [index]))


def _drop_index(catalog: Catalog, statement: Drop) -> Catalog:
    schema, name = catalog.key(statement.name)
    there: list[str] = []
    for key, found in catalog.objects.items():
        if key[0] != schema or not isinstance(found, TableDefinition):
            continue
        kept = tuple(index for index in found.indexes if index.name != name)
        if len(kept) < len(found.indexes):
            return catalog.define(key, replace(found, indexes=kept))
        there += [index.name for index in kept]
    if statement.if_exists:
        return catalog
    raise StatementError(
        f'index "{name}" does not exist', span=statement.name.place, hint=did_you_mean(name, there)
    )


def _create(catalog: Catalog, name: QualifiedName, replaced: bool, definition: ObjectDefinition) -> Catalog:
    refuse_existing(catalog, name, definition.kind, replaced=replaced)
    return catalog.define(catalog.key(name), definition)


def refuse_existing(catalog: Catalog, name: QualifiedName, kind: ObjectKind, *, replaced: bool) -> None:
    """Refuse to create an object whose name another one has; with ``replaced``, one of another kind.

    Raises:
      StatementError: there is such an object, or the schema takes none.
    """
    key = catalog.key(name)
    there = catalog.objects.get(key)
    shown = relation_name(key)
    refuse_port(catalog, key, name.place)
    if key[0] in SYSTEM_SCHEMAS:
        raise StatementError(f'schema "{key[0]}" belongs to the system', span=name.place)
    if there is not None and not replaced:
        hint = f"CREATE OR REPLACE {kind.value.upper()} replaces it." if there.kind is kind else None
        raise StatementError(f'{there.kind.value} "{shown}" already exists', span=name.place, hint=hint)
    if there is not None and there.kind is not kind:
        raise StatementError(
            f'"{shown}" is a {there.kind.value} and cannot be replaced by a {kind.value}',
            span=name.place,
        )


def _renamed(catalog: Catalog, statement: Rename) -> Catalog:
    """Rename a relation or pump that nothing else names. It keeps its place in the order."""
    key, _ = catalog.find_of(statement.name, statement.kind)
    refuse_port(catalog, key, statement.name.place)
    to = (key[0], statement.to.text)
    if to in catalog.objects:
        shown = f'{catalog.objects[to].kind.value} "{relation_name(to)}"'
        raise StatementError(f"{shown} already exists", span=statement.to.place)
    objects = {
        to if each == key else each: with_renamed_table(definition, key, to)
        for each, definition in catalog.objects.items()
    }
    return replace(catalog, objects=objects)


def _insert(catalog: Catalog, statement: InsertValues) -> Catalog:
    key, found = catalog.find(statement.target, "table")
    shown = relation_name(key)
    if isinstance(found, TableDefinition) and found.source is not None:
        raise filled_by_a_topic(shown, statement.target.place)
    if not isinstance(found, TableDefinition) or found.server is not None:
        hint = None
        if found.kind is ObjectKind.STREAM:
            hint = "Rows of a stream come from its producers, pumps or a scenario."
        raise StatementError(
            f'INSERT of values into {found.kind.value} "{shown}" is not supported yet',
            span=statement.target.place,
            hint=hint,
        )
    rows = inserted_rows(statement, found.row_type, found.key, shown, dict(found.defaults))
    return catalog.define(key, replace(found, rows=found.rows + rows))


# ----------------------------------------------------------------------- drop


def _drop(catalog: Catalog, statement: Drop) -> Catalog:
    name = statement.name
    if statement.kind is ObjectKind.SCHEMA:
        return _drop_schema(catalog, statement, single(name, "a schema"))
    if statement.kind is ObjectKind.SERVER:
        return drop_server(catalog, name, if_exists=statement.if_exists)
    if statement.kind is ObjectKind.WRAPPER:
        return drop_wrapper(catalog, name, if_exists=statement.if_exists)
    if statement.kind is ObjectKind.INDEX:
        return _drop_index(catalog, statement)
    if statement.kind is ObjectKind.MODEL:
        return drop_model(catalog, statement)
    if statement.kind is ObjectKind.FUNCTION:
        from rowtide.sql.statements.defining import drop_function

        return drop_function(catalog, statement)
    if statement.if_exists and catalog.key(name) not in catalog.objects:
        return catalog
    key, _ = catalog.find_of(name, statement.kind)
    return catalog.without(key)


def _drop_schema(catalog: Catalog, statement: Drop, schema: str) -> Catalog:
    place = statement.name.place
    if schema not in catalog.schemas:
        if statement.if_exists:
            return catalog
        raise StatementError(
            f'schema "{schema}" does not exist', span=place, hint=did_you_mean(schema, catalog.schemas)
        )
    users = [relation_name(key) for key in catalog.objects if key[0] == schema]
    refuse_if_used(f'schema "{schema}"', users, place)
    if schema == catalog.current:
        raise StatementError(f'schema "{schema}" is the current schema', span=place)
    return replace(catalog, schemas=tuple(other for other in catalog.schemas if other != schema))


def refuse_drop_of_used(catalog: Catalog, key: Key, readers: Iterable[Key], span: SourceSpan) -> None:
    """Refuse to drop an object that other definitions read or write.

    Raises:
      StatementError: other definitions use it; the message names them.
    """
    found = catalog.objects[key]
    users = [relation_name(reader) for reader in readers if reader != key]
    refuse_if_used(f'{found.kind.value} "{relation_name(key)}"', users, span)
