"""Target tables in the database: names in its spelling, types, existing tables.

A SQL name that is in its folded form (capitals only) is not case-sensitive, so it becomes an unquoted
name of the database: small letters. Any other name, and ``table_name``, is exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rowtide_connectors.api import TableColumn, TargetTable
from rowtide_connectors.rdbms.sql_type import SqlType, TargetColumn, parse_type

VIEW_FAULT = "it is a view that cannot be written"
"""See ``ExistingTable.faults``."""

_FOLDED = re.compile(r"[A-Z_][A-Z0-9_$]*")
_PART = re.compile(r'"(?:[^"]|"")*"|[^."]+')
"""A part of a SQL name: in quotes if it has a dot or a quote in it."""


def unfolded(name: str) -> str:
    """Return the database's spelling of a SQL name."""
    return name.lower() if _FOLDED.fullmatch(name) else name


@dataclass(frozen=True, slots=True)
class PhysicalColumn:
    """One column: its name for callers, and its name in the database."""

    sql_name: str
    name: str
    type: SqlType
    nullable: bool
    target: TargetColumn | None = None
    """The existing column, if known."""


@dataclass(frozen=True, slots=True)
class PhysicalTable:
    """One table. ``key`` are SQL names.

    ``schema`` is the declared one, if any; ``home`` the schema that a name without one was resolved to.
    """

    schema: str | None
    name: str
    columns: tuple[PhysicalColumn, ...]
    key: tuple[str, ...]
    judges: bool = False
    has_other_keys: bool = False
    """See ``ExistingTable``."""
    home: str | None = None

    @property
    def place(self) -> str | None:
        """The schema that statements name; None: the database has no schemas."""
        return self.home if self.schema is None else self.schema

    def column(self, sql_name: str) -> PhysicalColumn:
        """Return a column by its SQL name.

        Raises:
          KeyError: it does not exist.
        """
        for column in self.columns:
            if column.sql_name == sql_name:
                return column
        raise KeyError(f'table "{self.label}" has no column "{sql_name}"')

    def declared(self, names: Iterable[str]) -> tuple[str, ...] | None:
        """Return the SQL names of columns of the database; None if one of them is not declared."""
        known = {column.name: column.sql_name for column in self.columns}
        found = [known.get(name) for name in names]
        return None if None in found else tuple(each for each in found if each is not None)

    @property
    def label(self) -> str:
        """The name as messages show it."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    def found(self, actual: Mapping[str, tuple[str, TargetColumn | None]]) -> PhysicalTable:
        """Return the table with the columns' actual names and types in the database."""
        columns = tuple(
            replace(column, name=actual[column.sql_name][0], target=actual[column.sql_name][1])
            for column in self.columns
        )
        return replace(self, columns=columns)


@dataclass(frozen=True, slots=True)
class ExistingColumn:
    """A column of a table in the database; ``type`` as the database spells it."""

    name: str
    type: str
    nullable: bool
    has_default: bool
    inexact: str | None = None
    """The collation, if different texts are equal in it, and which one to use in a key instead."""
    is_generated: bool = False
    """Whether the database alone gives it values."""


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """An existing table: ``unique`` has the column sets by which rows can be replaced.

    ``judges``: it has constraints besides one key and NOT NULL, or triggers, so that whether it takes a
    row may depend on other rows. ``has_other_keys``: one of them is a unique index. ``faults`` are why it can never
    be written, and ``key_faults`` why rows of a key cannot be replaced in it.
    """

    columns: Sequence[ExistingColumn]
    unique: Sequence[frozenset[str]]
    judges: bool = False
    has_other_keys: bool = False
    faults: Sequence[str] = ()
    key_faults: Sequence[str] = ()


def physical(table: TargetTable) -> PhysicalTable:
    """Return the name of ``table`` in the database.

    Raises:
      OptionError: a column's type does not exist.
    """
    if "table_name" in table.options:
        schema, _, name = table.options["table_name"].rpartition(".")
    else:
        *before, name = map(_part, _PART.findall(table.name))
        schema = before[0] if before else ""
    return PhysicalTable(schema or None, name, tuple(_column(column) for column in table.columns), table.key)


def _part(text: str) -> str:
    """Return the database's spelling of one part of a SQL name; one with a dot or quote is in quotes."""
    return text[1:-1].replace('""', '"') if text.startswith('"') else unfolded(text)


def _column(column: TableColumn) -> PhysicalColumn:
    return PhysicalColumn(column.name, unfolded(column.name), parse_type(column.sql_type), column.nullable)
