"""Backfill: Spark fills history up to a cut of offsets and hands over there (docs/sql/semantics.md#backfill).

The cut is chosen by a time, once, and asserts no bound. Spark processes exactly
the messages before it, slice by slice (``slices``). It stages all rows of a slice
(``backfill_output``). Then one transaction moves them to their tables and writes
the error rows, and the positions, bounds and state at the end of the slice, like one
commit of the live service. The next slice continues from that state. Nothing of a
slice is visible before its commit, so a failed backfill continues after the
last slice (``begin``). If a service starts meanwhile, it takes the epoch, and the
next commit fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import structlog

from rowtide.checkpoint.ledger import Decision, KeptAccount, PartitionId, PartitionPosition
from rowtide.checkpoint.parts.gathered import refuse_other_store
from rowtide.flow.flow import Flow
from rowtide.operators.contract import State
from rowtide.plan.outputs import table_nodes
from rowtide.rowtime.text import time_text
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.stage import RunDefinition
from rowtide.runtime.backfill.begin import (
    BackfillOrder,
    BackfillStart,
    CommittedMeanwhileError,
    adopt,
    committed,
    cut_decisions,
    first_positions,
    holder,
    refuse_changed,
    state_at,
)
from rowtide.runtime.backfill.messages import FrameReader, MessageIntake
from rowtide.runtime.backfill.silence import HeldBack, SilenceAtCut, held_back
from rowtide.runtime.backfill.slice_work import OnSpark, Slice, SliceWork, by_relation
from rowtide.runtime.backfill.slices import SliceCuts
from rowtide.runtime.commit.commit import Committer
from rowtide.runtime.ingest.skipping import skipped_of
from rowtide.runtime.leadership.heart import Heart
from rowtide.runtime.leadership.release import RecordRelease
from rowtide.runtime.recovery.begin import prepare_tables, refuse_tables_of_others
from rowtide.runtime.recovery.digest import dumped, plan_digests
from rowtide.runtime.recovery.recovery import partitions_of
from rowtide.runtime.retry import Patience, Retry
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.owned_tables import owned_tables
from rowtide.runtime.state.status import DATABASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TAKES = 3
"""Attempts to take a pipeline while others commit: a commit of a process that was killed may be on its way."""

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class SliceReport:
    """The result of a committed slice. ``reached_ms``: the latest timestamp of its messages, None without any."""

    rows: Mapping[str, int]
    errors: int
    messages: int
    reached_ms: int | None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a process after a slice.

    ``number`` counts its slices from 1. ``done`` is the part of its messages that is processed, of 1. ``seconds`` is
    the time of the slice, ``left_s`` an estimate of what is left.
    """

    number: int
    seconds: float
    done: float
    left_s: float

    def as_json(self, report: SliceReport) -> dict[str, object]:
        """Return the progress, with the result of the slice, as fields of a log line."""
        return {
            "slice": self.number,
            "reached": None if report.reached_ms is None else time_text(report.reached_ms),
            "messages": report.messages,
            "rows": sum(report.rows.values()),
            "errors": report.errors,
            "seconds": round(self.seconds, 1),
            "messages_per_s": round(report.messages / self.seconds) if self.seconds else None,
            "done": round(self.done, 3),
            "seconds_left": round(self.left_s),
        }

    def shown(self, report: SliceReport) -> str:
        """Return a line for people."""
        reached = "" if report.reached_ms is None else f" up to {time_text(report.reached_ms)}"
        rate = report.messages / self.seconds if self.seconds else 0.0
        left = f", about {self.left_s:,.0f} s left" if self.done < 1 else ""
        return (
            f"slice {self.number}{reached}, {self.done:.0%}: {report.messages:,} messages, "
            f"{sum(report.rows.values()):,} rows, {rate:,.0f} messages/s{left}"
        )


Tell = Callable[[SliceReport, Progress], None]
"""Called after the commit of each slice."""


@dataclass(frozen=True, slots=True)
class BackfillReport:
    """The result of a backfill: rows written by table, error rows, messages read, cut by partition.

    ``held_back`` names the partitions that rows wait for. ``slices`` is the number of slices that were
    committed; 0: an earlier run had reached the cut.
    """

    rows: Mapping[str, int]
    errors: int
    messages: int
    positions: Mapping[str, Mapping[int, int]]
    held_back: Sequence[HeldBack] = ()
    slices: int = 0


def backfill(
    context: PipelineContext,
    session: SparkSession,
    frames: FrameReader,
    scratch: str,
    order: BackfillOrder,
    tell: Tell = lambda _report, _progress: None,
) -> BackfillReport:
    """Fill history with Spark and hand over to the live service.

    Args:
      context: the same as for the live service: the plan, its sources and its database.
      session: the Spark session.
      frames: reads messages.
      scratch: a folder of this process, for the state of rows that wait.
      order: the cut, and more.
      tell: called after the commit of each slice.

    Raises:
      StatementError: what is committed cannot be continued (see ``begin.committed``); no state has changed.
      SupersededError: another process took the pipeline meanwhile; slices that were committed stay.
      TransientError: a dependency is down and waiting is not wanted, or Spark stops.
    """
    for left in reversed(range(TAKES)):
        found = committed(context, order)
        if found.is_complete:
            return completed(found)
        try:
            return _Backfill(context, session, frames, scratch, order, found).run(tell)
        except CommittedMeanwhileError:
            if not left:
                raise
    raise AssertionError("a backfill has ended or failed")


def completed(found: BackfillStart) -> BackfillReport:
    """Return the report of a backfill that an earlier run has ended."""
    positions = {} if found.record is None else found.record.positions()
    return BackfillReport({}, 0, 0, by_relation(positions))


@dataclass(slots=True)
class _Totals:
    """The sums of the slices so far."""

    rows: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    messages: int = 0
    slices: int = 0

    def add(self, report: SliceReport) -> None:
        for table, count in report.rows.items():
            self.rows[table] = self.rows.get(table, 0) + count
        self.errors += report.errors
        self.messages += report.messages
        self.slices += 1


class _Backfill:
    """One process of a backfill."""

    def __init__(
        self,
        context: PipelineContext,
        session: SparkSession,
        frames: FrameReader,
        scratch: str,
        order: BackfillOrder,
        found: BackfillStart,
    ) -> None:
        self._context = context
        self._session = session
        self._frames = frames
        self._scratch = scratch
        self._order = order
        self._found = found
        self._broker = self._retry("broker")
        self._database = self._retry("database")
        adopt(context, found)
        self._state: Mapping[str, State] | None = None
        if found.record is not None and found.partition_positions:
            self._state = state_at(context, found.record)
            if self._state is not None and context.parts is not None:
                refuse_other_store(self._state, context.parts)
        given = found.partition_positions or first_positions(context.sources, order.begin)
        self._positions: Mapping[PartitionId, PartitionPosition] = {each.place: each for each in given}
        self._end = dict(found.cut or self._cut())
        self._decisions: tuple[Decision, ...] = ()
        if found.cut is None:
            self._decisions = cut_decisions(self._end, order.until_ms)
        self._accounts: Sequence[KeptAccount] = self._database.call(context.ledger.accounts)
        self._streams = {stream.name: stream for stream in context.plan.foreign_streams}
        self._definition = RunDefinition(table_nodes(context.plan), partitions_of(self._positions))
        self._intake = MessageIntake(self._streams, skipped_of(found.decisions))

    def _retry(self, dependency: str) -> Retry:
        context = self._context
        patience = Patience(context.wait, denied_ends=lambda: True)
        return Retry(
            dependency, clock=context.clock, rng=context.rng, stopping=context.stopping, patience=patience
        )

    def _cut(self) -> Mapping[PartitionId, int]:
        """Return the cut of the partitions that are read."""
        return {
            place: max(offset, self._positions[place].next_offset)
            for place, offset in self._offsets_at(self._order.until_ms).items()
            if place in self._positions
        }

    def _offsets_at(self, timestamp_ms: int) -> dict[PartitionId, int]:
        return {
            (relation, partition): offset
            for relation, source in sorted(self._context.sources.items())
            for partition, offset in self._broker.call(partial(source.offsets_at, timestamp_ms)).items()
        }

    def run(self, tell: Tell) -> BackfillReport:
        """Commit slices up to the cut."""
        context = self._context
        kept = bool(self._found.partition_positions)
        if not kept:
            self._database.call(partial(refuse_tables_of_others, context.ledger, context.plan))
        self._database.call(partial(prepare_tables, context.name, context.database, context.plan, kept=kept))
        digests = dumped(plan_digests(context.plan), owned_tables(context.plan))
        release = RecordRelease(context.ledger.leadership(), context.name, context.standby.silence_s)
        release.wait(context.clock, context.stopping)
        record = self._database.call(
            lambda: context.ledger.claim(
                digests, holder(), partial(refuse_changed, self._found), context.text
            )
        )
        _log.info(
            "backfill",
            pipeline=context.name,
            epoch=record.epoch,
            cut=by_relation(self._end),
            goes_on=kept,
        )
        if context.parts is not None:
            # A store that cannot be used is found before the work, not after it.
            folder = self._database.call(context.ledger.parts_folder)
            self._retry("store of state in parts").call(partial(context.parts.names, folder))
        if self._session.sparkContext.uiWebUrl is not None:
            _log.info("spark_ui", url=self._session.sparkContext.uiWebUrl)
        flow = Flow(self._definition.outputs, self._definition.partitions)
        heart = Heart(
            context.ledger.leadership,
            context.clock,
            last_commit=lambda: committer.commits,
            failed=lambda: context.observer.retried(DATABASE),
        )
        committer = Committer(
            context,
            record,
            flow.source_of,
            retry=self._database,
            fetching=self._broker,
            beat=heart.beat_if_due,
        )
        heart.lead(record.epoch, context.standby.beat_s)
        order = self._order
        spark = OnSpark(
            self._session,
            self._frames,
            self._scratch,
            order.in_order,
            waiting=heart.beat_if_due,
            parts=context.parts,
        )
        work = SliceWork(context, spark, committer, broker=self._broker, database=self._database)
        limits = order.slices
        parts = int(self._session.conf.get("spark.sql.shuffle.partitions") or 1)
        cuts = SliceCuts(self._end, order.until_ms, limits.interval_ms, limits.most(parts), self._offsets_at)
        total = max(sum(self._left().values()), 1)
        totals = _Totals()
        began = context.clock.monotonic()
        waiting: Sequence[HeldBack] = ()
        for cut in self._slices(cuts):
            since = context.clock.monotonic()
            report, waiting = self._slice(cut, work)
            now, left = context.clock.monotonic(), sum(self._left().values())
            totals.add(report)
            pace = (now - began) / max(total - left, 1)
            progress = Progress(totals.slices, now - since, 1 - left / total, left * pace)
            _log.info("backfill_slice", **progress.as_json(report))
            tell(report, progress)
        heart.resign()
        positions = {place: each.next_offset for place, each in self._positions.items()}
        return BackfillReport(
            totals.rows, totals.errors, totals.messages, by_relation(positions), waiting, totals.slices
        )

    def _left(self) -> dict[PartitionId, int]:
        """Return the number of offsets up to the cut."""
        return {place: end - self._positions[place].next_offset for place, end in self._end.items()}

    def _slices(self, cuts: SliceCuts) -> Iterator[Mapping[PartitionId, int]]:
        """Yield the end of each slice; at least one, which commits the positions."""
        while True:
            cut = cuts.after({place: self._positions[place].next_offset for place in self._end})
            yield cut
            if cut == self._end:
                return

    def _slice(
        self, cut: Mapping[PartitionId, int], work: SliceWork
    ) -> tuple[SliceReport, Sequence[HeldBack]]:
        """Process and commit one slice; return what came of it, and what rows wait for at the last cut."""
        silence = SilenceAtCut(self._context, self._context.plan.foreign_streams, cut, self._broker)
        waiting: Sequence[HeldBack] = ()

        def look(run: SparkRun) -> None:
            nonlocal waiting
            if cut == self._end:
                waiting = held_back(run, self._context, cut, silence, self._broker)

        given = Slice(
            self._definition,
            self._intake,
            self._positions,
            cut,
            self._state,
            silence,
            self._decisions,
            accounts=self._accounts,
        )
        done = work.run(given, look, _progress(self._context))
        self._positions, self._state, self._decisions = done.positions, done.state, ()
        self._accounts = done.accounts
        return SliceReport(done.rows, done.errors, done.messages, done.reached_ms), waiting


def _progress(context: PipelineContext) -> Callable[[str, int], None]:
    """Return a function that logs each segment that has run: its rows, and the time since the one before."""
    last = context.clock.monotonic()

    def tell(segment: str, rows: int) -> None:
        nonlocal last
        now = context.clock.monotonic()
        _log.info("backfill_segment", segment=segment, rows=rows, seconds=round(now - last, 1))
        last = now

    return tell
