"""Windows of an OVER: the rows of a frame, and the calls over it.

See docs/sql/semantics.md#periods, #offset-and-hopping-frames, #frames-of-window-functions.

The current row is the physical row: rows of the same rowtime are in the frame if they came before
it, and not if they follow. Edges in time include both ends. Over a table, a window is ordered by values: RANGE 0
reaches the peers of the current row, which are equal to it in that order (docs/sql/windows.md#windows-over-tables).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from rowtide.expr.tree import Expr, PythonAggregate
from rowtide.rows.types import OMITTED, Type


class EdgeUnit(Enum):
    """The unit of an edge's offset."""

    ROWS = "ROWS"
    """Rows of the partition; 0 is CURRENT ROW."""
    RANGE = "RANGE"
    """Milliseconds of what the window is ordered by; 0 reaches rows of the same time."""
    UNBOUNDED = "UNBOUNDED"
    """No edge: from the first row on."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a frame: its offset after the current row. A negative offset is PRECEDING."""

    unit: EdgeUnit
    offset: int = 0


CURRENT_ROW = Edge(EdgeUnit.ROWS, 0)
UNBOUNDED_PRECEDING = Edge(EdgeUnit.UNBOUNDED)
LAST_PEER = Edge(EdgeUnit.RANGE, 0)
"""The last row that is equal to the current one in the order of the window."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows from ``start`` to ``end``, both included. ``end`` is not unbounded."""

    start: Edge = UNBOUNDED_PRECEDING
    end: Edge = CURRENT_ROW

    @property
    def waits(self) -> bool:
        """Return whether rows after the current one may be in the frame."""
        return self.end.offset > 0 or (self.end.unit is EdgeUnit.RANGE and self.end.offset == 0)

    @property
    def waits_for_rows(self) -> bool:
        """Return whether a row waits for rows of its partition, so that partitions hold each other back."""
        return self.end.unit is EdgeUnit.ROWS and self.end.offset > 0


@dataclass(frozen=True, slots=True)
class WindowCall:
    """An aggregate or window function over a frame, by its name in ``expr.aggregates``.

    ``argument`` None is COUNT(*), RANK or DENSE_RANK. ``number`` is n of NTH_VALUE and of the LAG that
    leaves out NULLs, and k of TOPK; any other LAG or LEAD has a frame of the one row that it reads. If there is
    none, the result is ``default``, a field of the current row. ``fraction`` is that of a percentile, ``of`` an
    aggregate in Python, as of an ``AggregateCall``.
    """

    function: str
    argument: Expr | None
    type: Type
    distinct: bool = False
    condition: Expr | None = None
    ignore_nulls: bool = False
    number: int = 1
    default: Expr | None = None
    fraction: Fraction | None = None
    of: PythonAggregate | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class FramedCall:
    """A call of a window over a table, and its frame: each call may have its own."""

    call: WindowCall
    frame: Frame
