"""What the steps of a running pipeline have done by one commit, as arrays.

The main thread makes one of each commit, at most one a second, of the counts that the commit has checked anyway. Other
threads make of it what they show: metrics of a step, of a relation, or all of them as an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from rowtide.rows.types import MAX_TIMESTAMP_MS
from rowtide.rowtime.bound import EARLIEST, LATEST
from rowtide.runtime.progress.graph import PlanGraph
from rowtide.runtime.progress.layout import BOUND, Integers, StepLayout
from rowtide.runtime.state.pipeline_state import IntakeAccount, PipelineState
from rowtide.runtime.state.status import PartitionStatus, Snapshot

_FIELDS = (0, 5, 2, 3, 4, 6)
"""Where ``RowCounts`` has ``COUNTED``."""


@dataclass(frozen=True, eq=False)
class PipelineProgress:
    """The progress as of one commit. Immutable.

    ``status`` is that of the commit. ``numbers`` has a row for each of ``layout.order``: ``COUNTED``, and the bound.
    """

    status: Snapshot
    layout: StepLayout
    numbers: Integers

    @property
    def graph(self) -> PlanGraph:
        """The graph whose steps are counted."""
        return self.layout.graph

    @property
    def partitions(self) -> Sequence[PartitionStatus]:
        """The positions of partitions."""
        return self.status.positions

    @cached_property
    def steps(self) -> list[list[int | None]]:
        """The step, its counts, and its bound in ms, of each step."""
        return [
            [at, *counts[:BOUND], shown_bound(counts[BOUND])]
            for at, counts in zip(self.layout.order, self.numbers.tolist(), strict=True)
        ]

    @cached_property
    def by_node(self) -> Integers:
        """The counts and the bound of each node of the graph."""
        return self.layout.by_node(self.numbers)


def progress_of(state: PipelineState, layout: StepLayout, status: Snapshot) -> PipelineProgress:
    """Return the progress at the last cut. Everything must have been drained, and nothing may have entered since."""
    intake = [state.accounts.get(name, _NOTHING_READ) for name in layout.sources]
    counts = np.fromiter(
        chain(
            chain.from_iterable(state.counts.by_step.values()),
            chain.from_iterable(_read(account) for account in intake),
            chain.from_iterable(state.outputs[name].account.counts() for name in layout.writes),
        ),
        np.int64,
    ).reshape(-1, len(_FIELDS) + 1)
    numbers = np.empty((len(counts), BOUND + 1), np.int64)
    numbers[:, :BOUND] = counts[:, _FIELDS]
    writes = len(counts) - len(layout.writes)
    # What a target has done with is what it has written.
    numbers[writes:, 1] = counts[writes:, 1]
    bounds, least = state.flow.step_bounds(), _least(status.positions)
    outputs = layout.program.outputs
    numbers[:, BOUND] = [
        *(bounds[at] for at in layout.operators),
        *(least.get(name, bounds[at]) for name, at in layout.sources.items()),
        *(bounds[outputs[name]] if name in outputs else EARLIEST for name in layout.writes),
    ]
    return PipelineProgress(status, layout, numbers)


_NOTHING_READ = IntakeAccount()


def _read(account: IntakeAccount) -> tuple[int, ...]:
    """Return the counts of a source; messages that only set a bound are no rows."""
    return account.rows + account.rejected, account.rows, 0, 0, account.rejected, account.rows, 0


def _least(positions: Sequence[PartitionStatus]) -> dict[str, int]:
    """Return the least bound of the partitions of each relation."""
    found: dict[str, int] = {}
    for each in positions:
        bound = EARLIEST if each.bound is None else each.bound
        found[each.relation] = min(found.get(each.relation, LATEST), bound)
    return found


def shown_bound(bound: int) -> int | None:
    """Return a bound (ms) for programs: None before the first, the end of the calendar for the end of time."""
    return None if bound == EARLIEST else min(bound, MAX_TIMESTAMP_MS)
