"""Groups of a stream that emit every change at once, compiled, for EMIT CHANGES.

See docs/sql/semantics.md#changelogs-of-groups.

Each aggregate runs over a tray by itself and writes its results before and after every row. Rows
that no aggregate has changed are left out. With a period in the key, groups are numbered in the
order of their periods, so ended ones are always the first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from rowtide.operators.aggregates.changes.running_aggregates import make_running
from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.operators.changes.group_changes import START, GroupChangesOperator
from rowtide.operators.contract import Account, Fault, OperatorSite, State, StepOutput, joined_states
from rowtide.operators.faults import overflows
from rowtide.operators.group.open_groups import aggregate_inputs
from rowtide.operators.shown_changes import ShownChanges
from rowtide.operators.splitting import parts_of_groups, split_state
from rowtide.operators.storage.gathering import take_column, take_values
from rowtide.plan.nodes import GroupChanges, Node
from rowtide.rows.arrays import Mask
from rowtide.rows.column import Column
from rowtide.rows.rowop import Opcode
from rowtide.rows.tray import Tray
from rowtide.rows.types import TIMESTAMP
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound
from rowtide.rowtime.period import Period, PeriodEdge, period_value

NUMBER = "$number"
"""A separate column, because there is a group even without keys."""
_Parts = list[tuple[int, int, list[Column], Mask]]
"""Parts of a tray that fit: first and last row, the results, and the rows that changed a result."""


class RunningGroupsOperator:
    """Running aggregates by key, with or without a period."""

    def __init__(self, node: GroupChanges, _site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        self._period = node.window if isinstance(node.window, Period) else None
        fields = node.input.row_type
        self._kinds = [fields[index].type for index in node.keys]
        self._keys = KeyGroups(self._kinds, windows=self._period is not None)
        self._aggregates = [make_running(call) for call in node.aggregates]
        self._reached = EARLIEST
        self._shown = ShownChanges(node)

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0, rows in rowtime order."""
        faults: list[Fault] = []
        out = self._take(tray, faults) if tray is not None and len(tray) else None
        if out is not None:
            # Rows are only added: a DELETE is always followed by the INSERT that replaces it.
            out = self._shown.of(out, out.opcode == Opcode.DELETE)
        if bound.rowtime > self._reached:
            self._reached = bound.rowtime
            self._forget()
        if out is not None:
            self.account.rows_out += len(out)
        return StepOutput(out, bound, faults)

    def held(self) -> int:
        """Return 0: changes are emitted at once."""
        return 0

    def snapshot(self) -> State:
        # ``groups`` has one row for each group.
        count = self._keys.count
        groups = {NUMBER: pa.array(np.arange(count, dtype=np.int64))}
        if self._period is not None:
            groups[START] = pa.array(self._keys.windows().copy())
        for at, column in enumerate(self._keys.columns()):
            groups[f"key {at}"] = column.to_arrow()
        state = {
            "account": self.account.to_arrow(),
            "clock": pa.table({"reached": [self._reached]}),
            "groups": pa.table(groups),
        }
        for at, aggregate in enumerate(self._aggregates):
            state[f"aggregate {at}"] = aggregate.state(count)
        return state

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        self._reached = state["clock"].to_pylist()[0]["reached"]
        groups = state["groups"]
        columns = [Column.from_arrow(kind, groups.column(f"key {at}")) for at, kind in enumerate(self._kinds)]
        windows = None if self._period is None else groups.column(START).to_numpy()
        self._keys = KeyGroups(self._kinds, windows=self._period is not None)
        self._keys.number(columns, len(groups), windows)
        for at, aggregate in enumerate(self._aggregates):
            aggregate.load(state[f"aggregate {at}"])

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        """Merge the groups of all parts, those of earlier periods first.

        An aggregate without a kernel for this plan runs row by row and has another state.
        """
        if "refused" in states[0]:
            return GroupChangesOperator.merge(states)
        merged = joined_states(states)
        merged["clock"] = pa.table({"reached": [max(merged["clock"].column("reached").to_pylist())]})
        if START in merged["groups"].column_names:
            order = pa.compute.sort_indices(merged["groups"], sort_keys=[(START, "ascending")])
            merged |= {
                name: table.take(order)
                for name, table in merged.items()
                if name == "groups" or name.startswith("aggregate ")
            }
        return merged

    @staticmethod
    def split(node: Node, state: State, parts: int) -> list[State]:
        if "refused" in state:
            return GroupChangesOperator.split(node, state, parts)
        part = parts_of_groups(node, state["groups"], parts)
        by_part = {name: part for name in state if name == "groups" or name.startswith("aggregate ")}
        return [*split_state(state, by_part, parts)]

    # --------------------------------------------------------------- inside

    def _take(self, tray: Tray, faults: list[Fault]) -> Tray | None:
        """Add the rows of a tray to their groups and return the changes."""
        count = len(tray)
        self.account.rows_in += count
        columns = [tray.columns[index] for index in self._node.keys]
        windows = None if self._period is None else period_value(self._period, tray.rowtime)
        groups, firsts = self._keys.numbered(columns, count, windows)
        if windows is not None:
            columns.insert(0, Column(TIMESTAMP, windows))
        begins = np.zeros(count, dtype=np.bool_)
        begins[firsts] = True
        for aggregate in self._aggregates:
            aggregate.reserve(self._keys.count)
        inputs = aggregate_inputs(self._node.aggregates, tray)
        parts: _Parts = []
        self._run(groups, begins, inputs, (0, count), parts)
        fitting = sum(stop - start for start, stop, *_ in parts)
        if fitting < count:
            done = np.zeros(count, dtype=np.bool_)
            for start, stop, *_ in parts:
                done[start:stop] = True
            faults += overflows(self._node.relation, tray, np.flatnonzero(~done))
        self.account.rejected += count - fitting
        self.account.done += fitting
        out = [self._laid_out(tray, columns, begins, part) for part in parts]
        kept = [each for each in out if len(each)]
        return Tray.concat(kept) if kept else None

    def _run(
        self,
        groups: NDArray[np.int64],
        begins: Mask,
        inputs: Sequence[tuple[Column | None, Mask]],
        stretch: tuple[int, int],
        parts: _Parts,
    ) -> None:
        """Run all aggregates over part of a tray. If it does not fit, halve it; leave out a single row.

        The first row of a group always fits.
        """
        start, stop = stretch
        mine, begun = groups[start:stop], begins[start:stop]
        given = [
            (None if column is None else column.slice(start, stop), use[start:stop]) for column, use in inputs
        ]
        if all(
            aggregate.fits(mine, column, use)
            for aggregate, (column, use) in zip(self._aggregates, given, strict=True)
        ):
            rows_out = 2 * (stop - start) - int(np.count_nonzero(begun))
            changed = np.zeros(stop - start, dtype=np.bool_)
            results = [
                aggregate.run(mine, begun, column, use, changed, rows_out)
                for aggregate, (column, use) in zip(self._aggregates, given, strict=True)
            ]
            parts.append((start, stop, results, changed))
        elif stop - start > 1:
            middle = (start + stop) // 2
            self._run(groups, begins, inputs, (start, middle), parts)
            self._run(groups, begins, inputs, (middle, stop), parts)

    def _laid_out(
        self,
        tray: Tray,
        keys: Sequence[Column],
        begins: Mask,
        part: tuple[int, int, list[Column], Mask],
    ) -> Tray:
        """Return the rows of a part: DELETE before and INSERT after each row that has changed its group."""
        from rowtide.operators.aggregates.kernels.running import keep_changed, lay_out

        start, stop, results, changed = part
        begun = begins[start:stop]
        rows_out = 2 * (stop - start) - int(np.count_nonzero(begun))
        source, opcode = np.empty(rows_out, dtype=np.int64), np.empty(rows_out, dtype=np.int8)
        lay_out(begun, start, source, opcode)
        if not (changed | begun).all():
            keep = np.empty(rows_out, dtype=np.bool_)
            keep_changed(begun, changed, keep)
            at = np.flatnonzero(keep)
            source, opcode, results = source[at], opcode[at], [column.take(at) for column in results]
        return Tray(
            self._node.row_type,
            (*(unsigned(take_column(column, source, 2)) for column in keys), *results),
            take_values(tray.rowtime, source),
            take_values(tray.origin, source),
            take_values(tray.counter, source),
            opcode,
        )

    def _forget(self) -> None:
        """Drop the groups whose period the bound has passed."""
        if self._period is None or not self._keys.count:
            return
        before = self._reached
        if self._period.edge is PeriodEdge.FLOOR and before != LATEST:
            before = int(period_value(self._period, np.array([before], dtype=np.int64))[0])
        count = bisect_left(self._keys.windows(), before)
        if count:
            self._keys.keep(slice(count, None))
            for aggregate in self._aggregates:
                aggregate.drop(count, self._keys.count)


def unsigned(column: Column) -> Column:
    """Return the compared form of a key: zero has no sign, and values under NULLs are zero."""
    return Column(column.type, column.values + 0.0, column.valid) if column.type.is_float else column
