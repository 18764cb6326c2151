"""EXCEPT ALL and INTERSECT ALL of tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rowtide.plan.nodes.changes.partition_changes import PartitionChanges
from rowtide.plan.nodes.lineage import SourceRows, last_insert, same_row
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import RowType


@dataclass(frozen=True, slots=True)
class CombinedCopies(PartitionChanges):
    """Emit the changes of how often each row is in the result of EXCEPT ALL or INTERSECT ALL.

    In: changes of both tables, whose last field is 0 for the first table. Out: the other fields. A row that is
    ``m`` times in the first table and ``n`` times in the second is ``max(m - n, 0)`` times in EXCEPT ALL and
    ``min(m, n)`` times in INTERSECT ALL. A change emits at most one change, at its place. NULLs are equal.
    """

    operation: str

    kept = "how often each row is in both tables"
    why_kept = "to count them"

    @property
    def partition(self) -> tuple[int, ...]:
        """All fields but the side: equal rows are counted together."""
        return tuple(range(len(self.row_type)))

    @property
    def row_type(self) -> RowType:
        """The input's fields without the last one."""
        return RowType(tuple(self.input.row_type)[:-1])

    def detail(self) -> str:
        """Return the operation."""
        return f"{self.operation} ALL"

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the change that caused the row, and the row itself."""
        yield same_row(row)
        yield last_insert(row, lambda each: each.row[:-1] == row.row, inclusive=True)
