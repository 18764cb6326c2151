"""Promote: set the rowtime of each row to the value of an expression.

See docs/sql/semantics.md#late-rows, #promotion, #error-rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from rowtide.errors import Reason, RejectedRowError
from rowtide.expr.columnar import compile_columns
from rowtide.expr.rowwise import compile_row
from rowtide.operators.contract import Fault, OperatorSite, StepOutput, Want
from rowtide.operators.faults import rejected, rejected_rows
from rowtide.operators.row_wise.rowwise import RowWise
from rowtide.plan.falls import falls_of
from rowtide.plan.nodes import BoundPolicy, Promote
from rowtide.rows.rowop import TimedRow
from rowtide.rows.tray import Tray
from rowtide.rows.types import MAX_TIMESTAMP_MS, MIN_TIMESTAMP_MS
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, Bound
from rowtide.rowtime.reach import least_reaching


class PromoteOperator(RowWise):
    """Re-stamps rows; those without a rowtime, or with one too far ahead, are rejected."""

    def __init__(self, node: Promote, _site: OperatorSite) -> None:
        super().__init__(node.relation)
        self._node = node
        self._rowtime = compile_columns(node.rowtime)
        self._of_bound = compile_row(node.rowtime)
        self._falls = falls_of(node.rowtime)

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0."""
        passed = self._bound(bound)
        if tray is None:
            return StepOutput(None, passed)
        found = self._rowtime(tray)
        failed = np.zeros(len(tray), dtype=np.bool_)
        faults: list[tuple[int, Fault]] = []
        if found.errors is not None:
            failed = found.errors.mask(len(tray))
            refused = rejected_rows(self._relation, tray, found.errors)
            faults += zip(found.errors.rows.tolist(), refused, strict=True)
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
            faults.sort(key=itemgetter(0))
            out = out.where(~failed)
        self._count(len(tray), len(out), len(faults))
        return StepOutput(out if len(out) else None, passed, [fault for _, fault in faults])

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        if bound is None or self._node.bounds is BoundPolicy.DROP:
            return []
        if self._node.bounds is BoundPolicy.PASS:
            return [Want(0, bound)]
        return [Want(0, least_reaching(lambda rowtime: self._bound(Bound(rowtime)).rowtime, bound))]

    def _bound(self, bound: Bound) -> Bound:
        if bound.rowtime == LATEST:
            # No more rows, whatever their rowtime would be.
            return Bound(LATEST)
        match self._node.bounds:
            case BoundPolicy.PASS:
                return bound
            case BoundPolicy.MAP if bound.rowtime != EARLIEST:
                return self._mapped(bound)
            case BoundPolicy.LEAST if bound.rowtime != EARLIEST:
                return self._least(bound)
            case _:
                return NO_BOUND

    def _mapped(self, bound: Bound) -> Bound:
        """Return the bound after the monotonic expression.

        A mark stays valid only if later rowtimes remain later: rows that are rounded down to one
        rowtime are not in the order of their origins.
        """
        mapped = self._promoted(bound.rowtime)
        if mapped is None:
            return NO_BOUND if self._takes_any_from(bound.rowtime) else Bound(LATEST)
        if self._promoted(bound.rowtime + 1) == mapped:
            return Bound(mapped)
        return bound.shifted(mapped)

    def _least(self, bound: Bound) -> Bound:
        """Return the least rowtime that a row at the bound or later may get: no mark, as rows come in another order."""
        assert self._falls is not None
        mapped = Bound(self._mapped(bound).rowtime)
        if mapped.rowtime == EARLIEST or bound.rowtime > MAX_TIMESTAMP_MS:
            return mapped
        later = (self._promoted(each) for each in self._falls.moments(bound.rowtime))
        return Bound(min([mapped.rowtime, *(each for each in later if each is not None)]))

    def _takes_any_from(self, rowtime: int) -> bool:
        """Return whether rows of some later rowtime are in range; monotonic, so the ends decide."""
        if rowtime > MAX_TIMESTAMP_MS:
            return False
        ends = (max(rowtime, MIN_TIMESTAMP_MS), MAX_TIMESTAMP_MS)
        return any(self._promoted(end) is not None for end in ends)

    def _promoted(self, rowtime: int) -> int | None:
        """Return the new rowtime of rows of ``rowtime``; None if they are rejected."""
        try:
            found = self._of_bound((), rowtime)
        except RejectedRowError:
            return None
        return found if isinstance(found, int) else None

    def _reject(
        self, tray: Tray, mask: NDArray[np.bool_], reason: Reason, message: str
    ) -> Sequence[tuple[int, Fault]]:
        where = np.flatnonzero(mask)
        rows: Iterable[TimedRow] = tray.take(where).rows() if len(where) else ()
        return [
            (
                at,
                rejected(self._relation, reason, message, row, tray.row_type.names),
            )
            for at, row in zip(where.tolist(), rows, strict=True)
        ]
