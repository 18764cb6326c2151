"""ORDER BY a period and further keys: rows come when the period closes, sorted, with its end as ROWTIME."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from rowtide.operators.contract import Account, OperatorSite, State, StepOutput, Want
from rowtide.operators.splitting import Whole
from rowtide.plan.nodes import SortInPeriod
from rowtide.rows.column import Column
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.rowtime.period import PeriodEdge, closed_by, end_after, period_end, period_value
from rowtide.rowtime.reach import least_reaching


class SortInPeriodOperator(Whole):
    """Holds the rows of open periods. Rows equal in all keys keep their order; NULL is the greatest value."""

    def __init__(self, node: SortInPeriod, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._origin = site.origin
        self._bound = EARLIEST
        self._given = 0
        self._trays: list[Tray] = []

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0, rows in rowtime order."""
        if tray is not None and len(tray):
            self.account.rows_in += len(tray)
            self._trays.append(tray)
        self._bound = max(self._bound, bound.rowtime)
        return StepOutput(self._close(), Bound(self._promised()))

    def held(self) -> int:
        """Count the rows of open periods."""
        return sum(map(len, self._trays))

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        period = self._node.period
        if bound is not None:
            return [Want(0, least_reaching(lambda rowtime: end_after(period, rowtime), bound))]
        if not self._trays:
            return []
        first = period_value(period, self._trays[0].rowtime[:1])
        return [Want(0, closed_by(period, int(first[0])))]

    def snapshot(self) -> State:
        """``rows`` are those that wait."""
        rows = Tray.concat(self._trays or [Tray.empty(self._node.row_type)])
        return {
            "account": self.account.to_arrow(),
            "clock": pa.table({"bound": [self._bound], "given": [self._given]}),
            "rows": rows.to_arrow(),
        }

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        clock = state["clock"].to_pylist()[0]
        self._bound, self._given = clock["bound"], clock["given"]
        rows = Tray.from_arrow(self._node.row_type, state["rows"])
        self._trays = [rows] if len(rows) else []

    def _close(self) -> Tray | None:
        """Return the rows of the periods that the bound has closed, sorted."""
        period = self._node.period
        # A period that includes its end is over when the bound has passed it.
        closed_until = self._bound if period.edge is PeriodEdge.FLOOR else self._bound - 1
        if not self._trays or end_after(period, int(self._trays[0].rowtime[0])) > closed_until:
            return None
        rows = Tray.concat(self._trays)
        ends = period_end(period, period_value(period, rows.rowtime))
        count = int(np.searchsorted(ends, closed_until, side="right"))
        self._trays = [rows.slice(count, len(rows))] if count < len(rows) else []
        order = self._wanted(self._order(rows.slice(0, count), ends[:count]), ends)
        closed = rows.take(order)
        out = Tray.from_columns(
            self._node.row_type,
            closed.columns,
            ends[order],
            self._origin,
            np.arange(self._given, self._given + len(order), dtype=np.int64),
        )
        self._given += len(order)
        self.account.rows_out += len(order)
        self.account.done += count
        return out

    def _order(self, rows: Tray, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of rows by period and keys; rows that are equal keep their order, or reverse it."""
        by: list[NDArray[Any]] = [-np.arange(len(rows))] if self._node.newest_first else []
        for index, descending in reversed(self._node.keys):
            by += _comparable(rows.columns[index], descending=descending)
        return np.lexsort((*by, ends))

    def _wanted(self, order: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out rows by LIMIT and OFFSET, for each period."""
        offset, limit = self._node.offset, self._node.limit
        if limit is None and not offset:
            return order
        sorted_ends = ends[order]
        place = np.arange(len(order)) - np.searchsorted(sorted_ends, sorted_ends)
        last = len(order) if limit is None else offset + limit
        return order[(place >= offset) & (place < last)]

    def _promised(self) -> int:
        if self._bound in (EARLIEST, LATEST):
            return self._bound
        return end_after(self._node.period, self._bound)


def _comparable(column: Column, *, descending: bool) -> list[NDArray[Any]]:
    """Return numbers in the order of the values, and the mask of NULLs, which are greatest."""
    if column.type.is_float:
        numbers = column.values.astype(np.float64)
    elif column.type.is_variable_width:
        numbers = _ranks(column.values)
    elif column.type.dtype == object:
        values = column.values if column.valid is None else np.where(column.valid, column.values, 0)
        numbers = np.unique(values, return_inverse=True)[1]
    else:
        numbers = column.values.astype(np.int64)
    if descending:
        # Inverting all bits cannot overflow, unlike negation.
        numbers = -numbers if column.type.is_float else ~numbers
    if column.valid is None:
        return [numbers]
    return [np.where(column.valid, numbers, 0), column.valid if descending else ~column.valid]


def _ranks(texts: pa.Array) -> NDArray[np.int64]:
    """Return the rank of each text among the distinct ones, by its characters; that of NULL means nothing."""
    coded = texts.dictionary_encode()
    order = pa.compute.sort_indices(coded.dictionary).to_numpy()
    ranks = np.empty(len(order) + 1, dtype=np.int64)
    ranks[order] = np.arange(len(order), dtype=np.int64)
    codes: NDArray[np.int64] = coded.indices.fill_null(len(order)).to_numpy().astype(np.int64)
    return ranks[codes]
