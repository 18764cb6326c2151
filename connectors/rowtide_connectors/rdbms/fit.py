"""Check whether an existing table fits its declaration, and describe every difference."""

from __future__ import annotations

from dataclasses import replace

from rowtide_connectors.errors import MismatchError
from rowtide_connectors.rdbms.dialect import Dialect
from rowtide_connectors.rdbms.table import ExistingTable, PhysicalColumn, PhysicalTable

FIT_HINT = "Change the CREATE FOREIGN TABLE, alter the table, or name another one with table_name."


def fitted(dialect: Dialect, table: PhysicalTable, existing: ExistingTable) -> PhysicalTable:
    """Return ``table`` with the names of its columns in the database.

    A table fits that takes every declared row unchanged: columns may be wider, there may be more
    of them if they need no value, and the key may be any unique constraint.

    Raises:
      MismatchError: names all differences.
    """
    held = {column.name: column for column in existing.columns}
    by_small_letters = {column.name.lower(): column.name for column in existing.columns}
    actual: dict[str, str] = {}
    differences: list[str] = []
    for column in table.columns:
        name = column.name if column.name in held else by_small_letters.get(column.name.lower())
        if name is None:
            differences.append(f'column "{column.name}" is missing')
            continue
        actual[column.sql_name] = name
        there = held[name]
        if not dialect.holds(there.type, column.type):
            wanted = dialect.type_ddl(column.type)
            differences.append(f'column "{name}" is {there.type}, declared is {wanted}')
        if there.inexact and column.sql_name in table.key:
            differences.append(f'key column "{name}" has the collation {there.inexact}')
        if _may_be_null(table, column) and not there.nullable:
            differences.append(f'column "{name}" is not null, declared is one that may be null')
    taken = set(actual.values())
    differences += [
        f'column "{column.name}" is not declared, and needs a value'
        for column in existing.columns
        if column.name not in taken and not column.nullable and not column.has_default
    ]
    if table.key and not differences:
        key = frozenset(actual[name] for name in table.key)
        if key not in existing.unique:
            names = ", ".join(f'"{actual[name]}"' for name in table.key)
            differences.append(f"no primary key or unique constraint on {names}")
    if differences:
        raise MismatchError(f'table "{table.label}" does not fit: {"; ".join(differences)}', hint=FIT_HINT)
    return replace(table.renamed(actual), judges=existing.judges, has_other_keys=existing.has_other_keys)


def _may_be_null(table: PhysicalTable, column: PhysicalColumn) -> bool:
    return column.nullable and column.sql_name not in table.key
