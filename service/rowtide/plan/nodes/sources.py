"""Sources of a plan, where rows enter: streams, foreign streams and engine tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from rowtide.plan.nodes.lineage import SourceRows
from rowtide.plan.nodes.node import BY_PARTITION, Agreed, Node, OrderMattersError, StepScope
from rowtide.rows.rowop import Row, TimedRow
from rowtide.rows.types import RowType


@dataclass(frozen=True, slots=True)
class Entrance(Node):
    """A node without inputs: rows enter here."""

    relation: str
    row_type: RowType

    @property
    def inputs(self) -> tuple[Node, ...]:
        """No inputs."""
        return ()

    def reading(self, inputs: Sequence[Node]) -> Self:
        """Return this node: it reads nothing."""
        return self

    def holds_rowtime(self, field: int) -> bool:
        """Return False: rows come from outside."""
        return False

    def keeps(self) -> str | None:
        """Return None: rows pass."""
        return None

    def work(self) -> str | None:
        """Return None: it has no operator."""
        return None

    def scope(self) -> StepScope:
        """Return that each partition has an entrance."""
        return BY_PARTITION

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Refuse: nothing is read here."""
        raise OrderMattersError

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield nothing: the row came from outside."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Source(Entrance):
    """A stream or foreign stream, partition by partition, in log order.

    Only explicit bounds come out of it: its rows are not bounds until a Sort has judged them. A ``foreign``
    source does not judge lateness: each reader does so where it first needs order.
    """

    foreign: bool = False
    in_log_order: bool = field(default=False, compare=False)
    """Its rows are changes of a table, which apply in the order of offsets: none is late
    (docs/sql/tables.md#tables-that-a-topic-fills). What its relation is decides it, so plans do not differ by it."""

    def is_changelog(self) -> bool:
        """Return False: a stream."""
        return False

    def only_inserts(self) -> bool:
        """Return False: the order of its rows is not known before a Sort or a promotion reads them."""
        return False

    def is_ordered(self) -> bool:
        """Return False: rows come in log order."""
        return False

    def may_pass_again(self) -> bool:
        """Return True: rows of streams pass."""
        return True

    def detail(self) -> str:
        """Return the order in which rows come."""
        return (
            "messages in log order, by partition" if self.foreign else "rows in arrival order, by partition"
        )

    def signature(self) -> tuple[object, ...]:
        """Return the source itself."""
        return (self,)


@dataclass(frozen=True, slots=True)
class TableSource(Entrance):
    """Changes of an engine table that no pump brings: its INSERT statements, a scenario.

    ``loaded_once``: only the pipeline's own INSERT statements fill it, so no operator waits for its bound.
    ``rows`` are those statements' rows.
    """

    rows: tuple[Row, ...] = ()
    loaded_once: bool = False

    def is_changelog(self) -> bool:
        """Return False: the table above it makes the changelog."""
        return False

    def shows_opcodes(self) -> bool:
        """Return True: rows of VALUES are the contents of a table."""
        return True

    def only_inserts(self) -> bool:
        """Return False: a scenario or a statement may delete."""
        return False

    def is_ordered(self) -> bool:
        """Return whether no rows follow the statements' ones."""
        return self.loaded_once

    def is_limited(self) -> bool:
        """Return True: a table is limited by definition."""
        return True

    def detail(self) -> str:
        """Return how many rows it begins with."""
        count = f"{len(self.rows)} row{'' if len(self.rows) == 1 else 's'}"
        return f"{count}, no others follow" if self.loaded_once else f"{count}, then changes"

    def without_rows(self) -> TableSource:
        """Return the source without its statements' rows: more rows do not make another table."""
        return replace(self, rows=(), loaded_once=False)

    def signature(self) -> tuple[object, ...]:
        """Return the source without its rows."""
        return (self.without_rows(),)


@dataclass(frozen=True, slots=True)
class CommittedTable(TableSource):
    """The rows of a foreign table that are committed when a query starts: its runner inserts them.

    Others may have written them, so any column may be NULL.
    """

    def only_inserts(self) -> bool:
        """Return True: the rows are read once."""
        return True

    def detail(self) -> str:
        """Return which rows it has."""
        return "the rows that are committed when the query starts"
