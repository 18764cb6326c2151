"""The ordered union: several inputs in one order by consistent time (sql-decisions 14).

A row's place is (rowtime, rank of its origin, counter, port). What a port may
still bring is never before its threshold, which its bound gives; a row leaves
when its place is before the thresholds of all other ports. So what leaves, and
in which order, depends on rows and bounds only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.operators.contract import Account, Output, Place, State
from rowtide.plan.nodes import Merge
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import LATEST, NO_BOUND, UNMARKED, Bound

Threshold = tuple[int, int, int, int]
BEFORE_ALL = -1
"""A counter before every real one."""


class MergeOperator:
    """Merges the ports that ``place.port_origins`` names: partitions of a stream, or streams."""

    def __init__(self, node: Merge, place: Place) -> None:
        self.account = Account()
        self._node = node
        ports = place.port_origins
        ranks: dict[int, int] = {}
        for origins in ports:
            for origin in origins:
                ranks.setdefault(origin, len(ranks))
        self._ranks = ranks
        self._sorted_origins = np.array(sorted(ranks), dtype=np.int32)
        self._sorted_ranks = np.array([ranks[origin] for origin in sorted(ranks)], dtype=np.int64)
        self._first_rank = [min((ranks[origin] for origin in origins), default=0) for origins in ports]
        self._bounds: list[Bound] = [NO_BOUND] * len(ports)
        self._queues: list[list[Tray]] = [[] for _ in ports]

    def step(self, port: int, tray: Tray | None, bound: Bound) -> Output:
        """See the contract; one port for each input, or for each partition of the one input."""
        self.offer(port, tray, bound)
        return self.release()

    def offer(self, port: int, tray: Tray | None, bound: Bound) -> None:
        """Take rows and a bound without releasing anything yet."""
        if tray is not None and len(tray):
            self.account.rows_in += len(tray)
            self._queues[port].append(tray)
        self._bounds[port] = self._bounds[port].raised(bound)

    def release(self) -> Output:
        """Give what can leave after all that was offered."""
        thresholds = [self._threshold(port) for port in range(len(self._bounds))]
        least = min(range(len(thresholds)), key=thresholds.__getitem__)
        leaving = self._leaving(thresholds, least)
        if leaving is not None:
            self.account.done += len(leaving)
            self.account.rows_out += len(leaving)
        return Output(leaving, self._bounds[least])

    def limits(self) -> list[Threshold]:
        """Give, for each port, the place before which its rows leave: (rowtime, rank, counter, port)."""
        thresholds = [self._threshold(port) for port in range(len(self._bounds))]
        everything = (LATEST, 0, 0, 0)
        return [
            min((limit for other, limit in enumerate(thresholds) if other != port), default=everything)
            for port in range(len(thresholds))
        ]

    @property
    def ranks(self) -> Mapping[int, int]:
        """The rank of each origin that can come here."""
        return self._ranks

    def held(self) -> int:
        """Count the rows that wait for another port."""
        return sum(len(tray) for queue in self._queues for tray in queue)

    def snapshot(self) -> State:
        """See the contract."""
        state = {
            "account": self.account.to_arrow(),
            "bounds": pa.table(
                {
                    "rowtime": [bound.rowtime for bound in self._bounds],
                    "origin": [bound.origin for bound in self._bounds],
                    "counter": [bound.counter for bound in self._bounds],
                }
            ),
        }
        empty = Tray.empty(self._node.row_type)
        for port, queue in enumerate(self._queues):
            state[f"queue {port}"] = Tray.concat(queue or [empty]).to_arrow()
        return state

    def restore(self, state: State) -> None:
        """See the contract."""
        self.account = Account.from_arrow(state["account"])
        for port, row in enumerate(state["bounds"].to_pylist()):
            self._bounds[port] = Bound(row["rowtime"], row["origin"], row["counter"])
            rows = Tray.from_arrow(self._node.row_type, state[f"queue {port}"])
            self._queues[port] = [rows] if len(rows) else []

    @staticmethod
    def merge(states: Sequence[State]) -> State:
        """See the contract: a merge has no parts."""
        (state,) = states
        return state

    def _threshold(self, port: int) -> Threshold:
        """Give the least place that a later row of this port may have."""
        bound = self._bounds[port]
        if bound.origin == UNMARKED or bound.origin not in self._ranks:
            return (bound.rowtime, self._first_rank[port], BEFORE_ALL, port)
        return (bound.rowtime, self._ranks[bound.origin], bound.counter + 1, port)

    def _leaving(self, thresholds: Sequence[Threshold], least: int) -> Tray | None:
        """Take out every row that is before the thresholds of all other ports, in order."""
        if not any(self._queues):
            return None
        if len(self._queues) == 1:
            (queue,) = self._queues
            leaving = Tray.concat(queue)
            queue.clear()
            return leaving
        runner_up = min(limit for port, limit in enumerate(thresholds) if port != least)
        parts: list[Tray] = []
        starts = [0]
        for port, queue in enumerate(self._queues):
            limit = runner_up if port == least else thresholds[least]
            count = 0
            while queue:
                tray = queue[0]
                cut = self._releasable(tray, port, limit)
                if cut:
                    parts.append(tray.slice(0, cut))
                    count += cut
                if cut < len(tray):
                    queue[0] = tray.slice(cut, len(tray))
                    break
                queue.pop(0)
            starts.append(starts[-1] + count)
        if not parts:
            return None
        together = Tray.concat(parts)
        if sum(1 for before, after in pairwise(starts) if after > before) == 1:
            return together
        return together.take(self._order(together, starts))

    def _rank(self, tray: Tray) -> NDArray[np.int64]:
        return self._sorted_ranks[np.searchsorted(self._sorted_origins, tray.origin)]

    def _releasable(self, tray: Tray, port: int, limit: Threshold) -> int:
        from rowtide.operators.kernels.merging import releasable

        if int(tray.rowtime[-1]) < limit[0]:
            return len(tray)
        if int(tray.rowtime[0]) > limit[0]:
            return 0
        return releasable(tray.rowtime, self._rank(tray), tray.counter, port, np.array(limit, dtype=np.int64))

    def _order(self, together: Tray, starts: Sequence[int]) -> NDArray[np.int64]:
        from rowtide.operators.kernels.merging import merge_order

        order = np.empty(len(together), dtype=np.int64)
        merge_order(
            together.rowtime,
            self._rank(together),
            together.counter,
            np.array(starts, dtype=np.int64),
            order,
        )
        return order
