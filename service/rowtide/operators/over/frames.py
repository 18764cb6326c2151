"""The frames of an OVER as arrays, for ``operators.aggregates.kernels.frames``, and their contents.

A partition without rows in a frame in time is dropped when room is made for
new entries; a partition of a period is dropped with the period.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.expr.tree import FieldRef
from rowtide.operators.aggregates.arithmetic.codes import column_of
from rowtide.operators.aggregates.groups.key_groups import FORGET_INTERNED_OVER, KeyGroups
from rowtide.operators.aggregates.windows.calls import Moved, Values, WindowKernelCall
from rowtide.operators.aggregates.windows.distinct import DistinctCounts, load_distinct, save_distinct
from rowtide.operators.aggregates.windows.make import form_of, make_call
from rowtide.operators.aggregates.windows.picks import Pick, Placed
from rowtide.operators.aggregates.windows.sums import input_of, stored_type
from rowtide.operators.storage.growing import grown
from rowtide.operators.storage.keys import power_of_two
from rowtide.plan.frames import CURRENT_ROW, EdgeUnit, Frame
from rowtide.plan.nodes import WindowAggregate
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray

RING_MOST = 16
"""Frames of up to this number of last rows have adjacent rows, in that number of slots for each partition."""
FORGET_OVER = 1 << 10
"""Empty partitions are dropped once there are more of them than this."""


class PartitionFrames:
    """The partitions of one window, and the frame of each."""

    def __init__(self, node: WindowAggregate) -> None:
        from rowtide.operators.aggregates.kernels import frames as over

        self._kernels = over
        self._node = node
        self._endless = node.frame.start.unit is EdgeUnit.UNBOUNDED
        # Rows enter frames without a start at once, and are not held.
        self._holds_none = self._endless and node.frame.end == CURRENT_ROW
        self._in_time = node.frame.start.unit is EdgeUnit.RANGE
        self._frame = _frame(node.frame)
        self._forms = [form_of(call) for call in node.calls]
        self._calls: list[WindowKernelCall] = [
            make_call(call, form, node.frame) for call, form in zip(node.calls, self._forms, strict=True)
        ]
        self._keys = KeyGroups([node.input.row_type[index].type for index in node.partition])
        # A frame that begins at the current row or after it needs no rows once no row waits.
        self._starts_behind = node.frame.start.unit is EdgeUnit.ROWS and node.frame.start.offset >= 0
        self._ring = _ring(node)
        self._rings = np.zeros((0, 2), dtype=np.int32)
        self._partitions = np.zeros((0, over.WIDTH), dtype=np.int32)
        self._following, self._free = (np.zeros(0, dtype=np.int32) for _ in range(2))
        self._orders = np.zeros(0, dtype=np.int64)
        self._slots = np.zeros(2, dtype=np.int64)
        self._steps = np.zeros(0, dtype=np.int64)

    # ----------------------------------------------------------------- rows

    def results(self, tray: Tray, order: Int64s, least: int) -> list[Column] | None:
        """Return a column for each call; None: the kernels cannot take these rows, and nothing has changed.

        ``order`` is the order of the window. No row ordered before ``least`` is in a frame any more.
        """
        order = np.require(order, requirements=["C", "W"])
        inputs = self._inputs(tray, order)
        if inputs is None:
            return None
        groups = self._groups(tray, least)
        for call, given in zip(self._calls, inputs, strict=True):
            call.begin(*given)
        if self._holds_none:
            self._follow(Moved.added(groups))
        elif self._ring:
            self._follow(self._turned(groups))
        else:
            self._advance(groups, order)
        return [self._column(index, tray) for index in range(len(self._calls))]

    def _inputs(self, tray: Tray, order: Int64s) -> list[tuple[Values, Mask]] | None:
        """Return the arguments of each call from a tray; None: the kernels cannot take it."""
        inputs = [
            input_of(call, form, tray, order)
            for call, form in zip(self._node.calls, self._forms, strict=True)
        ]
        return inputs if self._fits(inputs, len(tray)) else None

    def _groups(self, tray: Tray, least: int) -> Int64s:
        """Return the partitions of a tray's rows, with room for them."""
        rows = len(tray)
        if not self._holds_none and not self._ring:
            self._make_room(rows, least)
        groups = self._keys.number([tray.columns[index] for index in self._node.partition], rows)
        self._reserve()
        return groups

    def _turned(self, groups: Int64s) -> Moved:
        """Move frames of the last rows, whose rows are adjacent."""
        rows = len(groups)
        if len(self._steps) < 2 * rows:
            self._steps = np.empty(2 * rows, dtype=np.int64)
        picks = rows if any(isinstance(call, Pick) for call in self._calls) else 0
        until, first, last = (np.empty(length, dtype=np.int64) for length in (rows, picks, picks))
        self._kernels.advance_rings(groups, self._ring, self._rings, self._steps, until, first, last)
        return Moved(groups, 0, rows, self._steps, until, first, last)

    def _advance(self, groups: Int64s, order: Int64s, *, held: bool = False) -> None:
        """Move the frame of each row, as many rows at a time as there is room for steps.

        ``held``: the rows have waited; otherwise they are new.
        """
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
                held,
                self._frame,
                self._partitions,
                self._following,
                self._orders,
                self._free,
                self._slots,
                self._steps,
                until,
                first,
                last,
            )
            if stop > row:
                self._follow(Moved(groups, row, stop, self._steps, until, first, last))
            else:
                # One row removes more rows than there is room for.
                self._steps = np.empty(2 * (len(self._steps) + len(self._orders)), dtype=np.int64)
            row = stop

    def _follow(self, moved: Moved) -> None:
        for call in self._calls:
            call.follow(moved)

    def _column(self, index: int, tray: Tray) -> Column:
        call, node_call = self._calls[index], self._node.calls[index]
        values, known = call.result()
        form = self._forms[index]
        if isinstance(call, Placed) and isinstance(node_call.default, FieldRef) and known is not None:
            default, valid = form.encode(tray.columns[node_call.default.index])
            values = np.where(call.there, values, default)
            known = np.where(call.there, known, valid)
        # A count of texts is not a text.
        of = node_call.type
        return form.decode(of, values, known) if of.dtype == object else column_of(of, values, known)

    def _fits(self, inputs: Sequence[tuple[Values, Mask]], rows: int) -> bool:
        """Return whether kernels can take these values, after ``rows`` more."""
        over = self._kernels
        if self._frame[over.BY_ROWS]:
            return self._all_fit(inputs, int(self._frame[over.END] - self._frame[over.START]) + 1)
        if self._all_fit(inputs, int(self._slots[over.STORED]) + rows):
            return True
        # The rows of all partitions are too many for a quick check: count those of the largest partition.
        lengths = self._lengths()
        return self._all_fit(inputs, rows + (int(lengths.max()) if len(lengths) else 0))

    def _all_fit(self, inputs: Sequence[tuple[Values, Mask]], most: int) -> bool:
        return all(call.fits(*given, most) for call, given in zip(self._calls, inputs, strict=True))

    def is_littered(self) -> bool:
        """Return whether many more values are stored than there are rows, so that a rebuild is due."""
        interned = max((form.interned for form in self._forms), default=0)
        if interned <= FORGET_INTERNED_OVER:
            return False
        return interned > 4 * (self._keys.count + int(self._lengths().sum()))

    # ---------------------------------------------------------------- memory

    def _reserve(self) -> None:
        """Make room for every partition."""
        if self._ring:
            self._rings = grown(self._rings, self._keys.count)
        else:
            self._partitions = grown(self._partitions, self._keys.count)
        for call in self._calls:
            call.reserve(self._keys.count)
            call.hold(self._keys.count * self._ring)

    def _lengths(self) -> Int64s:
        """Count the entries of each partition."""
        if self._ring:
            return self._rings[: self._keys.count, 1].astype(np.int64)
        mine = self._partitions[: self._keys.count]
        return mine[:, self._kernels.INSIDE] + mine[:, self._kernels.AHEAD]

    def _in_use(self) -> Mask:
        """Return the partitions with rows, or with rows without a result."""
        used = self._lengths() > 0
        return used if self._ring else used | (self._waiting_rows() > 0)

    def _waiting_rows(self) -> Int64s:
        """Count the rows of each partition that have no result yet."""
        return self._partitions[: self._keys.count, self._kernels.WAITING].astype(np.int64)

    def _make_room(self, rows: int, least: int) -> None:
        """Make room for rows; first drop rows that are in no frame in time any more."""
        over = self._kernels
        held = int(self._slots[over.STORED] - self._slots[over.FREE])
        if held + rows <= len(self._orders):
            return
        if self._in_time or self._starts_behind:
            self.expire(least)
            kept = np.flatnonzero(self._in_use())
            if self._keys.count - len(kept) > max(FORGET_OVER, len(kept)):
                self._keep(kept)
            held = int(self._lengths().sum())
        if 2 * held + rows > len(self._orders):
            self._hold(power_of_two(2 * (held + rows)))

    def _hold(self, slots: int) -> None:
        """Make room for this number of rows."""
        self._orders = grown(self._orders, slots)
        self._following, self._free = grown(self._following, slots), grown(self._free, slots)
        for call in self._calls:
            call.hold(len(self._orders))

    def _listed(self, kept: Int64s) -> tuple[Int64s, Int64s]:
        """List the rows of the partitions ``kept``: the place of each in ``kept``, and its slot."""
        if self._ring:
            return self._listed_rings(kept)
        count = int(self._lengths()[kept].sum())
        numbers, slots = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        self._kernels.list_rows(self._partitions, kept, self._following, numbers, slots)
        return numbers, slots

    def _listed_rings(self, kept: Int64s) -> tuple[Int64s, Int64s]:
        lengths = self._lengths()[kept]
        numbers = np.repeat(np.arange(len(kept)), lengths)
        oldest = np.where(lengths == self._ring, self._rings[kept, 0], 0)
        within = np.arange(len(numbers)) - (np.cumsum(lengths) - lengths)[numbers]
        return numbers, kept[numbers] * self._ring + (oldest[numbers] + within) % self._ring

    def _keep(self, kept: Int64s) -> None:
        """Drop all partitions except these."""
        self._partitions = self._partitions[kept]
        for call in self._calls:
            call.keep(kept)
        self._keys.keep(kept)

    def forget_ended(self, field: int, least: int) -> None:
        """Drop the partitions whose field of this number, a time, is below ``least``."""
        kept = np.flatnonzero((self._keys.whole(field) >= least) | (self._waiting_rows() > 0))
        if len(kept) < self._keys.count:
            self._keep(kept)

    def expire(self, least: int) -> None:
        """Drop the rows that are ordered before ``least``."""
        count = self._keys.count
        steps = np.empty(int(self._lengths().sum()), dtype=np.int64)
        until = np.empty(count, dtype=np.int64)
        self._kernels.expire(
            self._partitions,
            count,
            self._following,
            self._orders,
            self._free,
            self._slots,
            least,
            self._starts_behind,
            steps,
            until,
        )
        self._follow_partitions(steps, until)

    def _follow_partitions(self, steps: Int64s, until: Int64s) -> None:
        """Follow steps of partitions, not of rows, whose results are not used."""
        groups, none = np.arange(len(until)), np.full(len(until), -1)
        for call in self._calls:
            call.begin_held(len(until))
            if not isinstance(call, Pick):
                call.follow(Moved(groups, 0, len(until), steps, until, none, none))

    # -------------------------------------------------------------- snapshot

    def groups(self) -> tuple[list[Column], dict[str, pa.Array], Int64s]:
        """Return the keys of the partitions with state, their state, and their numbers."""
        over, lengths = self._kernels, self._lengths()
        kept = np.arange(len(lengths)) if self._endless else np.flatnonzero(self._in_use())
        saved = [""] * len(kept)
        if self._endless:
            each = [self._saved(index, kept) for index in range(len(self._calls))]
            saved = [json.dumps(held) for held in zip(*each, strict=True)]
        # Indexes count from the first row inside: earlier rows are in no frame any more.
        inside = np.zeros(len(kept), dtype=np.int64)
        if self._ring:
            inside = lengths[kept]
        elif not self._endless:
            inside = self._partitions[kept, over.INSIDE].astype(np.int64)
        columns = {
            "low": pa.array(np.zeros_like(inside)),
            "high": pa.array(inside),
            "inside": pa.array(inside),
            "saved": pa.array(saved, type=pa.string()),
        }
        return self._keys.columns(kept), columns, kept

    def _saved(self, index: int, kept: Int64s) -> Iterable[list[Any]]:
        """Return the state of a call for each partition in a frame without a start."""
        call = self._calls[index]
        if isinstance(call.once, DistinctCounts):
            return save_distinct(call.once, self._node.calls[index], self._forms[index], kept)
        return call.save(kept)

    def _loaded(self, index: int, saved: Sequence[list[Any]]) -> bool:
        """Restore the result of ``_saved``; False: it does not fit."""
        call = self._calls[index]
        if isinstance(call.once, DistinctCounts):
            return load_distinct(call, call.once, self._node.calls[index], self._forms[index], saved)
        return call.load(saved)

    def entries(self, kept: Int64s) -> tuple[Int64s, Int64s, list[Column]]:
        """Return the rows that the partitions ``kept`` hold: their places in it, orders, and values by call."""
        numbers, slots = self._listed(kept)
        columns = []
        for call, form, node_call in zip(self._calls, self._forms, self._node.calls, strict=True):
            columns.append(form.decode(stored_type(node_call), *call.stored(slots)))
        order = np.zeros(len(slots), dtype=np.int64) if self._ring else self._orders[slots]
        return numbers, order, columns

    def load(
        self, keys: Sequence[Column], table: pa.Table, order: Int64s, values: Sequence[Column], of: Int64s
    ) -> bool:
        """Take over partitions and their entries; False: kernels cannot, and this is of no use any more.

        ``of`` is the partition of each entry; entries of one partition are adjacent.
        """
        over, count = self._kernels, len(table)
        self._keys.number(keys, count)
        self._reserve()
        if self._endless:
            saved = [json.loads(text) for text in table.column("saved").to_pylist()]
            if not all(self._loaded(index, [held[index] for held in saved]) for index in range(len(values))):
                return False
            if self._holds_none:
                return True
        lengths = np.bincount(of, minlength=count)
        inside = table.column("inside").to_numpy()
        inputs = [form.encode(column) for form, column in zip(self._forms, values, strict=True)]
        if not self._fits(inputs, int(lengths.max()) if count else 0):
            return False
        starts = np.cumsum(lengths) - lengths
        within = np.arange(len(order)) - starts[of]
        if self._ring:
            self._rings[:count, 0], self._rings[:count, 1] = lengths % self._ring, lengths
            slots = of * self._ring + within
        else:
            self._hold(power_of_two(2 * len(order)))
            self._orders[: len(order)] = order
            self._following[:] = np.arange(1, len(self._following) + 1)
            self._slots[over.STORED] = len(order)
            mine = self._partitions[:count]
            mine[:, over.INSIDE], mine[:, over.AHEAD] = inside, lengths - inside
            mine[:, over.HEAD], mine[:, over.PENDING] = starts, starts + inside
            mine[:, over.TAIL], mine[:, over.LAST] = starts + lengths - 1, starts + inside - 1
            slots = np.arange(len(order))
        for call, given in zip(self._calls, inputs, strict=True):
            call.put(*given, slots)
        self._follow_partitions(4 * slots[within < inside[of]] + over.ENTER, np.cumsum(inside))
        return True


def _ring(node: WindowAggregate) -> int:
    """Return the length of a frame of few last rows; 0 for any other, and where partitions are forgotten."""
    start, end = node.frame.start, node.frame.end
    if start.unit is not EdgeUnit.ROWS or end != CURRENT_ROW or node.snap is not None:
        return 0
    size = 1 - start.offset
    return size if size <= RING_MOST else 0


def _frame(frame: Frame) -> Int64s:
    """Return a frame in the form of the kernel."""
    by_rows, end_by_rows = (edge.unit is EdgeUnit.ROWS for edge in (frame.start, frame.end))
    endless = frame.start.unit is EdgeUnit.UNBOUNDED
    numbers = [by_rows, frame.start.offset, frame.end == CURRENT_ROW, end_by_rows, frame.end.offset, endless]
    return np.array(numbers, dtype=np.int64)
