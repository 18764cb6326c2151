"""Windows of OVER over a table: the results of its rows, and how they change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rowtide.plan.frames import LAST_PEER, UNBOUNDED_PRECEDING, Frame, FramedCall
from rowtide.plan.nodes.changes.partition_changes import PartitionChanges
from rowtide.plan.nodes.lineage import SourceRows, identity, picked
from rowtide.plan.nodes.node import Form
from rowtide.plan.nodes.over_one import names_of, terms_of
from rowtide.plan.show import show_edge, show_window_call
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import RowType

SO_FAR = Frame(UNBOUNDED_PRECEDING, LAST_PEER)
"""The frame of a window over a table that writes none: to the last peer of the row. Without an order, all are peers."""


@dataclass(frozen=True, slots=True)
class WindowChanges(PartitionChanges):
    """Add to each row of a table the results of ``calls`` over its partition, and emit how they change.

    ``keys`` are the order of the window: fields, each with True if it descends; NULL is the greatest value. Rows that
    are equal in them are peers, and in the order of their fields. ``partition``, ``keys``, and the arguments,
    conditions and defaults of ``calls`` are fields of the input: a Project below computes them. Out: the input's
    fields, then one for each call.

    The rows of one place are one change. In each partition that it reaches, the rows that go are deleted; then each
    row with other results is deleted and inserted, and each new one inserted, in the order of the window. A change
    that a call cannot take is rejected. It waits until it fits, or is undone, as in groups of changes.
    """

    partition: tuple[int, ...]
    keys: tuple[tuple[int, bool], ...]
    calls: tuple[FramedCall, ...]
    row_type: RowType

    kept = "the rows of the table, and their results"
    why_kept = "to compute windows over them"

    def key_fields(self) -> tuple[int, ...] | None:
        """Return those of the input: each of its rows has one row."""
        return self.input.key_fields()

    def form(self) -> Form | None:
        """Return that it is plain Python."""
        return Form.BY_ROW

    def detail(self) -> str:
        """Return the calls and their windows."""
        by_frame: dict[Frame, list[str]] = {}
        for each in self.calls:
            by_frame.setdefault(each.frame, []).append(show_window_call(each.call, self.input.row_type))
        return "; ".join(
            f"{', '.join(calls)} OVER ({self._window(frame)})" for frame, calls in by_frame.items()
        )

    def _window(self, frame: Frame) -> str:
        parts = [f"PARTITION BY {names_of(self.input.row_type, self.partition)}"] if self.partition else []
        if self.keys:
            parts.append(f"ORDER BY {', '.join(terms_of(self.input.row_type, self.keys))}")
        if frame != SO_FAR:
            parts.append(f"ROWS BETWEEN {show_edge(frame.start)} AND {show_edge(frame.end)}")
        return " ".join(parts)

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the changes of the partition up to the one that caused the row."""
        own = picked(row.row, self.partition)
        yield SourceRows(
            0, lambda each: picked(each.row, self.partition) == own, end=row.rowtime, until=identity(row)
        )

    @property
    def lineage_note(self) -> str | None:
        """Deleted rows match, too."""
        return "rows that were taken out of the partition again are among them"
