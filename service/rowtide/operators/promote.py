"""Promote: give each row the rowtime that an expression computes from it (sql-decisions 9, 11, 22)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.columnar import compile_columns
from rowtide.expr.rowwise import compile_row
from rowtide.operators.contract import Fault, Output, Place
from rowtide.operators.rowwise import RowWise
from rowtide.plan.nodes import BoundPolicy, Promote
from rowtide.rows.tray import Tray
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rowtide.rowtime.bound import EARLIEST, NO_BOUND, Bound


class PromoteOperator(RowWise):
    """Re-stamps rows; those without a rowtime, or with one too far ahead, are rejected."""

    def __init__(self, node: Promote, _place: Place) -> None:
        super().__init__(node.relation)
        self._node = node
        self._rowtime = compile_columns(node.rowtime)
        self._of_bound = compile_row(node.rowtime)

    def step(self, port: int, tray: Tray | None, bound: Bound) -> Output:
        """See the contract; port 0."""
        passed = self._bound(bound)
        if tray is None:
            return Output(None, passed)
        found = self._rowtime(tray)
        faults = self._faults(tray, found.errors)
        failed = np.zeros(len(tray), dtype=np.bool_)
        if found.errors is not None:
            failed = found.errors.mask(len(tray))
        values = np.asarray(found.column.values, dtype=np.int64)
        if found.column.valid is not None:
            missing = ~found.column.valid & ~failed
            faults += self._reject(tray, missing, Reason.MISSING_FIELD, "the promoted rowtime is NULL")
            failed = failed | missing
        if self._node.max_ahead_ms is not None:
            ahead = (values > tray.rowtime + self._node.max_ahead_ms) & ~failed
            limit = f"more than {self._node.max_ahead_ms} ms after the message timestamp"
            faults += self._reject(tray, ahead, Reason.FUTURE, f"the promoted rowtime is {limit}")
            failed = failed | ahead
        out = tray.with_rowtime(values)
        if faults:
            faults.sort(key=lambda fault: fault.counter)
            out = out.where(~failed)
        self._count(len(tray), len(out), len(faults))
        return Output(out if len(out) else None, passed, faults)

    def _bound(self, bound: Bound) -> Bound:
        match self._node.bounds:
            case BoundPolicy.PASS:
                return bound
            case BoundPolicy.MAP if bound.rowtime >= MIN_TIMESTAMP_MS:
                return bound.shifted(self._mapped(min(bound.rowtime, MAX_TIMESTAMP_MS)))
            case _:
                return NO_BOUND

    def _mapped(self, rowtime: int) -> int:
        """Give the new rowtime of a bound, by the expression of the rows.

        Where that leaves the range of TIMESTAMP, the rows behind the bound do too and are rejected:
        no row follows that is earlier than the range's end.
        """
        try:
            mapped = self._of_bound((), rowtime)
        except RejectedRowError:
            return MAX_TIMESTAMP_MS if rowtime > 0 else EARLIEST
        return mapped if isinstance(mapped, int) else EARLIEST

    def _reject(self, tray: Tray, mask: NDArray[np.bool_], reason: Reason, message: str) -> Sequence[Fault]:
        if not mask.any():
            return ()
        return [
            Fault(self._relation, reason, message, row.rowtime, row.origin, row.counter, row.row)
            for row in tray.where(mask).rows()
        ]
