"""The ordered union: several inputs in one order by consistent time (docs/sql/semantics.md#merge-order).

A row's place is (rowtime, rank of its origin, counter). Rows of one place are one
change: a port brings them in one tray, and they leave together, those of the first
port first. Later rows of a port are never before its threshold, which follows from
its bound and its last row. A row leaves when its place is before the thresholds of
all other ports. So the output and its order depend only on rows and bounds.

The merge's bound stays valid when an input joins later: its rows below it are
late (docs/sql/semantics.md#new-partitions). A port that has promised no more rows reads
only tables of statements. A changed file may change them nevertheless: such rows leave
at once, at the merge's bound (docs/decisions/0026).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rowtide.operators.contract import (
    Account,
    Fault,
    OperatorSite,
    State,
    StepOutput,
    Want,
    loaded_bounds,
    saved_bounds,
)
from rowtide.operators.faults import late_row
from rowtide.operators.merge.ranks import Ranks
from rowtide.operators.splitting import Whole
from rowtide.operators.storage.waiting import TrayQueue
from rowtide.plan.nodes import Merge
from rowtide.rows.tray import Tray
from rowtide.rowtime.bound import EARLIEST, LATEST, NO_BOUND, UNMARKED, Bound

Place = tuple[int, int, int]
"""A rowtime, the rank of an origin and its counter."""
BEFORE_ALL = -1
"""A counter before every real one."""
AFTER_ALL = LATEST - 1
"""A counter after every real one."""
END: Place = (LATEST, 0, 0)
"""A place after all rows."""
PROMISED = "promised"
QUEUE = "queue "
"""What the names of tables of the state begin with that have the rows that wait at a port."""


def queue_of(port: int) -> str:
    """Return the table of the state with the rows that wait at a port."""
    return f"{QUEUE}{port}"


class MergeOperator(Whole):
    """Merges the ports that ``place.port_origins`` names: partitions of a stream, or streams."""

    def __init__(self, node: Merge, site: OperatorSite) -> None:
        self.account = Account()
        self._node = node
        ports = site.port_origins
        self._ranks = Ranks(site.order or (origin for origins in ports for origin in origins))
        self._first_rank = [self._least_rank(origins) for origins in ports]
        self._later_rank = [
            {origin: self._least_rank(origins[at + 1 :]) for at, origin in enumerate(origins)}
            for origins in ports
        ]
        self._in_rank_order = [
            all(before < after for before, after in pairwise(map(self._ranks.of_origin.__getitem__, origins)))
            for origins in ports
        ]
        self._bounds: list[Bound] = [NO_BOUND] * len(ports)
        self._queues = [TrayQueue(node.row_type) for _ in ports]
        self._held = 0
        self._promised = NO_BOUND
        self._late: list[Fault] = []
        self._at_once: list[Tray] = []

    def _least_rank(self, origins: Sequence[int]) -> int:
        ranks = self._ranks.of_origin
        return min((ranks[origin] for origin in origins), default=len(ranks))

    def step(self, port: int, tray: Tray | None, bound: Bound) -> StepOutput:
        """One port for each input, or for each partition of the one input."""
        self.offer(port, tray, bound)
        return self.release()

    def remember(self, rowtime: int) -> None:
        """Note that an earlier merge at this place has promised the bound ``rowtime`` (ms)."""
        self._promised = self._promised.raised(Bound(rowtime))

    def offer(self, port: int, tray: Tray | None, bound: Bound) -> None:
        """Take rows and a bound without releasing rows yet."""
        if tray is not None and len(tray):
            self.account.rows_in += len(tray)
            if int(tray.rowtime[0]) < self._promised.rowtime < LATEST:
                tray = self._changed(tray) if self._bounds[port].rowtime == LATEST else self._judged(tray)
        if tray is not None and len(tray):
            self._held += len(tray)
            self._queue(port, tray)
            # Rows come in order and those of a place together, so a row is also a bound.
            last = Bound(int(tray.rowtime[-1]), int(tray.origin[-1]), int(tray.counter[-1]))
            self._bounds[port] = self._bounds[port].raised(last)
        self._bounds[port] = self._bounds[port].raised(bound)

    def release(self) -> StepOutput:
        """Return the rows that can leave after all offered input."""
        thresholds = [self._threshold(port) for port in range(len(self._bounds))]
        leaving = self._leaving(thresholds)
        if leaving is not None:
            self._held -= len(leaving)
        if self._at_once:
            leaving = Tray.concat([*self._at_once, *([] if leaving is None else [leaving])])
            self._at_once = []
        if leaving is not None:
            self.account.done += len(leaving)
            self.account.rows_out += len(leaving)
        self._promised = self._promised.raised(self._bound_before(min(thresholds)))
        faults, self._late = self._late, []
        return StepOutput(leaving, self._promised, faults)

    def _changed(self, tray: Tray) -> Tray:
        """Let rows below the merge's bound leave at it, and return the others; the port had ended."""
        least = self._promised.rowtime
        count = int(np.searchsorted(tray.rowtime, least))
        now = tray.slice(0, count)
        self._at_once.append(now.with_rowtime(np.full(count, least, dtype=np.int64)))
        return tray.slice(count, len(tray))

    def _judged(self, tray: Tray) -> Tray:
        """Return the rows not below the merge's bound; only a joining input has rows below it."""
        least = self._promised.rowtime
        count = int(np.searchsorted(tray.rowtime, least))
        names = tray.row_type.names
        for row in tray.slice(0, count).rows():
            self._late.append(late_row(self._node.relation, row, least, names))
        self.account.late += count
        return tray.slice(count, len(tray))

    def limits(self) -> list[Place]:
        """Return, for each port, the place before which its rows leave."""
        return self._limits([self._threshold(port) for port in range(len(self._bounds))])

    @property
    def ranks(self) -> Mapping[int, int]:
        """The rank of each origin that can come here."""
        return self._ranks.of_origin

    def held(self) -> int:
        """Count the rows that wait for another port."""
        return self._held

    def ahead(self) -> int:
        return self._held

    def reached(self) -> int:
        bounds = (self._promised, *self._bounds)
        return max((each.rowtime for each in bounds if each.rowtime < LATEST), default=EARLIEST)

    def wants(self, bound: int | None = None) -> Sequence[Want]:
        """In whole milliseconds, although a row of a port promises more than its rowtime."""
        if bound is not None:
            return [Want(port, bound) for port in range(len(self._bounds))]
        if not self._held:
            return []
        return self.wants_at(*self._first())

    def wants_at(self, place: Place, port: int) -> Sequence[Want]:
        """Return the bounds that the ports need for a row of ``port`` to leave."""
        found = []
        for each in range(len(self._bounds)):
            threshold = self._threshold(each)
            if place < threshold or (each == port and self._in_rank_order[port]):
                continue
            rowtime, rank, _ = place
            comes_later = each != port and self._first_rank[each] > rank
            found.append(Want(each, rowtime if comes_later else rowtime + 1))
        return found

    def first_rowtime(self) -> int | None:
        """Return the rowtime of the first row that waits (ms)."""
        return self._first()[0][0] if self._held else None

    def _first(self) -> tuple[Place, int]:
        """Return the place of the first row that waits, and its port."""
        return min((self._first_place(port), port) for port, queue in enumerate(self._queues) if queue)

    def _first_place(self, port: int) -> Place:
        first = self._queues[port].first()
        assert first is not None
        rank = self._ranks.of_origin[int(first.origin[0])]
        return (int(first.rowtime[0]), rank, int(first.counter[0]))

    def snapshot(self) -> State:
        state = {
            "account": self.account.to_arrow(),
            PROMISED: pa.table({"rowtime": [self._promised.rowtime]}),
            "bounds": saved_bounds(self._bounds),
        }
        for port, queue in enumerate(self._queues):
            state[queue_of(port)] = queue.contents().to_arrow()
        return state

    def restore(self, state: State) -> None:
        self.account = Account.from_arrow(state["account"])
        (promised,) = state[PROMISED].column("rowtime").to_pylist()
        self.remember(promised)
        self._bounds = loaded_bounds(state["bounds"])
        for port in range(len(self._bounds)):
            rows = Tray.from_arrow(self._node.row_type, state[queue_of(port)])
            self._queues[port].append(rows)
            self._held += len(rows)

    def _threshold(self, port: int) -> Place:
        """Return the least place that a later row of this port may have."""
        bound = self._bounds[port]
        rank = self._ranks.of_origin.get(bound.origin)
        if bound.origin == UNMARKED or rank is None:
            return (bound.rowtime, self._first_rank[port], BEFORE_ALL)
        goes_on = (rank, bound.counter + 1)
        comes_later = (self._later_rank[port].get(bound.origin, rank), BEFORE_ALL)
        return (bound.rowtime, *min(goes_on, comes_later))

    def _bound_before(self, threshold: Place) -> Bound:
        """Return the bound of a link without rows before a threshold."""
        rowtime, rank, counter = threshold
        if counter != BEFORE_ALL:
            return Bound(rowtime, self._ranks.order[rank], counter - 1)
        if rank == 0:
            return Bound(rowtime)
        return Bound(rowtime, self._ranks.order[rank - 1], AFTER_ALL)

    def _queue(self, port: int, tray: Tray) -> None:
        """Add waiting rows, in order of their places."""
        queue = self._queues[port]
        if not self._in_rank_order[port]:
            tray = self._ranked(queue, tray)
        queue.append(tray)

    def _ranked(self, queue: TrayQueue, tray: Tray) -> Tray:
        """Sort a tray if the port has another order of origins than this merge.

        Waiting rows of the tray's first rowtime are moved from the queue into it.
        """
        rowtime = tray.rowtime[0]
        waiting = queue.take_end(lambda each: int(np.searchsorted(each.rowtime, rowtime, side="left")))
        together = Tray.concat([*waiting, tray])
        ranks = self._ranks.of(together.origin)
        return together.take(np.lexsort((together.counter, ranks, together.rowtime)))

    def _limits(self, thresholds: Sequence[Place]) -> list[Place]:
        """Return, for each port, the place before which its rows leave: no other port can bring one there."""
        least = min(range(len(thresholds)), key=thresholds.__getitem__)
        runner_up = min((each for port, each in enumerate(thresholds) if port != least), default=END)
        limits = [runner_up if port == least else thresholds[least] for port in range(len(thresholds))]
        # Where a port has another order of origins, its later rows may come before the waiting ones.
        return [
            limit if self._in_rank_order[port] else min(limit, thresholds[port])
            for port, limit in enumerate(limits)
        ]

    def _leaving(self, thresholds: Sequence[Place]) -> Tray | None:
        """Remove and return every row before its port's limit, in order."""
        if not self._held:
            return None
        if len(self._queues) == 1:
            (queue,) = self._queues
            return queue.take(len)
        parts: list[Tray] = []
        starts = [0]
        for queue, limit in zip(self._queues, self._limits(thresholds), strict=True):
            taken = queue.take_parts(partial(self._releasable, limit=limit))
            parts += taken
            starts.append(starts[-1] + sum(map(len, taken)))
        if not parts:
            return None
        together = Tray.concat(parts)
        if sum(1 for before, after in pairwise(starts) if after > before) == 1:
            return together
        return together.take(self._order(together, starts))

    def _releasable(self, tray: Tray, limit: Place) -> int:
        from rowtide.operators.merge.kernels.merging import releasable

        if int(tray.rowtime[-1]) < limit[0]:
            return len(tray)
        if int(tray.rowtime[0]) > limit[0]:
            return 0
        ranks = self._ranks.of(tray.origin)
        return releasable(tray.rowtime, ranks, tray.counter, np.array(limit, dtype=np.int64))

    def _order(self, together: Tray, starts: Sequence[int]) -> NDArray[np.int64]:
        from rowtide.operators.merge.kernels.merging import merge_order

        order = np.empty(len(together), dtype=np.int64)
        merge_order(
            together.rowtime,
            self._ranks.of(together.origin),
            together.counter,
            np.array(starts, dtype=np.int64),
            order,
        )
        return order
