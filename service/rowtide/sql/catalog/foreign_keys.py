"""Foreign keys between foreign tables (docs/decisions/0029)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from rowtide.errors import SourceSpan, StatementError
from rowtide.rows.types import RowType
from rowtide.sql.definitions.objects import (
    Catalog,
    ForeignKeyTo,
    Key,
    ObjectDefinition,
    TableDefinition,
    relation_name,
)
from rowtide.sql.grammar.statements import ForeignKeyDefinition, ObjectKind
from rowtide.sql.relations.relations import column_index, distinct_names


def with_foreign_keys(
    catalog: Catalog, own: Key, table: TableDefinition, keys: Sequence[ForeignKeyDefinition]
) -> TableDefinition:
    """Return foreign table ``own`` with foreign keys.

    Raises:
      StatementError: a table or column does not exist, the columns do not fit the PRIMARY KEY, or tables refer to each
        other in a circle.
    """
    for each in keys:
        table = replace(table, foreign_keys=(*table.foreign_keys, _resolved(catalog, own, table, each)))
    return table


def _resolved(catalog: Catalog, own: Key, table: TableDefinition, key: ForeignKeyDefinition) -> ForeignKeyTo:
    distinct_names(key.columns)
    columns = tuple(column_index(table.row_type, name, relation_name(own)) for name in key.columns)
    other, referred = own, table
    if catalog.key(key.table) != own:
        other, found = catalog.find_of(key.table, ObjectKind.FOREIGN_TABLE)
        assert isinstance(found, TableDefinition)
        referred = found
    shown = relation_name(other)
    if not referred.key:
        raise StatementError(
            f'foreign table "{shown}" has no PRIMARY KEY that FOREIGN KEY could refer to',
            span=key.table.place,
        )
    fields = referred.key
    if key.referred is not None:
        distinct_names(key.referred)
        fields = tuple(column_index(referred.row_type, name, shown) for name in key.referred)
    names = ", ".join(referred.row_type[at].name for at in referred.key)
    if sorted(fields) != sorted(referred.key) or len(columns) != len(fields):
        raise StatementError(
            f'FOREIGN KEY has to refer to the PRIMARY KEY of "{shown}", column by column',
            span=key.place,
            hint=f"The PRIMARY KEY of the foreign table is ({names}). It may be any unique key of the table.",
        )
    ordered = tuple(columns[fields.index(at)] for at in referred.key)
    _same_types(table.row_type, ordered, referred, key.place)
    if other != own and own in _referred_by(catalog, other):
        raise StatementError(
            f'foreign tables "{relation_name(own)}" and "{shown}" refer to each other',
            span=key.table.place,
            hint="No order of their rows satisfies both keys. Drop one of them in the database.",
        )
    return ForeignKeyTo(ordered, other)


def _same_types(
    row_type: RowType, columns: Sequence[int], referred: TableDefinition, span: SourceSpan
) -> None:
    for at, key in zip(columns, referred.key, strict=True):
        own, other = row_type[at], referred.row_type[key]
        if own.type.kind is not other.type.kind:
            raise StatementError(
                f'column "{own.name}" is {own.type}, and "{other.name}", to which it refers, is {other.type}',
                span=span,
            )


def _referred_by(catalog: Catalog, table: Key) -> Collection[Key]:
    """Return the tables to which a table refers, directly or through others."""
    found: dict[Key, None] = {}
    waiting = [table]
    while waiting:
        held = catalog.objects[waiting.pop()]
        if isinstance(held, TableDefinition):
            new = [each.table for each in held.foreign_keys if each.table not in found]
            found.update(dict.fromkeys(new))
            waiting += new
    return found


def refuse_another_key(catalog: Catalog, own: Key, table: TableDefinition, span: SourceSpan) -> None:
    """Refuse to replace a table by one to whose PRIMARY KEY the keys of other tables do not fit.

    Raises:
      StatementError: names the other table.
    """
    for key in referring(catalog, [own]):
        held = catalog.objects[key]
        assert isinstance(held, TableDefinition)
        for each in held.foreign_keys:
            if key != own and each.table == own and len(each.columns) != len(table.key):
                raise StatementError(
                    f'foreign table "{relation_name(key)}" refers to another PRIMARY KEY of this table',
                    span=span,
                    hint="Drop that table first, or replace it by one with another FOREIGN KEY.",
                )


def with_renamed_table(definition: ObjectDefinition, before: Key, after: Key) -> ObjectDefinition:
    """Return a definition whose foreign keys refer to a table by its new name."""
    if not isinstance(definition, TableDefinition) or not definition.foreign_keys:
        return definition
    keys = (replace(each, table=after) if each.table == before else each for each in definition.foreign_keys)
    return replace(definition, foreign_keys=tuple(keys))


def referring(catalog: Catalog, tables: Collection[Key]) -> Iterator[Key]:
    """Yield the tables that refer to one of ``tables``."""
    for key, held in catalog.objects.items():
        if isinstance(held, TableDefinition) and any(each.table in tables for each in held.foreign_keys):
            yield key
