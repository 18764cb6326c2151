"""Table functions in Python: FROM TABLE(f(CURSOR(..)))."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rowtide.expr.tree import Literal, PythonTable
from rowtide.plan.nodes.lineage import SourceRows, identity, same_row
from rowtide.plan.nodes.node import Agreed, Form, PartitionKey, require
from rowtide.plan.nodes.over_one import OverOne, names_of
from rowtide.plan.show import show, show_interval
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import RowType
from rowtide.rowtime.period import GridWindow


@dataclass(frozen=True, slots=True)
class TableFunction(OverOne):
    """Emit the rows that a class in Python makes of each row and the state of its key (docs/sql/functions.md).

    In: rows of a stream, first ``keys`` fields of PARTITION BY, then arguments. Out: the keys, then the columns
    of ``of``; rowtime and tie-break of the row, so its rows stand together, in the order of the class.
    ``constants`` are further arguments. With ``retention_ms``, the state of a key starts again with a row
    that comes more than this after the one before. ``is_endless``: RETENTION is UNBOUNDED.
    """

    keys: int
    constants: tuple[Literal, ...]
    of: PythonTable
    row_type: RowType
    retention_ms: int | None
    is_endless: bool

    def is_changelog(self) -> bool:
        """Return False."""
        return False

    def only_inserts(self) -> bool:
        """Return True."""
        return True

    def holds_rowtime(self, field: int) -> bool:
        """Return whether a key does."""
        return field < self.keys and self.input.holds_rowtime(field)

    def ended_window(self) -> GridWindow | None:
        """Return that of the input, whose rowtimes its rows have."""
        return self.input.ended_window()

    def keeps(self) -> str | None:
        """Return the states that are kept."""
        if not self.keys:
            return "one state"
        over = ", forever" if self.retention_ms is None else f", for {show_interval(self.retention_ms)}"
        return f"a state of every {self._key_names()}{over}"

    def unlimited_state(self) -> str | None:
        """Return the states, if no RETENTION limits them; the function itself limits a single one."""
        if not self.keys or self.retention_ms is not None:
            return None
        kept = f"keeps a state of every {self._key_names()} forever"
        if self.is_endless:
            return f"{kept}: RETENTION is UNBOUNDED"
        return (
            f"{kept}. CREATE .. OPTIONS (RETENTION '1 DAY') AS .. drops that of a key without a row for a day; "
            "if this is intended, write RETENTION 'UNBOUNDED'"
        )

    def work(self) -> str | None:
        """Return that the class is called row by row."""
        return Form.BY_ROW.value

    def detail(self) -> str:
        """Return the function, its further arguments and the keys."""
        args = "".join(f", {show(each, self.row_type)}" for each in self.constants)
        by = f" PARTITION BY {self._key_names()}" if self.keys else ""
        return f"{self.of.name}(CURSOR{by}{args})"

    def partition_key(self) -> PartitionKey | None:
        """Return the keys."""
        return (tuple(range(self.keys)),) if self.keys else None

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the same fields, if rows of a key keep their order."""
        require(agreed, range(self.keys))
        return agreed

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the row that made it, and the earlier rows of its key."""
        own, place = row.row[: self.keys], identity(row)
        yield same_row(row)
        yield SourceRows(0, lambda each: each.row[: self.keys] == own, end=row.rowtime, until=place)

    def _key_names(self) -> str:
        return names_of(self.row_type, range(self.keys))
