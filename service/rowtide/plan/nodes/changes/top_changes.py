"""The first rows of a table: ORDER BY .. LIMIT over changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rowtide.plan.calls import are_objects
from rowtide.plan.nodes.changes.partition_changes import PartitionChanges
from rowtide.plan.nodes.lineage import SourceRows, last_insert, same_row
from rowtide.plan.nodes.node import Form
from rowtide.plan.nodes.over_one import SameFields, names_of, newest_first, terms_of
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import BIGINT, Field, RowType


@dataclass(frozen=True, slots=True)
class TopChanges(SameFields, PartitionChanges):
    """Emit the changes of the first ``limit`` rows of a table, after the first ``offset``.

    ``keys`` are fields, each with True if it descends; NULL is the greatest value, and equal rows are in
    order of arrival, or against it (``newest_first``). With ``partition`` fields, each of their values has its
    own first rows. A change that moves a row out or in emits DELETE of the row that leaves, then INSERT of the
    row that enters, at the place of the change.
    """

    partition: tuple[int, ...]
    keys: tuple[tuple[int, bool], ...]
    limit: int | None
    offset: int = 0

    kept = "the rows of the table"
    why_kept = "to know the first ones"

    @property
    def newest_first(self) -> bool:
        """Whether the last of equal rows to arrive is the first of them."""
        return newest_first(self.input, self.keys)

    def key_fields(self) -> tuple[int, ...] | None:
        """Return the partition if it has one row, else the input's key."""
        return self.partition if self.partition and self.limit == 1 else self.input.key_fields()

    def keeps(self) -> str | None:
        """Return the rows that are kept: the first ones of a stream, all of a table."""
        if self.limit is not None and self.input.only_inserts():
            return f"the first {self.limit + self.offset} rows{self._of_each()}" + (
                ", forever" if self.partition else ""
            )
        return PartitionChanges.keeps(self)

    def unlimited_state(self) -> str | None:
        """Return the rows that are kept, unless the input is limited."""
        if not self.is_limited() and self.limit is not None and self.input.only_inserts():
            each = f"of every {names_of(self.input.row_type, self.partition)} " if self.partition else ""
            return f"keeps the first rows {each}forever: RETENTION is UNBOUNDED"
        return PartitionChanges.unlimited_state(self)

    def form(self) -> Form | None:
        """Return whether kernels can hold every field and sort by the keys. Codes of texts have no order."""
        fields = are_objects(self.row_type, range(len(self.row_type)))
        texts = (self.row_type[index].type.is_variable_width for index, _ in self.keys)
        return Form.BY_ROW if any(fields) or any(texts) else Form.COMPILED

    def detail(self) -> str:
        """Return the number of rows and the terms of the order."""
        terms = terms_of(self.row_type, self.keys)
        first = "all" if self.limit is None else f"the first {self.limit}"
        behind = f" behind {self.offset}" if self.offset else ""
        each = f" for each {names_of(self.row_type, self.partition)}" if self.partition else ""
        return f"{first}{behind} by {', '.join(terms) or 'arrival'}{each}"

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the change that caused the row, and the row itself."""
        yield same_row(row)
        held = row.row[: len(self.input.row_type)]
        yield last_insert(row, lambda each: each.row == held, inclusive=True)

    def _of_each(self) -> str:
        return f" of each {names_of(self.row_type, self.partition)}" if self.partition else ""


@dataclass(frozen=True, slots=True)
class NumberedChanges(TopChanges):
    """The same, with each row's number in its partition after its fields, from 1 on.

    A change moves the rows after it: for each number that another row takes it emits DELETE and INSERT,
    in the order of the numbers.
    """

    @property
    def row_type(self) -> RowType:
        """The input's fields, then the number."""
        return RowType((*self.input.row_type, Field("$NUMBER", BIGINT, nullable=False)))

    def key_fields(self) -> tuple[int, ...] | None:
        """Return the partition and the number."""
        return (*self.partition, len(self.row_type) - 1)

    def detail(self) -> str:
        """Return the number of rows and the terms of the order, and that rows are numbered."""
        return f"{TopChanges.detail(self)}, with their numbers"
