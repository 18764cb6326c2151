"""The newest progress of a pipeline, for other threads: they never wait for the main loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rowtide.checkpoint.ledger import ErrorRow
from rowtide.clock import Clock
from rowtide.flow.program import Program
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import Plan
from rowtide.runtime.progress.budget import LoopBudget
from rowtide.runtime.progress.held_back import HoldingPartition
from rowtide.runtime.progress.history import CountHistory
from rowtide.runtime.progress.layout import StepLayout
from rowtide.runtime.progress.progress import PipelineProgress, progress_of
from rowtide.runtime.state.pipeline_state import CommitBatch, PipelineState
from rowtide.runtime.state.status import StatusBoard

WATCHED_S = 10.0
"""How long after a look somebody watches."""
SOUGHT_EACH_S = 5.0
"""The least time between two searches for what holds rows back."""
MADE_EACH_S = 1.0
"""The least time between two progresses: people look at them."""
MOST_COMMITS = 1_000
"""The commits that are kept: a quarter of an hour of a busy pipeline, in some 300 bytes each."""


@dataclass(frozen=True, slots=True)
class CommitReport:
    """One commit of this process. ``rows`` are those that it wrote, by target.

    ``snapshot_bytes`` is the size of the snapshot that is complete with it; None: there is none.
    """

    number: int
    epoch: int
    at_ms: int
    seconds: float
    messages: int
    rows: Mapping[str, int]
    late: int
    rejected: int
    snapshot_bytes: int | None


class ProgressBoard:
    """The newest progress and the last commits of one pipeline. Its main thread writes, any thread reads."""

    def __init__(self, plan: Plan, board: StatusBoard, clock: Clock) -> None:
        self.plan = plan
        self._board = board
        self._clock = clock
        self._made_at = float("-inf")
        self._is_due = False
        self._layout: StepLayout | None = None
        self.newest: tuple[PipelineProgress, ...] = ()
        """The newest progress, after the one before it; empty before this process runs the pipeline."""
        self.commits: tuple[CommitReport, ...] = ()
        """The last commits since this process began to run the pipeline, the oldest first."""
        self.began_ms: int | None = None
        """When that was, ms since 1970; None: it has not."""
        self.held_back: tuple[HoldingPartition, ...] | None = None
        """What holds rows back; None: no one has watched lately, or the pipeline does not run."""
        self._watched_at = self._sought_at = float("-inf")
        self.budget = LoopBudget(clock.monotonic())
        """What searches may take of the main loop."""

    @property
    def layout(self) -> StepLayout:
        """The steps that run. Before the pipeline runs, its partitions are not known, and sources have one."""
        if self._layout is None:
            self._layout = StepLayout(self.plan, Program(table_nodes(self.plan), {}))
        return self._layout

    @cached_property
    def history(self) -> CountHistory:
        """What the relations have done over the last hour of this process."""
        return CountHistory(len(self.layout.graph.nodes))

    def begins(self, state: PipelineState) -> None:
        """Note the state at which the pipeline continues, and to which it was recovered."""
        self.commits, self.began_ms = (), self._clock.now_ms()
        state.check()
        self._make(state)

    def committed(
        self,
        state: PipelineState,
        batch: CommitBatch,
        errors: Sequence[ErrorRow],
        seconds: float,
        snapshot_bytes: int | None,
    ) -> None:
        """Note a commit, and the size of the snapshot that is complete with it. Nothing has entered since."""
        kinds, status = Counter(each.kind for each in errors), self._board.status()
        rows = {each.name: len(each.tray) for each in batch.writes}
        rows |= {each.relation: len(each.messages) for each in batch.sends}
        rows |= {name: count for name, count in batch.moved_rows.items() if count}
        report = CommitReport(
            status.commits or 0,
            status.epoch or 0,
            status.last_commit_ms or 0,
            seconds,
            batch.messages,
            rows,
            kinds["LATE"],
            kinds["REJECTED"],
            snapshot_bytes,
        )
        # Readers take the whole: what they have never changes.
        self.commits = (*self.commits[1 - MOST_COMMITS :], report)
        self._is_due = True
        self.look(state)

    def look(self, state: PipelineState) -> None:
        """Make the progress of a commit that soon followed another. Everything must have been drained."""
        if not self._is_due or self._clock.monotonic() < self._made_at + MADE_EACH_S:
            return
        if not state.has_moved:
            self._make(state)

    def watch(self) -> None:
        """Note that somebody looks at what holds rows back. Called by any thread."""
        self._watched_at = self._clock.monotonic()

    def seek(self, found: Callable[[], tuple[HoldingPartition, ...]]) -> None:
        """Find out what holds rows back, if somebody watches, and time and budget allow it.

        Everything must have been drained.
        """
        now = self._clock.monotonic()
        if now > self._watched_at + WATCHED_S:
            self.held_back = None
        elif now >= self._sought_at + SOUGHT_EACH_S and self.budget.allows(now):
            self.held_back, self._sought_at = found(), now
            self.budget.spent(self._clock.monotonic() - now)

    def ends(self, state: PipelineState) -> None:
        """Make the progress of the last commit."""
        self.held_back = None
        if self._is_due:
            self._make(state)

    def layout_of(self, state: PipelineState) -> StepLayout:
        """Return the layout of what runs now."""
        program, layout = state.flow.program, self._layout
        if layout is None or program is not layout.program:
            layout = self._layout = StepLayout(self.plan, program)
        return layout

    def _make(self, state: PipelineState) -> None:
        self._is_due, self._made_at = False, self._clock.monotonic()
        made = progress_of(state, self.layout_of(state), self._board.status())
        self.newest = (*self.newest[-1:], made)
        self.history.add(self._clock.now_ms(), made.by_node)
