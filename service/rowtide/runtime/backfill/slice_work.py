"""A slice on Spark: a run over the messages between two positions, from the state at the first, and its commit.

A backfill is a sequence of slices up to its cut, and live processing on Spark one without end. Each is one
commit of the live service's ``Committer``: rows, error rows, positions, bounds, decisions and state in one
transaction, under its fence.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from rowtide.checkpoint.ledger import (
    Decision,
    ErrorRow,
    KeptAccount,
    KeptSnapshot,
    PartitionId,
    PartitionPosition,
)
from rowtide.checkpoint.parts.store import PartStore, folder_of_commit
from rowtide.operators.contract import State
from rowtide.rowtime.bound import EARLIEST, LATEST
from rowtide.runners.spark.frames import SparkRun
from rowtide.runners.spark.parts.keeping import PartKeeper
from rowtide.runners.spark.session import spark_errors
from rowtide.runners.spark.stage import RunDefinition
from rowtide.runners.spark.start import Beginning
from rowtide.runtime.backfill.accounts import SliceAccounts
from rowtide.runtime.backfill.backfill_output import ErrorsOutput, TablesOutput, errors_output, folded_keys
from rowtide.runtime.backfill.messages import FrameReader, MessageIntake
from rowtide.runtime.backfill.silence import PartitionSilence
from rowtide.runtime.commit.commit import Committer
from rowtide.runtime.retry import Retry
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.deadletters import RecentMessages
from rowtide.runtime.state.pipeline_state import CommitBatch
from rowtide_connectors.errors import RefusedStageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Where slices run.

    Args:
      session: the Spark session.
      frames: reads messages.
      scratch: a folder of this process, for the rows that wait at the end of a slice.
      in_order: the messages of each partition are read by one task, in the order of their offsets.
      staged_from: a table with fewer rows of a slice gets them from the driver, without a staging table.
      waiting: called again and again while Spark works.
      parts: where tasks keep state in parts; None: all state goes through the driver.
    """

    session: SparkSession
    frames: FrameReader
    scratch: str
    in_order: bool
    staged_from: int = 0
    waiting: Callable[[], None] = lambda: None
    parts: PartStore | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """What a slice processes: the messages between the positions and ``cut``.

    ``state`` is the snapshot of the flow at the positions; None: the first state. ``decisions`` are committed
    beside those of ``silence``. ``with_snapshot`` False: the state at the end is not stored. ``accounts`` are all of
    the commit before.
    """

    definition: RunDefinition
    intake: MessageIntake
    positions: Mapping[PartitionId, PartitionPosition]
    cut: Mapping[PartitionId, int]
    state: Mapping[str, State] | None
    silence: PartitionSilence
    decisions: tuple[Decision, ...] = ()
    with_snapshot: bool = True
    accounts: Sequence[KeptAccount] = ()


@dataclass(frozen=True, slots=True)
class SliceDone:
    """A committed slice: the positions and the state at its end, and what came of it.

    ``state`` is None if it was not stored. ``rows`` counts rows by table. ``error_rows`` are those that the driver
    has made itself. ``reached_ms`` is the latest timestamp of the messages, None without any. ``accounts`` are all.
    """

    positions: Mapping[PartitionId, PartitionPosition]
    state: Mapping[str, State] | None
    rows: Mapping[str, int]
    errors: int
    error_rows: Sequence[ErrorRow]
    messages: int
    decisions: tuple[Decision, ...]
    reached_ms: int | None
    accounts: Sequence[KeptAccount]


class SliceWork:
    """Processes and commits slices of one pipeline.

    Args:
      context: the plan, its sources and its database.
      spark: where the slices run.
      committer: commits them.
      broker, database: repeat what fails because a dependency is down.
    """

    def __init__(
        self,
        context: PipelineContext,
        spark: OnSpark,
        committer: Committer,
        *,
        broker: Retry,
        database: Retry,
    ) -> None:
        self._context = context
        self._spark = spark
        self._committer = committer
        self._broker = broker
        self._database = database
        self._streams = {stream.name: stream for stream in context.plan.foreign_streams}
        self._keys = folded_keys(context.plan)

    def run(
        self, given: Slice, look: Callable[[SparkRun], None], progress: Callable[[str, int], None]
    ) -> SliceDone:
        """Process and commit a slice.

        ``look`` is called before the commit, with the run that has read everything: nothing may fail after a commit.
        ``progress`` is called after each segment, with its description and the number of rows that it has given.

        Raises:
          SupersededError: another process took the pipeline; nothing of the slice was committed.
          TransientError: a dependency is down and is not waited for, or Spark stops.
        """
        with tempfile.TemporaryDirectory(dir=self._spark.scratch) as folder:
            return self._run(given, folder, look, progress)

    def _run(
        self,
        given: Slice,
        folder: str,
        look: Callable[[SparkRun], None],
        progress: Callable[[str, int], None],
    ) -> SliceDone:
        spark = self._spark
        start = Beginning(given.state, self._keeper())
        run = SparkRun(spark.session, given.definition, folder, given.intake, self._keys, start=start)
        with closing(run):
            begin = {place: given.positions[place].next_offset for place in given.cut}
            moved = {
                relation
                for (relation, number), offset in given.cut.items()
                if offset > begin[relation, number]
            }
            frames = {
                name: self._messages(name, begin, given.cut) if name in moved else None
                for name in self._context.sources
            }
            with spark_errors():
                run.read(
                    frames,
                    in_order=spark.in_order,
                    silent=given.silence,
                    progress=progress,
                    waiting=spark.waiting,
                )
            flow = run.shadow()
            counts = flow.counts()
            look(run)
            positions = _positions_at(given, flow.bounds())
            tables = TablesOutput(
                run, self._context, self._committer.epoch, self._database, flow.ranks, spark.staged_from
            )
            state = run.state() if given.with_snapshot else None
            offsets = {place: each.next_offset for place, each in positions.items()}
            snapshot = None if state is None else KeptSnapshot(offsets, state)
            places = {flow.origin(*place): place for place in positions}
            decisions = (*given.silence.decisions, *given.decisions)
            counted = SliceAccounts(given.accounts, run, counts)
            messages = sum(each.messages for each in run.entered.values())

            def commit() -> tuple[ErrorsOutput, Sequence[ErrorRow]]:
                errors = self._errors(run, places, begin, given.cut)
                batch = CommitBatch(
                    tables.writes(),
                    tuple(errors.faults),
                    tuple(positions.values()),
                    snapshot,
                    messages,
                    decisions,
                    tables.moves(),
                    errors.rows,
                    accounts=lambda: counted.changed(counted.after(tables.refused())),
                )
                return errors, self._committer.commit(batch, RecentMessages())

            try:
                with spark_errors():
                    tables.prepare()
                    try:
                        errors, error_rows = commit()
                    except RefusedStageError as error:
                        _log.info(
                            "row_refused", reason=error.message, hint="The tables are written in chunks."
                        )
                        tables.unstage()
                        errors, error_rows = commit()
            except (Exception, KeyboardInterrupt):
                tables.drop()
                raise
        latest = max(run.latest.values(), default=EARLIEST)
        reached = None if latest == EARLIEST else latest
        return SliceDone(
            positions,
            state,
            dict(tables.counts),
            errors.count,
            error_rows,
            messages,
            decisions,
            reached,
            counted.after(tables.refused()),
        )

    def _keeper(self) -> PartKeeper | None:
        """Return where the tasks of the next commit keep state in parts."""
        if self._spark.parts is None:
            return None
        folder = self._database.call(self._context.ledger.parts_folder)
        commit = self._committer.commits + 1
        return PartKeeper(self._spark.parts, folder_of_commit(folder, self._committer.epoch, commit))

    def _errors(
        self,
        run: SparkRun,
        places: Mapping[int, PartitionId],
        begin: Mapping[PartitionId, int],
        cut: Mapping[PartitionId, int],
    ) -> ErrorsOutput:
        """Prepare the error rows."""
        # Tasks of Spark get it.
        topics = {name: source.topic for name, source in self._context.sources.items()}
        return errors_output(run, lambda: self._messages_of_faults(run, places, begin, cut), places, topics)

    def _messages_of_faults(
        self,
        run: SparkRun,
        places: Mapping[int, PartitionId],
        begin: Mapping[PartitionId, int],
        cut: Mapping[PartitionId, int],
    ) -> dict[str, DataFrame]:
        """Return the messages from the oldest fault on, which may be of a row that an earlier slice has read."""
        oldest = run.faults.oldest(places)
        first = {place: min(offset, oldest.get(place, offset)) for place, offset in begin.items()}
        if first != begin:
            for relation, source in self._context.sources.items():
                for partition, held in self._broker.call(source.ranges).items():
                    place = (relation, partition)
                    if place in first:
                        first[place] = min(max(first[place], held.earliest), begin[place])
        return {name: self._messages(name, first, cut) for name in self._context.sources}

    def _messages(
        self, name: str, begin: Mapping[PartitionId, int], end: Mapping[PartitionId, int]
    ) -> DataFrame:
        first, last = by_relation(begin)[name], by_relation(end)[name]
        return self._spark.frames(self._streams[name], self._context.sources[name].topic, first, last)


def by_relation(offsets: Mapping[PartitionId, int]) -> dict[str, dict[int, int]]:
    """Return offsets by relation and partition."""
    found: dict[str, dict[int, int]] = {}
    for (relation, partition), offset in sorted(offsets.items()):
        found.setdefault(relation, {})[partition] = offset
    return found


def _positions_at(given: Slice, bounds: Mapping[PartitionId, int]) -> dict[PartitionId, PartitionPosition]:
    return {
        place: replace(
            each,
            next_offset=given.cut.get(place, each.next_offset),
            bound=None if bounds[place] in (EARLIEST, LATEST) else bounds[place],
        )
        for place, each in given.positions.items()
    }
