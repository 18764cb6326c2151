"""Row handles: the place of one row in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from rowtide.engine.row_type import Row

if TYPE_CHECKING:
    from rowtide.engine.table.table import Table


class RowHandle(Struct, eq=False):
    """One row of one table: before, during or after its time in the table; several handles can have equal rows.

    ``number`` is positive while the row is in the table (greater is newer), 0 before and negative after.
    """

    table: Table
    row: Row
    number: int = 0

    @property
    def in_table(self) -> bool:
        """Whether the row is in its table now."""
        return self.number > 0

    def __repr__(self) -> str:
        return f'<RowHandle of "{self.table.name}": {self.table.row_type.format(self.row)}>'
