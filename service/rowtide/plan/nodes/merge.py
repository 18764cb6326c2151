"""The ordered union of several inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from rowtide.expr.tree import Literal
from rowtide.plan.nodes.lineage import SourceRows
from rowtide.plan.nodes.node import MERGES, Agreed, Node, StepScope
from rowtide.plan.nodes.row_wise import Project
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import RowType
from rowtide.rowtime.period import GridWindow


@dataclass(frozen=True, slots=True)
class Merge(Node):
    """Merge several ordered inputs by consistent time (docs/sql/rowtime.md).

    With one input it merges the partitions of the source below it; with several it is UNION ALL, or the
    pumps into one stream, in that order. ``of_changes``: its rows are changes, and it keeps the order of
    each input.
    """

    relation: str
    sources: tuple[Node, ...]
    of_changes: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The sources, in their order."""
        return self.sources

    @property
    def row_type(self) -> RowType:
        """That of the first source."""
        return self.sources[0].row_type

    def reading(self, inputs: Sequence[Node]) -> Self:
        """Return the merge of other sources."""
        return replace(self, sources=tuple(inputs))

    def is_changelog(self) -> bool:
        """Return whether any source is a changelog."""
        return any(each.is_changelog() for each in self.sources)

    def shows_opcodes(self) -> bool:
        """Return whether those of any source are."""
        return any(each.shows_opcodes() for each in self.sources)

    def only_inserts(self) -> bool:
        """Return whether every source only inserts."""
        return all(each.only_inserts() for each in self.sources)

    def follows_contents(self) -> bool:
        """Return True: it only orders rows."""
        return True

    def key_fields(self) -> tuple[int, ...] | None:
        """Return the key that all sources have, and the field in which each has a different constant."""
        if not self.of_changes:
            return None
        keys = {each.key_fields() for each in self.sources}
        if len(keys) != 1 or None in keys or not all(isinstance(each, Project) for each in self.sources):
            return None
        selected = (each.expressions for each in self.sources if isinstance(each, Project))
        for at, column in enumerate(zip(*selected, strict=True)):
            if all(isinstance(each, Literal) for each in column) and len(set(column)) == len(column):
                return (*(next(iter(keys)) or ()), at)
        return None

    def is_ordered(self) -> bool:
        """Return True."""
        return True

    def holds_rowtime(self, field: int) -> bool:
        """Return whether the field does so in every source."""
        return all(each.holds_rowtime(field) for each in self.sources)

    def ended_window(self) -> GridWindow | None:
        """Return that of the first source with one."""
        return next((found for each in self.sources if (found := each.ended_window()) is not None), None)

    def keeps(self) -> str | None:
        """Return the rows that wait."""
        return "rows that wait for another input or partition"

    def is_limited(self) -> bool:
        """Return whether every source is limited."""
        return all(each.is_limited() for each in self.sources)

    def detail(self) -> str:
        """Return how many inputs there are."""
        return f"{len(self.sources)} inputs by rowtime" if len(self.sources) > 1 else "partitions by rowtime"

    def scope(self) -> StepScope:
        """Return that one step reads all partitions."""
        return MERGES

    def may_pass_again(self) -> bool:
        """Return True: rows of streams pass."""
        return True

    def read_types(self) -> tuple[object, ...]:
        """Return nothing: inputs come and go, and the rows that wait at each are moved."""
        return ()

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the same fields."""
        return agreed

    def passes_on(self, row: TimedRow, own: int) -> bool:
        """Return True: it only orders rows."""
        return True

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield nothing: rows are followed by their place."""
        return iter(())

    def released_by(self, row: TimedRow, port: int, ports: int) -> tuple[tuple[int, int], ...] | None:
        """Return the other ports: those before ``port`` are past the row's time, the others at it."""
        others = (at for at in range(ports) if at != port)
        return tuple((at, row.rowtime + (at < port)) for at in others)


def merged(relation: str, pumped: Sequence[Node]) -> Merge:
    """Return the union of the pumps into one stream or table, in the order of their creation.

    If any of them writes changes, the order of each pump's changes is kept (docs/sql/views-and-pumps.md).
    """
    return Merge(relation, tuple(pumped), of_changes=any(each.is_changelog() for each in pumped))
