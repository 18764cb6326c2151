"""Expiry: removes rows from a table when they become too old.

Time comes from the data: the model passes rowtimes to the expiry, before or
after it handles the row of that time. Nothing here reads a clock.
"""

from __future__ import annotations

from rowtide.engine.errors import ModelError
from rowtide.engine.row_type import Row
from rowtide.engine.table.index_type import Descending, Ordered
from rowtide.engine.table.table import Table
from rowtide.engine.table.tree import Node


class Expiry:
    """Keeps the rows of ``table`` whose ``time_field`` is at most ``keep`` before the rowtime.

    The field and ``keep`` have the same unit of time, which is up to the model. The table needs a
    top-level ``Ordered`` index whose first field is ``time_field``, so that only expired rows are read;
    ``index`` is its path, by default the first one of this kind. A row whose time is NULL sorts first and
    is removed by the first advance.

    Raises:
      ModelError: if the table has no such index, or the field does not exist.
    """

    def __init__(self, table: Table, time_field: str, keep: int, *index: str) -> None:
        self._table = table
        self._position = table.row_type.index(time_field)
        self._keep = keep
        nodes = [table.type.node(*index)] if index else table.type.nodes
        node = next((node for node in nodes if _is_ordered_by(node, time_field)), None)
        if node is None:
            raise ModelError(f'table "{table.name}" has no index that is ordered by field "{time_field}"')
        self._index = table.index(*node.path)
        self._rowtime: int | None = None

    def advance(self, rowtime: int) -> int:
        """Remove the rows that are too old at ``rowtime`` and return how many.

        A rowtime that is not later than the last one changes nothing.
        """
        if self._rowtime is not None and rowtime <= self._rowtime:
            return 0
        self._rowtime = rowtime
        position, earliest = self._position, rowtime - self._keep

        def is_old(row: Row) -> bool:
            return row[position] is None or bool(row[position] < earliest)

        return self._table.remove_while(is_old, self._index)


def _is_ordered_by(node: Node, field: str) -> bool:
    index = node.index_type
    return (
        node.parent is None
        and isinstance(index, Ordered)
        and index.key_fields[0] == field
        and not isinstance(index.parameters[0], Descending)
    )
