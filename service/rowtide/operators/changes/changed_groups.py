"""Groups of a table's rows that emit every change at once, by kernels (aggregates over changes).

The output equals that of ``operators.changes.group_changes`` bit by bit, and each restores snapshots of the
other. When a change arrives that the kernels cannot process (a sum that may not fit its type, doubles too
far apart), the plain Python path takes over permanently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.expr.tree import AggregateCall
from rowtide.operators.aggregates.arithmetic.codes import column_of, values_of
from rowtide.operators.aggregates.changes.least_values import LeastValue
from rowtide.operators.aggregates.groups.key_groups import KeyGroups
from rowtide.operators.aggregates.row_functions import to_json
from rowtide.operators.aggregates.windows.calls import Following, Moved, Values
from rowtide.operators.aggregates.windows.spreads import VarianceKernel
from rowtide.operators.aggregates.windows.sums import CountKernel, DoubleSum, SumKernel
from rowtide.operators.changes.group_changes import (
    END,
    LAST,
    PENDING,
    ROWS,
    SHOWN,
    START,
    GroupChangesOperator,
)
from rowtide.operators.changes.running_groups import unsigned
from rowtide.operators.contract import Account, OperatorSite, State, StepOutput
from rowtide.operators.group.open_groups import aggregate_inputs, row_places
from rowtide.operators.merge.ranks import RANK, Ranks
from rowtide.operators.shown_changes import ShownChanges
from rowtide.operators.splitting import BEFORE
from rowtide.operators.storage.gathering import take_column, take_values
from rowtide.operators.storage.growing import grown
from rowtide.plan.frames import WindowCall
from rowtide.plan.nodes import GroupChanges, Node
from rowtide.rows.arrays import Int64s, Mask
from rowtide.rows.column import Column
from rowtide.rows.tray import COUNTER, ORIGIN, ROWTIME, Tray
from rowtide.rows.types import Type
from rowtide.rowtime.bound import EARLIEST, LATEST, Bound

ChangedResult = tuple[Values, Mask | None]

CLEAN_OVER = 1 << 14
"""Groups without rows are dropped once they are more than this, and more than the others."""
COLUMNS = (ROWS, None, LAST, ROWTIME, ORIGIN, COUNTER)
"""Names in a snapshot of the state of ``kernels.changed_groups``. Groups are in order of BEGUN."""


@dataclass(frozen=True, slots=True)
class _Followed:
    """The effect of a tray on groups: entries, and output rows of them; see ``kernels.changed_groups``."""

    sources: Int64s
    groups: Int64s
    steps: Int64s
    used: Mask
    causes: Int64s
    opcodes: NDArray[np.int8]
    entries: Int64s
    paired: Mask


class ChangedGroupsOperator:
    """Aggregates of rows that are added and removed, by key."""

    def __init__(self, node: GroupChanges, site: OperatorSite) -> None:
        from rowtide.operators.aggregates.kernels.changed_groups import NUMBERS, WIDTH

        self.account = Account()
        self._node = node
        self._shown_changes = ShownChanges(node)
        self._place = site
        self._kinds = [node.input.row_type[index].type for index in node.keys]
        self._keys = KeyGroups(self._kinds)
        self._calls = [_call_of(call) for call in node.aggregates]
        self._groups = np.zeros((0, WIDTH), dtype=np.int64)
        self._latest = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros(NUMBERS + 2, dtype=np.int64)
        self._reached = EARLIEST
        self._by_row: GroupChangesOperator | None = None

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """Port 0, changes in rowtime order."""
        if self._by_row is not None:
            return self._by_row.step(port, tray, bound)
        out = None
        if tray is not None and len(tray):
            inputs = [_input_of(call, tray) for call in self._node.aggregates]
            fit = [call.fits(*given, len(tray)) for call, given in zip(self._calls, inputs, strict=True)]
            if not all(fit):
                return self._go_on_by_row(self.snapshot()).step(port, tray, bound)
            out = self._take(tray, inputs)
            self.account.rows_in += len(tray)
            self.account.done += len(tray)
            self.account.rows_out += 0 if out is None else len(out)
            self._reached = max(self._reached, int(tray.rowtime[-1]))
            self._forget()
        self._reached = max(self._reached, bound.rowtime)
        return StepOutput(out, bound)

    def held(self) -> int:
        """Return 0: changes are emitted at once."""
        return 0

    # --------------------------------------------------------------- changes

    def _take(self, tray: Tray, inputs: Sequence[tuple[Values, Mask]]) -> Tray | None:
        """Add and remove rows of groups, and return the changes."""
        keys = [tray.columns[index] for index in self._node.keys]
        groups = self._keys.number(keys, len(tray))
        self._reserve()
        followed = self._follow(tray, groups)
        results = self._results(followed, inputs)
        entries = followed.entries
        keep = np.ones(len(entries), dtype=np.bool_)
        pairs = np.flatnonzero(followed.paired)
        if len(pairs):
            same = ~_differs(results, entries[pairs], entries[pairs + 1])
            keep[pairs[same]] = False
            keep[pairs[same] + 1] = False
        if not keep.all():
            entries = entries[keep]
        if not len(entries):
            return None
        causes = followed.causes[keep]
        calls = zip(self._node.aggregates, results, strict=True)
        columns = [column_of(call.type, *_taken(result, entries)) for call, result in calls]
        out = Tray(
            self._node.row_type,
            (*(unsigned(take_column(column, causes, 2)) for column in keys), *columns),
            take_values(tray.rowtime, causes),
            take_values(tray.origin, causes),
            take_values(tray.counter, causes),
            followed.opcodes[keep],
        )
        return self._shown_changes.of(out, followed.paired[keep])

    def _follow(self, tray: Tray, groups: Int64s) -> _Followed:
        """Count added and removed rows; see the kernel."""
        from rowtide.operators.aggregates.kernels.changed_groups import ENTRIES, GIVEN, follow_changes

        room = 2 * len(tray)
        sources, entry_groups, steps, causes, entries = (np.empty(room, dtype=np.int64) for _ in range(5))
        used, paired = np.empty(room, dtype=np.bool_), np.empty(room, dtype=np.bool_)
        opcodes = np.empty(room, dtype=np.int8)
        follow_changes(
            np.require(tray.opcode, np.int8, ["C", "W"]),
            groups,
            *row_places(tray),
            bool(self._node.keys),
            self._groups,
            self._latest,
            self._counts,
            sources,
            entry_groups,
            steps,
            used,
            causes,
            opcodes,
            entries,
            paired,
        )
        count, given = int(self._counts[ENTRIES]), int(self._counts[GIVEN])
        return _Followed(
            sources[:count],
            entry_groups[:count],
            steps[:count],
            used[:count],
            causes[:given],
            opcodes[:given],
            entries[:given],
            paired[:given],
        )

    def _results(self, followed: _Followed, inputs: Sequence[tuple[Values, Mask]]) -> list[ChangedResult]:
        """Return each aggregate's result after every entry."""
        moved = Moved.one_each(followed.groups, followed.steps)
        results: list[ChangedResult] = []
        for call, (values, use) in zip(self._calls, inputs, strict=True):
            call.begin(values[followed.sources], followed.used & use[followed.sources])
            call.follow(moved)
            results.append(call.result())
        return results

    def _reserve(self) -> None:
        """Make room for every group."""
        from rowtide.operators.aggregates.kernels.changed_groups import BEGUN

        count, before = self._keys.count, len(self._groups)
        if count > before:
            self._groups = grown(self._groups, count)
            self._groups[before:, BEGUN] = -1
            self._latest = grown(self._latest, count)
            self._latest[before:] = -1
        for call in self._calls:
            call.reserve(count)

    def _forget(self) -> None:
        """Drop groups without rows if they are more than the others."""
        from rowtide.operators.aggregates.kernels.changed_groups import LIVING

        living = int(self._counts[LIVING])
        if self._keys.count - living > max(CLEAN_OVER, living):
            kept = self._living()
            self._keys.keep(kept)
            self._groups, self._latest = self._groups[kept], self._latest[kept]
            for call in self._calls:
                call.keep(kept)

    def _living(self) -> Int64s:
        """Return the existing groups."""
        from rowtide.operators.aggregates.kernels.changed_groups import BEGUN

        return np.flatnonzero(self._groups[: self._keys.count, BEGUN] >= 0)

    def _go_on_by_row(self, state: State) -> GroupChangesOperator:
        """Switch to the plain Python path permanently."""
        self._by_row = GroupChangesOperator(self._node, self._place)
        self._by_row.restore(state)
        self.account = self._by_row.account
        return self._by_row

    # ------------------------------------------------------------- snapshots

    def snapshot(self) -> State:
        # The same format as that of the plain path.
        from rowtide.operators.aggregates.kernels.changed_groups import BEGUN

        if self._by_row is not None:
            return self._by_row.snapshot()
        living = self._living()
        order = living[np.argsort(self._groups[living, BEGUN])]
        columns = {name: self._groups[order, at] for at, name in enumerate(COLUMNS) if name is not None}
        ranks = Ranks(origin for origins in self._place.port_origins for origin in origins)
        columns |= {
            START: np.zeros(len(order), dtype=np.int64),
            END: np.full(len(order), LATEST, dtype=np.int64),
            PENDING: np.full(len(order), -1, dtype=np.int64),
            RANK: ranks.of(columns[ORIGIN]),
        }
        kept = {name: pa.array(values) for name, values in columns.items()}
        kept[SHOWN] = pa.array(self._shown(order), pa.string())
        for at, column in enumerate(self._keys.columns(order)):
            kept[f"key {at}"] = column.to_arrow()
        for at, call in enumerate(self._calls):
            kept[f"aggregate {at}"] = pa.array([json.dumps(each) for each in call.save(order)], pa.string())
        return {
            "account": self.account.to_arrow(),
            "clock": pa.table({"reached": [self._reached], "given": [0], BEFORE: [0], "due": [LATEST]}),
            "groups": pa.table(kept),
            "refused": Tray.empty(self._node.input.row_type).to_arrow(),
        }

    def _shown(self, order: Int64s) -> list[str]:
        """Return the last emitted rows of groups, in the format of the plain path."""
        from rowtide.operators.aggregates.kernels.frames import WRITE

        zeros = np.zeros(len(order), dtype=np.int64)
        none, steps = np.zeros(len(order), dtype=np.bool_), np.full(len(order), WRITE, dtype=np.int64)
        nothing = _Followed(zeros, order, steps, none, zeros, zeros.astype(np.int8), zeros, none)
        inputs = [(np.zeros(1, dtype=_values_type(call)), none[:1]) for call in self._node.aggregates]
        if not len(order):
            return []
        results = self._results(nothing, inputs)
        columns = [
            [to_json(value) for value in column_of(call.type, *result).to_list()]
            for call, result in zip(self._node.aggregates, results, strict=True)
        ]
        rows = zip(*columns, strict=True) if columns else ((),) * len(order)
        return [json.dumps(row) for row in rows]

    def restore(self, state: State) -> None:
        if len(state["refused"]) or not self._load(state):
            self._go_on_by_row(state)

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        return GroupChangesOperator.merge(states)

    @staticmethod
    def split(node: Node, state: State, parts: int) -> list[State]:
        return GroupChangesOperator.split(node, state, parts)

    def _load(self, state: State) -> bool:
        """Restore a snapshot; False: the kernels cannot."""
        from rowtide.operators.aggregates.kernels.changed_groups import LIVING, NUMBERS

        self.account = Account.from_arrow(state["account"])
        self._reached = state["clock"].to_pylist()[0]["reached"]
        groups = state["groups"]
        columns = [Column.from_arrow(kind, groups.column(f"key {at}")) for at, kind in enumerate(self._kinds)]
        self._keys.number(columns, len(groups))
        self._reserve()
        mine = self._groups[: len(groups)]
        for at, name in enumerate(COLUMNS):
            mine[:, at] = np.arange(len(groups)) if name is None else groups.column(name).to_numpy()
        self._counts[NUMBERS] = self._counts[LIVING] = len(groups)
        return all(
            call.load([json.loads(text) for text in groups.column(f"aggregate {at}").to_pylist()])
            for at, call in enumerate(self._calls)
        )


def _count(call: AggregateCall, of: Type) -> Following:
    del call, of
    return CountKernel()


def _sum(call: AggregateCall, of: Type) -> Following:
    if of.is_float:
        return DoubleSum(average=call.function == "AVG")
    return SumKernel(WindowCall(call.function, call.argument, call.type), of.scale, endless=True)


def _spread(call: AggregateCall, of: Type) -> Following:
    return VarianceKernel(of, call.function)


def _extreme(call: AggregateCall, of: Type) -> Following:
    return LeastValue(of, greatest=call.function == "MAX")


MAKERS: Mapping[str, Callable[[AggregateCall, Type], Following]] = {
    "COUNT": _count,
    **dict.fromkeys(("SUM", "AVG"), _sum),
    **dict.fromkeys(("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"), _spread),
    **dict.fromkeys(("MIN", "MAX"), _extreme),
}
"""Makers of the compiled aggregates (``plan.calls``)."""


def _call_of(call: AggregateCall) -> Following:
    """Make the function of an aggregate.

    Raises:
      KeyError: it is not compiled.
    """
    return MAKERS[call.function](call, call.type if call.argument is None else call.argument.type)


def _input_of(call: AggregateCall, tray: Tray) -> tuple[Values, Mask]:
    """Return an aggregate's value for each row, and the rows that it uses."""
    ((column, use),) = aggregate_inputs([call], tray)
    if column is None:
        return np.zeros(len(tray), dtype=np.int64), use
    return values_of(column)[0], use


def _values_type(call: AggregateCall) -> Any:
    return np.float64 if call.argument is not None and call.argument.type.is_float else np.int64


def _taken(result: ChangedResult, entries: Int64s) -> ChangedResult:
    values, known = result
    return values[entries], None if known is None else known[entries]


def _differs(results: Sequence[ChangedResult], before: Int64s, after: Int64s) -> Mask:
    """Return which entries differ from others in what they show."""
    found = np.zeros(len(before), dtype=np.bool_)
    for values, known in results:
        differs = values[before] != values[after]
        if known is not None:
            was, is_now = known[before], known[after]
            differs = (was != is_now) | (differs & was)
        found |= differs
    return found
