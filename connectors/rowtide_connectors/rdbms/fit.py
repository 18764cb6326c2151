"""Check whether an existing table fits its declaration, and describe every difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rowtide_connectors.errors import MismatchError
from rowtide_connectors.rdbms.dialect import Dialect, PhysicalColumns
from rowtide_connectors.rdbms.failures import RowDataError
from rowtide_connectors.rdbms.sql_type import TargetColumn, same_json
from rowtide_connectors.rdbms.table import ExistingTable, PhysicalColumn, PhysicalTable

FIT_HINT = "Change the CREATE FOREIGN TABLE, alter the table, or name another one with table_name."


def fitted(dialect: Dialect, table: PhysicalTable, existing: ExistingTable) -> PhysicalTable:
    """Return ``table`` with the names of its columns in the database.

    A table fits that takes declared rows unchanged: columns may be of any type that does not change their values
    (``misfits`` finds those that a narrower column does not take), there may be more of them if they need no
    value, and the key may be any unique constraint.

    Raises:
      MismatchError: names all differences.
    """
    held = {column.name: column for column in existing.columns}
    by_small_letters = {column.name.lower(): column.name for column in existing.columns}
    actual: dict[str, tuple[str, TargetColumn | None]] = {}
    hint = FIT_HINT
    differences = [*existing.faults, *(existing.key_faults if table.key else ())]
    for column in table.columns:
        name = column.name if column.name in held else by_small_letters.get(column.name.lower())
        if name is None:
            differences.append(f'column "{column.name}" is missing')
            continue
        there = held[name]
        target = dialect.target(there.type, column.type)
        actual[column.sql_name] = name, target
        if target is None:
            wanted = dialect.type_ddl(column.type)
            taken = ", ".join(dialect.taken(column.type))
            differences.append(
                f'column "{name}" is {there.type}, declared is {wanted} ({column.type.name} fits {taken})'
            )
            if there.type.endswith("[]") and column.type.element is None:
                hint = f"Declare the column as an array, such as INTEGER ARRAY. {hint}"
        elif target.is_json and column.sql_name in table.key:
            differences.append(f'key column "{name}" is {there.type}, in which different texts are equal')
        if there.is_generated:
            differences.append(f'column "{name}" is generated, and takes no value')
        if there.inexact and column.sql_name in table.key:
            differences.append(f'key column "{name}" has the collation {there.inexact}')
        if _may_be_null(table, column) and not there.nullable:
            differences.append(f'column "{name}" is not null, declared is one that may be null')
    names_there = {name for name, _ in actual.values()}
    differences += [
        f'column "{column.name}" is not declared, and needs a value'
        for column in existing.columns
        if column.name not in names_there and not column.nullable and not column.has_default
    ]
    if table.key and not differences:
        key = frozenset(actual[name][0] for name in table.key)
        if key not in existing.unique:
            names = ", ".join(f'"{actual[name][0]}"' for name in table.key)
            differences.append(f"no primary key or unique constraint on {names}")
    if differences:
        raise MismatchError(f'table "{table.label}" does not fit: {"; ".join(differences)}', hint=hint)
    return replace(
        table.found(actual),
        judges=existing.judges or any(target and target.is_judged for _, target in actual.values()),
        has_other_keys=existing.has_other_keys,
    )


def _may_be_null(table: PhysicalTable, column: PhysicalColumn) -> bool:
    return column.nullable and column.sql_name not in table.key


def misfits(columns: PhysicalColumns) -> dict[int, str]:
    """Return the rows with a value that its column does not take, and why, in order."""
    found: dict[int, str] = {}
    for column, values in reversed(columns):
        if column.target is not None and column.target.limit is not None:
            for index, value in enumerate(values):
                if why := column.target.limit.misfit(value):
                    found[index] = f'column "{column.name}" is {column.target.type}: {why}'
    return dict(sorted(found.items()))


def fitting(columns: PhysicalColumns) -> PhysicalColumns:
    """Return the columns.

    Raises:
      RowDataError: a column does not take one of its values.
    """
    for why in misfits(columns).values():
        raise RowDataError(why)
    return columns


def form_of(table: PhysicalTable) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
    """Return the function that makes rows comparable: the database writes JSON texts of one value alike, and pads."""
    forms = {index: form for index, column in enumerate(table.columns) if (form := _form(column.target))}
    if not forms:
        return lambda row: row
    return lambda row: tuple(
        forms[index](value) if index in forms and isinstance(value, str) else value
        for index, value in enumerate(row)
    )


def _form(target: TargetColumn | None) -> Callable[[str], str] | None:
    if target is None:
        return None
    if target.is_json:
        return same_json
    padded_to = target.padded_to
    return None if padded_to is None else lambda text: text.ljust(padded_to)


def compared(keys: PhysicalColumns) -> list[Sequence[object]]:
    """Return the columns of keys so that they are equal where the database takes them for one key."""
    return [
        values
        if column.target is None or column.target.padded_to is None
        else [value.rstrip(" ") if isinstance(value, str) else value for value in values]
        for column, values in keys
    ]
