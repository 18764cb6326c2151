"""Joins of two streams within a window of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Self

from rowtide.expr.tree import Expr
from rowtide.plan.limits import FOR_EVER_MS
from rowtide.plan.nodes.join.join_kind import JoinKind
from rowtide.plan.nodes.lineage import Matches, SourceRows, is_there
from rowtide.plan.nodes.node import Agreed, Node, PartitionKey
from rowtide.plan.show import show, show_interval
from rowtide.rows.rowop import Row, TimedRow
from rowtide.rows.types import RowType


class JoinTime(Enum):
    """The side whose rowtime a pair of a windowed join has."""

    LEFT = "LEFT"
    RIGHT = "RIGHT"
    LATER = "LATER"


@dataclass(frozen=True, slots=True)
class WindowJoin(Node):
    """Join two streams where right rowtime - left rowtime is within [low_ms, high_ms], both included.

    ``time`` is the side without a window, or LATER (docs/sql/joins.md). An unmatched left row comes out at
    its rowtime + ``left_delay_ms``, a right one at + ``right_delay_ms``: the length of its window if
    that is PRECEDING, else 0. Rows match where the keys are equal and not NULL and ``condition``,
    over the left fields and then the right ones, is TRUE.

    Out: the left fields, then the right ones, in the order (rowtime, left row, right row), a missing row
    first; a row leaves as soon as no earlier one can come. ``retained``: no window says how long rows are
    kept, but the pipeline's RETENTION does.
    """

    relation: str
    left: Node
    right: Node
    left_key: tuple[int, ...]
    right_key: tuple[int, ...]
    low_ms: int
    high_ms: int
    time: JoinTime
    kind: JoinKind
    row_type: RowType
    condition: Expr | None = None
    left_delay_ms: int = 0
    right_delay_ms: int = 0
    retained: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The left side, then the right one."""
        return (self.left, self.right)

    def reading(self, inputs: Sequence[Node]) -> Self:
        """Return the join of other sides."""
        return replace(self, left=inputs[0], right=inputs[1])

    def is_changelog(self) -> bool:
        """Return False: rows are never retracted."""
        return False

    def only_inserts(self) -> bool:
        """Return True."""
        return True

    def is_ordered(self) -> bool:
        """Return True."""
        return True

    def holds_rowtime(self, field: int) -> bool:
        """Return False: each side has its own ROWTIME."""
        return False

    def keeps(self) -> str | None:
        """Return how long rows of each side are kept."""
        if self.retained and self.high_ms == FOR_EVER_MS:
            return "the rows of both sides, forever"
        left = f"left rows for {show_interval(max(self.high_ms, 0))}"
        return f"{left}, right rows for {show_interval(max(-self.low_ms, 0))}"

    def unlimited_state(self) -> str | None:
        """Return how long rows are kept, if RETENTION limits this and no window does."""
        if not self.retained:
            return None
        if self.high_ms == FOR_EVER_MS:
            return "keeps all rows of two streams forever: RETENTION is UNBOUNDED"
        return f"keeps the rows of two streams for {show_interval(self.high_ms)}, and joins no others"

    def detail(self) -> str:
        """Return the window, and the keys of the join."""
        on = " AND ".join(
            f"{self.left.row_type[one].name} = {self.right.row_type[other].name}"
            for one, other in zip(self.left_key, self.right_key, strict=True)
        )
        window = f"right from {self.low_ms} to {self.high_ms} ms after left"
        if self.high_ms >= FOR_EVER_MS <= -self.low_ms:
            window = "however far apart"
        further = "" if self.condition is None else f"; and {show(self.condition, self.row_type)}"
        return f"{self.kind.value}, {window}, on {on or 'every pair'}{further}"

    def origins(self, own: int, ports: Sequence[Sequence[int]], *, merged: bool) -> tuple[int, ...]:
        """Return its own origin."""
        return (own,)

    def partition_key(self) -> PartitionKey | None:
        """Return the keys of both sides."""
        return (self.left_key, self.right_key) if self.left_key else None

    def parts_hold_back(self) -> bool:
        """Return whether it can be split: output waits for the first row of any key with an open window."""
        return bool(self.left_key)

    def parts_of_own_rows(self) -> Agreed:
        """Return the key; a row without a match has NULLs for the other side's."""
        if self.kind is JoinKind.INNER:
            return frozenset(self.left_key)
        return frozenset((*self.left_key, *(len(self.left.row_type) + index for index in self.right_key)))

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the keys: the order of pairs is that of their rows."""
        return self.parts_of_own_rows()

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the rows of a pair, or the one row without a match."""
        halves = self._halves(row)
        there = [is_there(half) for half in halves]
        length = self.high_ms - self.low_ms
        delays = (self.left_delay_ms, self.right_delay_ms)
        for port, half in enumerate(halves):
            if not there[port]:
                continue
            if not there[1 - port]:
                begin = end = row.rowtime - delays[port]
            elif self.time is (JoinTime.LEFT, JoinTime.RIGHT)[port]:
                begin = end = row.rowtime
            elif self.time is JoinTime.LATER:
                begin, end = row.rowtime - max(abs(self.low_ms), abs(self.high_ms), length), row.rowtime
            elif port == 0:
                begin, end = row.rowtime - self.high_ms, row.rowtime - self.low_ms
            else:
                begin, end = row.rowtime + self.low_ms, row.rowtime + self.high_ms
            yield SourceRows(port, _equals(half), begin=begin, end=end)

    def released_by(self, row: TimedRow, port: int, ports: int) -> tuple[tuple[int, int], ...] | None:
        """Return the bounds that a pair waited for, or how long a row waited for a match."""
        left, right = map(is_there, self._halves(row))
        time = row.rowtime
        if not right:
            return (0, time), (1, time - self.left_delay_ms + self.high_ms + 1)
        if not left:
            return (1, time), (0, time - self.right_delay_ms - self.low_ms + 1)
        return (0, time), (1, time)

    def _halves(self, row: TimedRow) -> tuple[Row, Row]:
        width = len(self.left.row_type)
        return row.row[:width], row.row[width:]


def _equals(half: Row) -> Matches:
    return lambda each: each.row == half
