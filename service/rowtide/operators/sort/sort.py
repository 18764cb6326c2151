"""t-sort: judge lateness and release rows in time order (docs/sql/semantics.md#late-rows, #t-sort)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.operators.contract import (
    PARTITION_BITS,
    RESUBMITTED,
    Account,
    Fault,
    OperatorSite,
    State,
    StepOutput,
    Want,
)
from rowtide.operators.faults import late_row
from rowtide.operators.sort.held_rows import HeldRows
from rowtide.operators.splitting import Whole
from rowtide.plan.nodes import Sort
from rowtide.rows.column import compact
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, UNMARKED, Bound

TAKEN = 1
"""The port of bounds that an idle partition takes. Rows and all other bounds come at port 0."""
BoundGiver = Literal["row", "explicit", "taken"]
"""What has given a bound: the rows, an explicit bound, or a bound that an idle partition took."""


class SortOperator(Whole):
    """The t-sort of one partition, or of a merged stream.

    On a merged stream rows of equal rowtime keep their order of arrival,
    which their old tie-break does not have: there the operator signs the rows
    again.

    Resubmitted rows and changes of tables are never late: rows below the bound take the least accepted
    rowtime. The same holds for rows below only the bound that their partition took while it was idle,
    if they go only to keyed tables: they are revived (docs/sql/streams.md). Rows that come after the end of
    time, where rows are signed again, are changes of tables that only statements fill, and never late either
    (docs/decisions/0026).
    """

    def __init__(self, node: Sort, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._within = node.within_ms
        self._signs = site.origin if site.merged else UNMARKED
        self._highest = EARLIEST
        self._explicit = EARLIEST
        self._taken = EARLIEST
        self._revives = site.feeds_tables
        self.revived = 0
        """Number of rows that took effect at the bound of an idle partition."""
        self._last = (UNMARKED, UNMARKED)
        self._rows = HeldRows(node.row_type)

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Take a bound. ``bound`` is an explicit one; at port TAKEN one that an idle partition takes."""
        faults: list[Fault] = []
        kept = self._judge(tray, faults) if tray is not None and len(tray) else None
        if port == TAKEN:
            self._taken = max(self._taken, bound.rowtime)
        else:
            self._explicit = max(self._explicit, bound.rowtime)
        limit = max(self._floor(), self._explicit, self._taken)
        if self._within:
            if kept is not None:
                self._rows.add(kept)
            released = self._rows.release(limit)
        else:
            # Rows that are not late are then in order, and no row waits.
            released = kept if kept is not None and len(kept) else None
        if released is not None:
            self.account.done += len(released)
            self.account.rows_out += len(released)
        return StepOutput(released, Bound(limit, *self._last), faults)

    @property
    def giver(self) -> BoundGiver:
        """What has given the bound. Of those that reach it rows come first, then explicit bounds."""
        if self._floor() >= max(self._explicit, self._taken):
            return "row"
        return "explicit" if self._explicit >= self._taken else "taken"

    def held(self) -> int:
        """Count the rows that wait for their time."""
        return len(self._rows)

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        # An explicit bound; a row does it too that is WITHIN later.
        if bound is None:
            bound = self._rows.first()
        return [] if bound is None else [Want(0, bound)]

    def snapshot(self) -> State:
        clock = {
            "highest": self._highest,
            "explicit": self._explicit,
            "taken": self._taken,
            "revived": self.revived,
            "origin": self._last[0],
            "counter": self._last[1],
        }
        return {
            "account": self.account.to_arrow(),
            "clock": pa.table({name: [value] for name, value in clock.items()}),
            "rows": self._rows.contents().to_arrow(),
        }

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        clock = state["clock"].to_pylist()[0]
        self._highest, self._explicit = clock["highest"], clock["explicit"]
        # Snapshots of older versions have no taken bounds.
        self._taken, self.revived = clock.get("taken", EARLIEST), clock.get("revived", 0)
        self._last = (clock["origin"], clock["counter"])
        self._rows = HeldRows(self._node.row_type)
        self._rows.add(Tray.from_arrow(self._node.row_type, state["rows"]))

    def _has_ended(self) -> bool:
        """Return whether only changes of tables of statements can come: no partition of a stream signs again."""
        return self._explicit == LATEST and self._signs != UNMARKED

    def _floor(self) -> int:
        """Return the least rowtime that is accepted after the rows so far."""
        return max(self._highest, EARLIEST + self._within) - self._within

    def _judge(self, tray: Tray, faults: list[Fault]) -> Tray:
        """Return the rows that are not late, and advance the clock. Late ones become faults."""
        from rowtide.operators.sort.kernels.sorting import judge

        self.account.rows_in += len(tray)
        rowtime = compact(tray.rowtime)
        promised = max(self._explicit, self._taken)
        highest = judge(rowtime, self._highest, EARLIEST, self._within, promised)
        kept = tray if highest > EARLIEST else self._without_late(tray, faults)
        # A late row is below the highest time, so it is never the maximum.
        self._highest = max(self._highest, highest)
        return self._signed(kept)

    def _without_late(self, tray: Tray, faults: list[Fault]) -> Tray:
        rowtime = tray.rowtime
        seen = np.maximum.accumulate(rowtime)
        before = np.empty_like(seen)
        before[0] = self._highest
        np.maximum(seen[:-1], self._highest, out=before[1:])
        explicit = EARLIEST if self._has_ended() else self._explicit
        own = np.maximum(np.maximum(before, EARLIEST + self._within) - self._within, explicit)
        accepted = np.maximum(own, self._taken)
        late = rowtime < accepted
        kept = tray
        if late.any() and (again := late & self._enters_late(tray, own)).any():
            rowtime = np.where(again, accepted, rowtime)
            kept = tray = tray.with_rowtime(rowtime)
            late &= ~again
        if late.any():
            self._tell(tray, late, accepted, faults)
            kept = tray.where(~late)
        self._highest = max(self._highest, int(seen[-1]) if len(kept) else EARLIEST)
        return kept

    def _enters_late(self, tray: Tray, own: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the late rows that are accepted; ``own`` is the least rowtime of the partition itself."""
        if self._has_ended():
            return np.ones(len(tray), dtype=np.bool_)
        resubmitted = (tray.origin & ((1 << PARTITION_BITS) - 1)) >= RESUBMITTED
        accepted = np.ones_like(resubmitted) if self._node.is_in_log_order else resubmitted
        if not self._revives:
            return accepted
        revived = (tray.rowtime >= own) & (tray.rowtime < self._taken) & ~resubmitted
        self.revived += int(np.count_nonzero(revived))
        return accepted | revived

    def _signed(self, kept: Tray) -> Tray:
        """Return accepted rows with the tie-break that they have from here on."""
        if not len(kept):
            return kept
        if self._signs != UNMARKED:
            first = self._last[1] + 1
            counter = np.arange(first, first + len(kept), dtype=np.int64)
            kept = Tray(
                kept.row_type,
                kept.columns,
                kept.rowtime,
                np.full(len(kept), self._signs, dtype=np.int32),
                counter,
                kept.opcode,
            )
            self._last = (self._signs, self._last[1] + len(kept))
        else:
            self._last = (int(kept.origin[-1]), int(kept.counter[-1]))
        return kept

    def _tell(
        self, tray: Tray, late: NDArray[np.bool_], accepted: NDArray[np.int64], faults: list[Fault]
    ) -> None:
        where = np.flatnonzero(late)
        self.account.late += len(where)
        rows: list[TimedRow] = list(tray.take(where).rows())
        for row, least in zip(rows, accepted[where].tolist(), strict=True):
            faults.append(late_row(self._node.relation, row, least, tray.row_type.names))
