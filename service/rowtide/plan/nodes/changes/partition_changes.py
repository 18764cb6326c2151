"""Nodes over a table whose rows are changes of the partition that a change of the table belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rowtide.plan.nodes.node import Agreed, PartitionKey, require
from rowtide.plan.nodes.over_one import OverOne


class PartitionChanges(OverOne):
    """Common base of nodes that keep the rows of a table by ``partition`` fields, and emit what a change changes.

    ``kept`` is what they keep, for EXPLAIN, and ``why_kept`` what for.
    """

    __slots__ = ()

    kept: ClassVar[str]
    why_kept: ClassVar[str]
    if TYPE_CHECKING:
        # A field, or a property where it follows from others; a class attribute here would be its default value.
        @property
        def partition(self) -> tuple[int, ...]:
            """The fields of the partition; none: all rows are one."""

    def is_changelog(self) -> bool:
        """Return True."""
        return True

    def only_inserts(self) -> bool:
        """Return False: a new row may change what is given for others, or push them out."""
        return False

    def follows_contents(self) -> bool:
        """Return True."""
        return True

    def holds_rowtime(self, field: int) -> bool:
        """Return False."""
        return False

    def keeps(self) -> str | None:
        """Return what is kept, and whether forever."""
        return self.kept + ("" if self.is_limited() else ", forever")

    def is_limited(self) -> bool:
        """Return whether the input is limited."""
        return self.input.is_limited()

    def unlimited_state(self) -> str | None:
        """Return the rows, unless the input is limited."""
        return (
            None if self.is_limited() else f"keeps all rows forever, {self.why_kept}: RETENTION is UNBOUNDED"
        )

    def partition_key(self) -> PartitionKey | None:
        """Return the partition."""
        return (self.partition,) if self.partition else None

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the same fields, if rows of a partition keep their order."""
        require(agreed, self.partition)
        return agreed
