"""Windows of OVER: calls over a frame of each row's partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rowtide.plan.calls import has_window_kernel
from rowtide.plan.frames import CURRENT_ROW, EdgeUnit, Frame, WindowCall
from rowtide.plan.nodes.lineage import SourceRows, identity, picked
from rowtide.plan.nodes.node import Agreed, Form, PartitionKey, require
from rowtide.plan.nodes.over_one import OverOne, names_of
from rowtide.plan.nodes.row_wise import done_but_for
from rowtide.plan.show import show_edge, show_interval, show_period, show_window_call
from rowtide.rows.rowop import TimedRow
from rowtide.rows.types import RowType
from rowtide.rowtime.period import GridWindow, Period, value_of


class _Over(OverOne):
    """The base of one window and of several parallel ones."""

    __slots__ = ()

    def is_changelog(self) -> bool:
        """Return False: windows are of streams."""
        return False

    def only_inserts(self) -> bool:
        """Return True."""
        return True

    def holds_rowtime(self, field: int) -> bool:
        """Return whether a field of the input does."""
        return field < len(self.input.row_type) and self.input.holds_rowtime(field)

    def ended_window(self) -> GridWindow | None:
        """Return that of the input, whose rowtimes its rows have."""
        return self.input.ended_window()


@dataclass(frozen=True, slots=True)
class WindowAggregate(_Over):
    """Add to each row the results of ``calls`` over a frame of its partition (docs/sql/windows.md).

    ``order`` is the time by which frames are measured: EXACT for ROWTIME. ``partition``, the
    arguments, conditions and defaults of ``calls`` are fields of the input: a Project below computes
    them. Out: the input's fields, then one for each call; rowtime, tie-break and order of the input.
    A row waits until no row that may still come can be in its frame. A row for which a call fails
    is rejected. If the frame ends with the row itself, it is in no later frame either.

    ``snap``: the field at this place of ``partition`` is this period of ROWTIME, so a partition ends with it.
    """

    partition: tuple[int, ...]
    order: Period
    frame: Frame
    calls: tuple[WindowCall, ...]
    row_type: RowType
    snap: tuple[int, Period] | None = None

    def keeps(self) -> str | None:
        """Return the rows of each partition that are kept."""
        each = f" of each {names_of(self.input.row_type, self.partition)}" if self.partition else ""
        start, end = self.frame.start, self.frame.end
        over = "" if self.snap is None else ", until its period is over"
        match start.unit:
            case EdgeUnit.UNBOUNDED if not self.frame.waits and end.offset == 0:
                return f"running results{each}{over}"
            case EdgeUnit.UNBOUNDED:
                return f"running results{each}, and rows that are not yet in them{over}"
            case EdgeUnit.ROWS if end.unit is EdgeUnit.RANGE:
                before = f", and {-start.offset} before them," if start.offset < 0 else ""
                return f"rows of {show_interval(end.offset)}{before}{each}{over}"
            case EdgeUnit.ROWS:
                count = max(end.offset if end.unit is EdgeUnit.ROWS else 0, 0) - min(start.offset, 0) + 1
                return f"the last {count} rows{each}{over}"
            case EdgeUnit.RANGE:
                length = max(end.offset if end.unit is EdgeUnit.RANGE else 0, 0) - min(start.offset, 0)
                return f"rows of {show_interval(length)}{each}{over}"

    def windows_of_input(self) -> tuple[GridWindow, ...]:
        """Return the time by which frames are measured."""
        return (self.order,)

    def form(self) -> Form | None:
        """Return whether every call has a kernel over the frame."""
        compiled = all(has_window_kernel(call, self.frame) for call in self.calls)
        return Form.COMPILED if compiled else Form.BY_ROW

    def detail(self) -> str:
        """Return the calls and their window."""
        row_type = self.input.row_type
        calls = ", ".join(show_window_call(call, row_type) for call in self.calls)
        parts = [f"ORDER BY {show_period(self.order)}"]
        if self.partition:
            parts.insert(0, f"PARTITION BY {names_of(row_type, self.partition)}")
        units = {self.frame.start.unit, self.frame.end.unit}
        to_current = EdgeUnit.UNBOUNDED in units and self.frame.end == CURRENT_ROW
        unit = "RANGE" if EdgeUnit.RANGE in units or to_current else "ROWS"
        parts.append(f"{unit} BETWEEN {show_edge(self.frame.start)} AND {show_edge(self.frame.end)}")
        return f"{calls} OVER ({' '.join(parts)})"

    def partition_key(self) -> PartitionKey | None:
        """Return the partition, unless rows of one partition hold back those of others."""
        return (self.partition,) if self.partition and not self.frame.waits_for_rows else None

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the same fields, if rows of a partition keep their order."""
        require(agreed, self.partition)
        return agreed

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the rows of the frame, and the row itself."""
        frame, order, partition = self.frame, self.order, self.partition
        own = picked(row.row, partition)
        here, place = value_of(order, row.rowtime), identity(row)

        def matches(each: TimedRow) -> bool:
            if identity(each) == place:
                return True
            if picked(each.row, partition) != own:
                return False
            distance = value_of(order, each.rowtime) - here
            if frame.start.unit is EdgeUnit.RANGE and distance < frame.start.offset:
                return False
            return not (frame.end.unit is EdgeUnit.RANGE and distance > frame.end.offset)

        last = None
        if frame.start.unit is EdgeUnit.ROWS and frame.start.offset <= 0:
            last = 1 - frame.start.offset
        after = frame.end.offset if frame.waits_for_rows else 0
        in_time = frame.end.unit is EdgeUnit.RANGE and frame.end.offset >= 0
        yield SourceRows(0, matches, last=last, until=None if in_time else place, after=after)

    def released_by(self, row: TimedRow, port: int, ports: int) -> tuple[tuple[int, int], ...] | None:
        """Return the end of the row's frame, if the frame reaches past the row."""
        return ((0, row.rowtime + self.frame.end.offset + 1),) if self.frame.waits else None


@dataclass(frozen=True, slots=True)
class WaitingWindow:
    """One of several windows whose rows wait; its fields are those of a WindowAggregate."""

    partition: tuple[int, ...]
    order: Period
    frame: Frame
    calls: tuple[WindowCall, ...]
    snap: tuple[int, Period] | None = None


@dataclass(frozen=True, slots=True)
class WindowsAbreast(_Over):
    """Add to each row the results of several windows that wait for later rows.

    As nested windows, each would wait for the rows that the one below has released. Here all receive the
    rows as they come, and a row waits only for the last of them (docs/sql/windows.md). Out: the input's
    fields, then one for each call of each window; a row that one of them rejects is in the frames of the
    others.
    """

    windows: tuple[WaitingWindow, ...]
    row_type: RowType

    def each(self) -> tuple[WindowAggregate, ...]:
        """Return the windows, each alone over the input."""
        own = self.input.row_type
        found = []
        at = len(own)
        for window in self.windows:
            row_type = RowType((*own, *list(self.row_type)[at : at + len(window.calls)]))
            at += len(window.calls)
            found.append(
                WindowAggregate(
                    self.relation,
                    self.input,
                    window.partition,
                    window.order,
                    window.frame,
                    window.calls,
                    row_type,
                    window.snap,
                )
            )
        return tuple(found)

    def windows_of_input(self) -> tuple[GridWindow, ...]:
        """Return the times by which frames are measured."""
        return tuple(window.order for window in self.windows)

    def keeps(self) -> str | None:
        """Return the state of each window."""
        return "; ".join(dict.fromkeys(each.keeps() or "" for each in self.each()))

    def work(self) -> str | None:
        """Return the calls that are not compiled."""
        by_row = [
            show_window_call(call, self.input.row_type)
            for each in self.each()
            if each.form() is Form.BY_ROW
            for call in each.calls
        ]
        return done_but_for(Form.COMPILED.value, by_row)

    def detail(self) -> str:
        """Return each window."""
        return "; ".join(each.detail() for each in self.each())

    def order_through(self, agreed: Agreed, port: int) -> Agreed:
        """Return the fields unchanged, if rows of every partition keep their order."""
        for window in self.windows:
            require(agreed, window.partition)
        return agreed

    def made_of(self, row: TimedRow) -> Iterator[SourceRows]:
        """Yield the rows of each frame, and the row itself."""
        for each in self.each():
            yield from each.made_of(row)

    def released_by(self, row: TimedRow, port: int, ports: int) -> tuple[tuple[int, int], ...] | None:
        """Return the end of the longest frame."""
        return ((0, row.rowtime + max(window.frame.end.offset for window in self.windows) + 1),)
