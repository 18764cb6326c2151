"""Foreign keys that a database has between the tables that rows are written to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rowtide_connectors.api import TargetTable


@dataclass(frozen=True, slots=True)
class FoundForeignKey:
    """``columns`` of ``table`` refer to ``other_columns`` of ``other``. All are SQL names, and the columns declared."""

    table: str
    columns: tuple[str, ...]
    other: str
    other_columns: tuple[str, ...]


@runtime_checkable
class ReferringDatabase(Protocol):
    """A database that checks foreign keys."""

    def foreign_keys(self, tables: Sequence[TargetTable]) -> Sequence[FoundForeignKey]:
        """Return the foreign keys between these tables, which exist, those of a table to itself included.

        One with a column that a table does not declare is left out: no row that is written has a value for it.

        Raises:
          UnavailableError, MismatchError, GoneError.
        """
