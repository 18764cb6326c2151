"""The run of a pipeline on Spark that is recovered, up to its orderly end: see ``live.running``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import structlog

from rowtide.runtime.backfill.messages import MessageIntake
from rowtide.runtime.backfill.slice_work import OnSpark
from rowtide.runtime.batches.limits import refuse_resubmitted, refuse_statements
from rowtide.runtime.batches.loop import BatchLoop, BatchPace, BatchParts
from rowtide.runtime.ingest.skipping import skipped_of
from rowtide.runtime.live.end_of_history import EndOfHistory
from rowtide.runtime.live.partition_watch import ends_of
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.query.contents import SnapshotTaken
from rowtide.runtime.recovery.start import Claimed
from rowtide.runtime.requests import Requests
from rowtide.runtime.state.observer import Watching
from rowtide.runtime.state.pipeline_state import PipelineState

STAGED_FROM = 10_000
"""Rows of a table from which on tasks write them to a staging table. Most batches have fewer, and a table
that is created and dropped with each batch would cost more, and fill the catalog of the database."""

_log = structlog.get_logger("rowtide")


class RunBatches:
    """Runs a pipeline on Spark: see ``service.Runs``.

    Args:
      spark: where the batches run.
      pace: when they begin.
    """

    passes_rows = False

    def __init__(self, spark: OnSpark, pace: BatchPace) -> None:
        self._spark = replace(spark, staged_from=STAGED_FROM)
        self._pace = pace

    def check(self, io: PipelineIO) -> None:
        """Refuse what Spark cannot run, before the epoch is taken.

        Raises:
          StatementError: nothing has changed.
        """
        context = io.context
        record = io.database.call(context.ledger.read)
        if record is not None:
            io.database.call(partial(refuse_resubmitted, context.name, context.ledger))
            io.database.call(lambda: refuse_statements(context.name, context.ledger, record))

    def __call__(
        self, io: PipelineIO, claimed: Claimed, state: PipelineState, requests: Requests, *, until_end: bool
    ) -> None:
        """Continue from the committed positions until asked to stop, or to the ends at the start.

        Raises:
          SupersededError, FaultError, TransientError, StoppedError, GoneError.
          StatementError: rows were resubmitted after ``check``. None are once Spark has the epoch.
        """
        context, record = io.context, claimed.record
        io.database.call(partial(refuse_resubmitted, context.name, context.ledger))
        committer = io.committer(record, state.source_of)
        origins = io.begins(state)
        clocks = io.partitions.decisions(state)
        for relation, held in claimed.ranges.items():
            io.partitions.looked_up(relation, held)
        ends = ends_of(claimed.ranges)
        batches = BatchLoop(
            io,
            record,
            state,
            MessageIntake(io.streams, skipped_of(io.database.call(context.ledger.decisions))),
            BatchParts(
                replace(self._spark, waiting=partial(_show_life, io)),
                self._pace,
                committer,
                clocks,
                requests.questions,
                Watching(io.board, io.progress.committed, context.observer, state, claimed.created, origins),
                # A run to the end leaves the rest of history, if there is more, to the next one.
                None if until_end else EndOfHistory(ends, context.clock),
                carries_state=bool(claimed.compacted),
            ),
        )

        def snapshot() -> SnapshotTaken:
            batches.commit_own(with_snapshot=True)
            stored = committer.stored
            return SnapshotTaken(context.name, committer.commits, stored.size_bytes, stored.seconds)

        requests.serve(state, io.backpressure(), snapshot)
        _log.info(
            "running", pipeline=context.name, epoch=record.epoch, commits=record.commits, runner="spark"
        )
        try:
            batches.run(ends if until_end else None)
            io.progress.ends(state)
            io.board.enter("stopping")
        finally:
            state.followers.end("the service stops")
            context.crash_points.reach("stop.before_close")
        summary = io.board.status().summary
        fields = {} if summary is None else summary.fields()
        _log.info("stopped", pipeline=context.name, epoch=record.epoch, commits=committer.commits, **fields)


def _show_life(io: PipelineIO) -> None:
    """Show that the main loop runs. A batch is finished even if the process is to stop."""
    io.is_stopping()
