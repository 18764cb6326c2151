"""The frames of an OVER as arrays, for ``operators.kernels.over``, and what is in each.

A partition that has no rows left in a frame in time is forgotten when room is
made for new entries; one of a period that is over, with the period.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.expr.tree import FieldRef
from rowtide.operators.key_groups import KeyGroups
from rowtide.operators.keys import power_of_two
from rowtide.operators.over_calls import (
    Call,
    Count,
    DoubleSum,
    Extreme,
    Moved,
    Pick,
    Sum,
    column_of,
    grown,
    input_of,
    stored_type,
    values_of,
)
from rowtide.operators.over_running import Rank, RunningExtreme, RunningPick
from rowtide.plan.frames import CURRENT_ROW, EdgeUnit, Frame, WindowCall
from rowtide.plan.nodes import WindowAggregate
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray

Int64s = NDArray[np.int64]

FORGET_OVER = 1 << 10
"""Empty partitions are forgotten once there are more of them than this."""


class Frames:
    """The partitions of one window, and what is in the frame of each."""

    def __init__(self, node: WindowAggregate) -> None:
        from rowtide.operators.kernels import over

        self._kernels = over
        self._node = node
        self._endless = node.frame.start.unit is EdgeUnit.UNBOUNDED
        self._in_time = node.frame.start.unit is EdgeUnit.RANGE
        self._frame = _frame(node.frame)
        self._calls = [make_call(call, endless=self._endless) for call in node.calls]
        self._keys = KeyGroups([node.input.row_type[index].type for index in node.partition])
        self._partitions = np.zeros((0, over.WIDTH), dtype=np.int64)
        self._following, self._orders = (np.zeros(0, dtype=np.int64) for _ in range(2))
        self._stored = 0
        self._steps = np.zeros(0, dtype=np.int64)

    # ----------------------------------------------------------------- rows

    def results(self, tray: Tray, order: Int64s, least: int) -> list[Column] | None:
        """Give a column a call; None: the kernels cannot take these rows, and nothing has changed.

        ``order`` is what the window is ordered by; nothing ordered before ``least`` is in a frame any more.
        """
        rows = len(tray)
        inputs = [input_of(call, tray, order) for call in self._node.calls]
        most = self._most(rows)
        if not all(
            call.fits(values, use, most) for call, (values, use) in zip(self._calls, inputs, strict=True)
        ):
            return None
        start = 0 if self._endless else self._stored
        if start + rows > len(self._orders):
            self._make_room(rows, least)
            start = self._stored
        groups = self._keys.number([tray.columns[index] for index in self._node.partition], rows)
        self._reserve()
        for call, (values, use) in zip(self._calls, inputs, strict=True):
            call.put(start, values, use)
            call.begin(rows)
        if self._endless:
            self._run(groups)
        else:
            self._orders[start : start + rows] = order
            self._advance(groups, order)
            self._stored += rows
        return [self._column(index, tray) for index in range(len(self._calls))]

    def _run(self, groups: Int64s) -> None:
        """Add rows to frames without a start: every row only enters."""
        rows = len(groups)
        if len(self._steps) < rows:
            self._steps = np.arange(2 * rows, dtype=np.int64)
        self._follow(Moved(groups, 0, rows, self._steps, self._steps[1:], groups, groups))

    def _advance(self, groups: Int64s, order: Int64s) -> None:
        """Move the frame of each row, as many rows at a time as there is room for steps."""
        rows = len(groups)
        if len(self._steps) < 3 * rows:
            self._steps = np.empty(3 * rows, dtype=np.int64)
        until, first, last = (np.empty(rows, dtype=np.int64) for _ in range(3))
        row = 0
        while row < rows:
            stop = self._kernels.advance(
                groups,
                order,
                row,
                self._frame,
                self._partitions,
                self._following,
                self._orders,
                self._stored,
                self._steps,
                until,
                first,
                last,
            )
            if stop > row:
                self._follow(Moved(groups, row, stop, self._steps, until, first, last))
            else:
                # One row lets more go than there is room for.
                self._steps = np.empty(2 * (len(self._steps) + self._stored), dtype=np.int64)
            row = stop

    def _follow(self, moved: Moved) -> None:
        for call in self._calls:
            call.follow(moved)

    def _column(self, index: int, tray: Tray) -> Column:
        call, node_call = self._calls[index], self._node.calls[index]
        values, known = call.result()
        if isinstance(call, Pick) and isinstance(node_call.default, FieldRef) and known is not None:
            default, valid = values_of(tray.columns[node_call.default.index])
            values = np.where(call.there, values, default)
            known = np.where(call.there, known, valid)
        return column_of(node_call.type, values, known)

    def _most(self, rows: int) -> int:
        """Give a number of rows that no frame exceeds, ``rows`` more having come."""
        if self._frame[self._kernels.BY_ROWS]:
            return int(self._frame[self._kernels.END] - self._frame[self._kernels.START]) + 1
        lengths = self._lengths()
        return rows + (int(lengths.max()) if len(lengths) else 0)

    # ---------------------------------------------------------------- memory

    def _reserve(self) -> None:
        """Make room for every partition."""
        self._partitions = grown(self._partitions, self._keys.count)
        for call in self._calls:
            call.reserve(self._keys.count)

    def _lengths(self) -> Int64s:
        """Count the entries of each partition."""
        mine = self._partitions[: self._keys.count]
        return mine[:, self._kernels.INSIDE] + mine[:, self._kernels.AHEAD]

    def _make_room(self, rows: int, least: int) -> None:
        """Drop the entries that are in no frame any more, and make room for as many new ones as rows."""
        if self._in_time:
            self.expire(least)
            lengths = self._lengths()
            kept = np.flatnonzero(lengths)
            if len(lengths) - len(kept) > max(FORGET_OVER, len(kept)):
                self._keep(kept)
        _, places = self._listed(np.arange(self._keys.count))
        self._move(places, self._lengths(), power_of_two(2 * (len(places) + rows)))

    def _move(self, places: Int64s, lengths: Int64s, room: int) -> None:
        """Let the entries at ``places``, by partition and in order, be the first and only ones."""
        over, mine = self._kernels, self._partitions[: len(lengths)]
        starts = np.cumsum(lengths) - lengths
        mine[:, over.HEAD], mine[:, over.PENDING] = starts, starts + mine[:, over.INSIDE]
        mine[:, over.TAIL], mine[:, over.LAST] = starts + lengths - 1, mine[:, over.PENDING] - 1
        for call in self._calls:
            call.move(places, room)
        self._orders = grown(self._orders[places], room)
        self._following = np.arange(1, room + 1)
        self._stored = len(places)

    def _listed(self, kept: Int64s) -> tuple[Int64s, Int64s]:
        """List the entries of the partitions ``kept``: the place of each in ``kept``, and its number."""
        count = int(self._lengths()[kept].sum())
        numbers, entries = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        self._kernels.list_entries(self._partitions, kept, self._following, numbers, entries)
        return numbers, entries

    def _keep(self, kept: Int64s) -> None:
        """Forget all partitions but these."""
        self._partitions = self._partitions[kept]
        for call in self._calls:
            call.keep(kept)
        self._keys.keep(kept)

    def forget_ended(self, field: int, least: int) -> None:
        """Forget the partitions whose field of this number, a time, is below ``least``."""
        kept = np.flatnonzero(self._keys.whole(field) >= least)
        if len(kept) < self._keys.count:
            self._keep(kept)

    def expire(self, least: int) -> None:
        """Let the entries go that are ordered before ``least``."""
        count = self._keys.count
        steps = np.empty(int(self._lengths().sum()), dtype=np.int64)
        until = np.empty(count, dtype=np.int64)
        self._kernels.expire(self._partitions, count, self._following, self._orders, least, steps, until)
        self._enter(steps, until)

    def _enter(self, steps: Int64s, until: Int64s) -> None:
        """Follow steps that are not of rows but of partitions, whose results nobody wants."""
        groups = np.arange(len(until))
        none = np.full(len(until), -1)
        for call in self._calls:
            call.begin(len(until))
        self._follow(Moved(groups, 0, len(until), steps, until, none, none))

    # -------------------------------------------------------------- snapshot

    def groups(self) -> tuple[list[Column], dict[str, pa.Array], Int64s]:
        """Give the keys of the partitions that keep anything, what they keep, and their numbers."""
        over, lengths = self._kernels, self._lengths()
        kept = np.arange(len(lengths)) if self._endless else np.flatnonzero(lengths)
        mine = self._partitions[kept]
        saved = [""] * len(kept)
        if self._endless:
            each = [call.save(kept) for call in self._calls]
            saved = [json.dumps(held) for held in zip(*each, strict=True)]
        low, inside = mine[:, over.LOW], mine[:, over.INSIDE]
        columns = {
            "low": pa.array(low.copy()),
            "high": pa.array(low + inside),
            "inside": pa.array(inside.copy()),
            "saved": pa.array(saved, type=pa.string()),
        }
        return self._keys.columns(kept), columns, kept

    def entries(self, kept: Int64s) -> tuple[Int64s, Int64s, list[Column]]:
        """Give the entries of the partitions ``kept``: their places in it, orders, and values by call."""
        numbers, entries = self._listed(kept)
        columns = []
        for call, node_call in zip(self._calls, self._node.calls, strict=True):
            values, use = call.stored(entries)
            columns.append(column_of(stored_type(node_call), values, use))
        return numbers, self._orders[entries], columns

    def load(
        self, keys: Sequence[Column], table: pa.Table, order: Int64s, values: Sequence[Column], of: Int64s
    ) -> bool:
        """Take over partitions and their entries; False: kernels cannot, and this is of no use any more.

        ``of`` tells which partition each entry is of; those of one stand together.
        """
        over, count = self._kernels, len(table)
        self._keys.number(keys, count)
        self._reserve()
        if self._endless:
            saved = [json.loads(text) for text in table.column("saved").to_pylist()]
            return all(call.load([held[index] for held in saved]) for index, call in enumerate(self._calls))
        lengths = np.bincount(of, minlength=count)
        inside = table.column("inside").to_numpy()
        inputs = [values_of(column) for column in values]
        most = max(self._most(0), int(lengths.max()) if count else 0)
        if not all(call.fits(*given, most) for call, given in zip(self._calls, inputs, strict=True)):
            return False
        mine = self._partitions[:count]
        mine[:, over.LOW] = table.column("low").to_numpy()
        mine[:, over.INSIDE], mine[:, over.AHEAD] = inside, lengths - inside
        self._move(np.zeros(0, dtype=np.int64), lengths, power_of_two(2 * len(order)))
        self._stored = len(order)
        self._orders[: len(order)] = order
        for call, given in zip(self._calls, inputs, strict=True):
            call.put(0, *given)
        starts = np.cumsum(lengths) - lengths
        within = np.arange(len(order)) - starts[of]
        self._enter(np.flatnonzero(within < inside[of]), np.cumsum(inside))
        return True


def make_call(call: WindowCall, *, endless: bool) -> Call:
    """Give what computes a call by kernels; ``endless``: its frame has no start, nothing ever leaves.

    Raises:
      KeyError: there are none (``plan.paths``).
    """
    of = call.type if call.argument is None else call.argument.type
    dtype = np.float64 if of.is_float else np.int64
    match call.function:
        case "COUNT" | "ROW_NUMBER":
            return Count()
        case "RANK" | "DENSE_RANK":
            return Rank(dense=call.function == "DENSE_RANK")
        case "SUM" | "AVG" if of.is_float:
            return DoubleSum(average=call.function == "AVG")
        case "SUM" | "AVG":
            return Sum(call, of.scale, endless=endless)
        case "MIN" | "MAX":
            greatest = call.function == "MAX"
            return RunningExtreme(of, greatest=greatest) if endless else Extreme(dtype, greatest=greatest)
        case "FIRST_VALUE" | "LAST_VALUE" | "NTH_VALUE" | "LAG" | "LEAD":
            last = call.function == "LAST_VALUE"
            return RunningPick(of, last=last) if endless else Pick(dtype, last=last)
    raise KeyError(call.function)


def _frame(frame: Frame) -> Int64s:
    """Give a frame as the kernel takes it."""
    by_rows, end_by_rows = (edge.unit is EdgeUnit.ROWS for edge in (frame.start, frame.end))
    numbers = [by_rows, frame.start.offset, frame.end == CURRENT_ROW, end_by_rows, frame.end.offset]
    return np.array(numbers, dtype=np.int64)
