"""EXCEPT ALL and INTERSECT ALL of tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rowtide.plan.nodes.lineage import SourceRows, last_insert, same_row
from rowtide.plan.nodes.node import Agreed, PartitionKey, require
from rowtide.plan.nodes.over_one import OverOne
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import RowType


@dataclass(frozen=True, slots=True)
class CombinedCopies(OverOne):
    """Emit the changes of how often each row is in the result of EXCEPT ALL or INTERSECT ALL.

    In: changes of both tables, whose last field is 0 for the first table. Out: the other fields. A row that is
    ``m`` times in the first table and ``n`` times in the second is ``max(m - n, 0)`` times in EXCEPT ALL and
    ``min(m, n)`` times in INTERSECT ALL. A change emits at most one change, at its place. NULLs are equal.
    """

    operation: str

    @property
    def row_type(self) -> RowType:
        """The input's fields without the last one."""
        return RowType(tuple(self.input.row_type)[:-1])

    def is_changelog(self) -> bool:
        """Return True."""
        return True

    def only_inserts(self) -> bool:
        """Return False: a row of the second table may take one out."""
        return False

    def follows_contents(self) -> bool:
        """Return True."""
        return True

    def holds_rowtime(self, field: int) -> bool:
        """Return False."""
        return False

    def keeps(self) -> str | None:
        """Return the counts of the rows of both tables."""
        return "how often each row is in both tables" + ("" if self.input.is_limited() else ", forever")

    def is_limited(self) -> bool:
        """Return whether the input is limited."""
        return self.input.is_limited()

    def unlimited_state(self) -> str | None:
        """Return the counts, unless the input is limited."""
        return None if self.is_limited() else "keeps all rows forever, to count them: RETENTION is UNBOUNDED"

    def detail(self) -> str:
        """Return the operation."""
        return f"{self.operation} ALL"

    def partition_key(self) -> PartitionKey | None:
        """Return all fields but the side."""
        return (tuple(self._fields),)

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the same fields, if equal rows keep their order."""
        require(agreed, self._fields)
        return agreed

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the change that caused the row, and the row itself."""
        yield same_row(row)
        yield last_insert(row, lambda each: each.row[:-1] == row.row, inclusive=True)

    @property
    def _fields(self) -> range:
        return range(len(self.row_type))
