"""The first rows of a table as a node: ORDER BY .. LIMIT over changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowtide.rows.types import BIGINT, Field, RowType

if TYPE_CHECKING:
    from rowtide.plan.nodes import Node


@dataclass(frozen=True, slots=True)
class TopChanges:
    """Give the changes of the first ``limit`` rows of a table, behind the first ``offset``.

    ``keys`` are fields, each with True where it descends; NULL is the greatest value, and of equal rows the
    one that came first is first. With ``partition`` fields it is so for each of their values. A change that
    pushes one row out, or lets one in, gives DELETE of the row that goes, then INSERT of the one that comes,
    at the place of the change.
    """

    relation: str
    input: Node
    partition: tuple[int, ...]
    keys: tuple[tuple[int, bool], ...]
    limit: int | None
    offset: int = 0

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    @property
    def row_type(self) -> RowType:
        """That of the input."""
        return self.input.row_type


@dataclass(frozen=True, slots=True)
class NumberedChanges(TopChanges):
    """The same with each row's number in its partition behind its fields, from 1 on.

    A change moves the rows behind it: of each number that another row takes it gives DELETE and INSERT, in
    the order of the numbers.
    """

    @property
    def row_type(self) -> RowType:
        """The input's fields, then the number."""
        return RowType((*self.input.row_type, Field("$NUMBER", BIGINT, nullable=False)))
