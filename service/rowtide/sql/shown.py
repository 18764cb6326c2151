"""SHOW and DESCRIBE as queries of the tables that list what is defined (docs/sql/catalog.md)."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.errors import StatementError
from rowtide.sql.definitions.objects import SYSTEM_SCHEMAS, Catalog, PumpDefinition, relation_name
from rowtide.sql.grammar.statement_grammar import parse
from rowtide.sql.grammar.statements import Describe, QueryStatement, Show
from rowtide.sql.grammar.suggestions import did_you_mean_or_all
from rowtide.sql.grammar.syntax import QuerySyntax

_TABLES = "INFORMATION_SCHEMA.TABLES"


@dataclass(frozen=True, slots=True)
class _Listing:
    """The table of a SHOW, and its columns: that of the name first, then the others that are shown."""

    table: str
    columns: tuple[str, ...]
    schema: str | None = None
    kinds: tuple[str, ...] = ()


_LISTINGS = {
    "TABLES": _Listing(
        _TABLES,
        ("table_name", "table_schema", "table_type"),
        "table_schema",
        ("BASE TABLE", "FOREIGN TABLE", "MODEL TABLE"),
    ),
    "STREAMS": _Listing(
        _TABLES,
        ("table_name", "table_schema", "table_type"),
        "table_schema",
        ("STREAM", "FOREIGN STREAM", "MODEL OUTPUT"),
    ),
    "VIEWS": _Listing(_TABLES, ("table_name", "table_schema"), "table_schema", ("VIEW",)),
    "PUMPS": _Listing("SYS.PUMPS", ("pump_name", "pump_schema", "target", "started"), "pump_schema"),
    "INDEXES": _Listing(
        "SYS.INDEXES",
        ("index_name", "table_schema", "table_name", "column_names", "is_unique"),
        "table_schema",
    ),
    "FUNCTIONS": _Listing("SYS.FUNCTIONS", ("function_name", "function_kind")),
    "SERVERS": _Listing("SYS.SERVERS", ("server_name", "wrapper")),
    "MODELS": _Listing("SYS.MODELS", ("model_name", "class_path")),
    "SCHEMAS": _Listing("INFORMATION_SCHEMA.SCHEMATA", ("schema_name",)),
}
_COLUMNS = "column_name, data_type, is_nullable, key_position"


def as_query(catalog: Catalog, statement: Show | Describe) -> QuerySyntax:
    """Return the query of SHOW or DESCRIBE.

    Raises:
      StatementError: the relation or schema does not exist, or has no columns; with its place.
    """
    if isinstance(statement, Show):
        return _parsed(_shown(catalog, statement))
    name = statement.name
    if len(name.parts) == 2 and name.parts[0].text in SYSTEM_SCHEMAS:
        raise StatementError(
            "the tables of the system are not described",
            span=name.place,
            hint=f"SELECT * FROM {relation_name((name.parts[0].text, name.parts[1].text))} shows its rows.",
        )
    key, found = catalog.find(name, "relation")
    if isinstance(found, PumpDefinition):
        raise StatementError(
            f'"{relation_name(key)}" is a pump, which has no columns',
            span=name.place,
            hint="SHOW PUMPS lists pumps.",
        )
    schema, relation = map(_text, key)
    return _parsed(
        f"SELECT {_COLUMNS} FROM INFORMATION_SCHEMA.COLUMNS"
        f" WHERE table_schema = {schema} AND table_name = {relation} ORDER BY ordinal_position"
    )


def _shown(catalog: Catalog, statement: Show) -> str:
    listing = _LISTINGS[statement.what]
    name = listing.columns[0]
    conditions = []
    if listing.kinds:
        conditions.append(f"table_type IN ({', '.join(map(_text, listing.kinds))})")
    if statement.schema is not None:
        schema = statement.schema.text
        there = (*catalog.schemas, *catalog.models)
        if schema not in there:
            raise StatementError(
                f'schema "{schema}" does not exist',
                span=statement.schema.place,
                hint=did_you_mean_or_all(schema, there),
            )
        conditions.append(f"{listing.schema} = {_text(schema)}")
    if statement.pattern is not None:
        conditions.append(f"{name} ILIKE {_text(statement.pattern)}")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(listing.columns)} FROM {listing.table}{where} ORDER BY {', '.join(listing.columns)}"


def _parsed(text: str) -> QuerySyntax:
    (statement,) = parse(text)
    assert isinstance(statement, QueryStatement)
    return statement.query


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
