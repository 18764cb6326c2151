"""Schemas SYS and INFORMATION_SCHEMA: the system's tables. A prompt can read them; a pipeline cannot.

``SYS.ERRORS`` is the table of the error rows that a pipeline has committed
(docs/decisions/0004-errors-are-read-as-a-table.md). The others list what statements have defined; SHOW and
DESCRIBE are queries of them (docs/sql/catalog.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields

from rowtide.errors import SourceSpan, StatementError
from rowtide.expr.aggregates import AGGREGATES
from rowtide.expr.tree import PythonAggregate, PythonTable
from rowtide.plan.nodes import TableSource
from rowtide.rows.rowop import Row
from rowtide.rows.types import BIGINT, BOOLEAN, INTEGER, TIMESTAMP, VARCHAR, Field, Kind, RowType, Type
from rowtide.sql.catalog.finite import constant_table
from rowtide.sql.definitions.objects import (
    INFORMATION_SCHEMA,
    SYSTEM_SCHEMA,
    SYSTEM_SCHEMAS,
    Catalog,
    Key,
    Origin,
    PumpDefinition,
    TableDefinition,
    relation_name,
)
from rowtide.sql.expressions.aggregate_list import GROUP_WINDOWS, WINDOW_EDGES
from rowtide.sql.expressions.function_calls import scalar_functions
from rowtide.sql.grammar.clauses.aggregate_forms import OTHER_NAMES
from rowtide.sql.grammar.statements import Explain, ObjectKind, QueryStatement, SetSchema, Statement
from rowtide.sql.grammar.suggestions import did_you_mean_or_all
from rowtide.sql.grammar.syntax import QualifiedName

ERRORS: Key = (SYSTEM_SCHEMA, "ERRORS")
ERROR_ROWS = RowType(
    (
        Field("ERROR_ID", BIGINT, nullable=False),
        Field("KIND", VARCHAR, nullable=False),
        Field("RELATION", VARCHAR, nullable=False),
        Field("REASON", VARCHAR, nullable=False),
        Field("BOUND", TIMESTAMP),
        Field("ROW_TIME", TIMESTAMP),
        Field("RAW", Type(Kind.VARBINARY)),
        Field("ROW_JSON", VARCHAR),
        Field("STREAM", VARCHAR),
        Field("TOPIC", VARCHAR),
        Field("MESSAGE_PARTITION", INTEGER),
        Field("MESSAGE_OFFSET", BIGINT),
        Field("MESSAGE_TIME", TIMESTAMP),
        Field("RESUBMITTED", BIGINT),
        Field("COMMITTED_AT", TIMESTAMP, nullable=False),
    )
)
"""The columns of SYS.ERRORS, as in docs/sql/errors.md."""


def with_errors(catalog: Catalog, rows: Sequence[Row] = ()) -> Catalog:
    """Return a catalog in which SYS.ERRORS is a table that holds ``rows``."""
    origin = Origin("", None, SourceSpan(1, 1))
    return catalog.define(ERRORS, TableDefinition(ERROR_ROWS, (0,), origin, rows=tuple(rows)))


def refuse_change(statement: Statement) -> None:
    """Refuse a statement that creates, changes or fills an object in schema SYS.

    Raises:
      StatementError: with the place of the name.
    """
    if isinstance(statement, QueryStatement | Explain | SetSchema):
        return
    for field in fields(statement):
        name = getattr(statement, field.name)
        if isinstance(name, QualifiedName) and len(name.parts) > 1 and name.parts[0].text in SYSTEM_SCHEMAS:
            schema = name.parts[0].text
            raise StatementError(f'schema "{schema}" belongs to the system', span=name.place)


# ------------------------------------------------------------- what is defined

RowTypeOf = Callable[[Key], RowType]
"""Returns the columns of a relation."""
_KINDS = {ObjectKind.TABLE: "BASE TABLE"}
"""Kinds with another name in the SQL standard."""


def _columns_of(**types: Type) -> RowType:
    """Return columns, of which those whose name ends in ``_or_null`` may be NULL."""
    suffix = "_or_null"
    return RowType(
        tuple(
            Field(name.removesuffix(suffix).upper(), of, nullable=name.endswith(suffix))
            for name, of in types.items()
        )
    )


def _relations(catalog: Catalog) -> Iterator[tuple[Key, str]]:
    """Yield each relation with its kind."""
    for key, found in catalog.objects.items():
        if key[0] not in SYSTEM_SCHEMAS and found.kind is not ObjectKind.PUMP:
            yield key, _KINDS.get(found.kind, found.kind.value.upper())


def _schemata(catalog: Catalog, row_type_of: RowTypeOf) -> Iterator[Row]:
    del row_type_of
    yield from ((name,) for name in (*catalog.schemas, *catalog.models, *SYSTEM_SCHEMAS))


def _tables(catalog: Catalog, row_type_of: RowTypeOf) -> Iterator[Row]:
    del row_type_of
    yield from ((*key, kind) for key, kind in _relations(catalog))


def _table_columns(catalog: Catalog, row_type_of: RowTypeOf) -> Iterator[Row]:
    for key, _ in _relations(catalog):
        found = catalog.objects[key]
        primary = found.key if isinstance(found, TableDefinition) else ()
        for at, column in enumerate(row_type_of(key)):
            of = column.type
            length = of.precision if of.is_text or of.is_binary else None
            digits = (of.precision, of.scale) if of.kind is Kind.DECIMAL else (None, None)
            place = primary.index(at) + 1 if at in primary else None
            nullable = "YES" if column.nullable else "NO"
            yield (*key, column.name, at + 1, nullable, str(of), length, *digits, place)


def _pumps(catalog: Catalog, row_type_of: RowTypeOf) -> Iterator[Row]:
    del row_type_of
    for key, found in catalog.objects.items():
        if isinstance(found, PumpDefinition):
            yield (*key, relation_name(catalog.key(found.target, schema=found.schema)), found.started)


def _servers(catalog: Catalog, row_type_of: RowTypeOf) -> Iterator[Row]:
    del row_type_of
    yield from ((name, server.wrapper) for name, server in catalog.servers.items())


def _models(catalog: Catalog, row_type_of: RowTypeOf) -> Iterator[Row]:
    del row_type_of
    yield from ((name, model.path) for name, model in catalog.models.items())


def _indexes(catalog: Catalog, row_type_of: RowTypeOf) -> Iterator[Row]:
    for key, found in catalog.objects.items():
        if isinstance(found, TableDefinition):
            for index in found.indexes:
                names = ", ".join(row_type_of(key).names[at] for at in index.columns)
                yield (*key, index.name, names, index.unique)


def _functions(catalog: Catalog, row_type_of: RowTypeOf) -> Iterator[Row]:
    del row_type_of
    found = {(name, "SCALAR") for name in scalar_functions()}
    for name, function in catalog.functions.items():
        kind = {PythonAggregate: " AGGREGATE", PythonTable: " TABLE"}.get(type(function.declared.body), "")
        found.add((name, f"USER-DEFINED{kind}"))
    for aggregate in AGGREGATES.values():
        kind = "AGGREGATE" if aggregate.in_groups else "WINDOW"
        found |= {(name, kind) for name in aggregate.names}
    found |= {(name, "AGGREGATE") for name in OTHER_NAMES}
    found |= {(name, "GROUP WINDOW") for name in GROUP_WINDOWS | WINDOW_EDGES}
    yield from sorted(found)


_Rows = Callable[[Catalog, RowTypeOf], Iterator[Row]]
TABLES: dict[Key, tuple[RowType, _Rows]] = {
    (INFORMATION_SCHEMA, "SCHEMATA"): (_columns_of(schema_name=VARCHAR), _schemata),
    (INFORMATION_SCHEMA, "TABLES"): (
        _columns_of(table_schema=VARCHAR, table_name=VARCHAR, table_type=VARCHAR),
        _tables,
    ),
    (INFORMATION_SCHEMA, "COLUMNS"): (
        _columns_of(
            table_schema=VARCHAR,
            table_name=VARCHAR,
            column_name=VARCHAR,
            ordinal_position=INTEGER,
            is_nullable=VARCHAR,
            data_type=VARCHAR,
            character_maximum_length_or_null=INTEGER,
            numeric_precision_or_null=INTEGER,
            numeric_scale_or_null=INTEGER,
            key_position_or_null=INTEGER,
        ),
        _table_columns,
    ),
    (SYSTEM_SCHEMA, "PUMPS"): (
        _columns_of(pump_schema=VARCHAR, pump_name=VARCHAR, target=VARCHAR, started=BOOLEAN),
        _pumps,
    ),
    (SYSTEM_SCHEMA, "SERVERS"): (_columns_of(server_name=VARCHAR, wrapper=VARCHAR), _servers),
    (SYSTEM_SCHEMA, "MODELS"): (_columns_of(model_name=VARCHAR, class_path=VARCHAR), _models),
    (SYSTEM_SCHEMA, "INDEXES"): (
        _columns_of(
            table_schema=VARCHAR,
            table_name=VARCHAR,
            index_name=VARCHAR,
            column_names=VARCHAR,
            is_unique=BOOLEAN,
        ),
        _indexes,
    ),
    (SYSTEM_SCHEMA, "FUNCTIONS"): (_columns_of(function_name=VARCHAR, function_kind=VARCHAR), _functions),
}
"""The columns of each table that lists definitions, and its rows."""


def catalog_table(
    catalog: Catalog, name: QualifiedName, row_type_of: RowTypeOf, *, at_prompt: bool
) -> TableSource | None:
    """Return a table of the definitions in ``catalog``; None for the name of any other relation.

    Raises:
      StatementError: the statement is not a query of the prompt, or the system schema has no such table.
    """
    if len(name.parts) != 2 or name.parts[0].text not in SYSTEM_SCHEMAS:
        return None
    key = (name.parts[0].text, name.parts[1].text)
    if key == ERRORS:
        return None
    if key not in TABLES:
        there = [relation_name(each) for each in (*TABLES, ERRORS) if each[0] == key[0]]
        raise StatementError(
            f'relation "{relation_name(key)}" does not exist',
            span=name.place,
            hint=did_you_mean_or_all(relation_name(key), there),
        )
    if not at_prompt:
        raise StatementError(
            f'"{relation_name(key)}" is not a relation of the pipeline',
            span=name.place,
            hint=f"rowtide sql pipeline.sql -e 'SELECT * FROM {relation_name(key)}' lists it.",
        )
    row_type, rows = TABLES[key]
    return constant_table(row_type, tuple(rows(catalog, row_type_of)))
