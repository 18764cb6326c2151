"""One pipeline as a service: start (claim, recover), run, stop; with standby: follow, take over, run."""

from __future__ import annotations

from typing import Protocol

import structlog

from rowtide.errors import SupersededError
from rowtide.runtime.leadership.watch import LeaderWatch, Standby
from rowtide.runtime.live.loading import load_ahead
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.recovery.begin import Begin, StartEdge
from rowtide.runtime.recovery.follow import FollowingReplica
from rowtide.runtime.recovery.start import Claimed, claim, recover
from rowtide.runtime.requests import Requests
from rowtide.runtime.running import run_live
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.pipeline_state import PipelineState

_log = structlog.get_logger("rowtide")


class Runs(Protocol):
    """Runs a pipeline that is recovered, from its committed positions on."""

    passes_rows: bool
    """Whether all rows pass through this process: queries can follow them, and resubmitted rows join them."""

    def check(self, io: PipelineIO) -> None:
        """Refuse, before the epoch is taken, what it cannot run.

        Raises:
          StatementError: nothing has changed.
        """

    def __call__(
        self, io: PipelineIO, claimed: Claimed, state: PipelineState, requests: Requests, *, until_end: bool
    ) -> None:
        """Run until a stop is requested or, with ``until_end``, to the ends at the start."""


class RunLive:
    """Runs a pipeline in this process."""

    passes_rows = True

    def check(self, io: PipelineIO) -> None:
        """Refuse nothing."""

    def __call__(
        self, io: PipelineIO, claimed: Claimed, state: PipelineState, requests: Requests, *, until_end: bool
    ) -> None:
        """Run it: see ``run_live``."""
        run_live(io, claimed, state, requests, until_end=until_end)


class Service:
    """The run of a pipeline. ``board``, ``progress`` and ``requests`` are for other threads.

    ``runs``: what runs it once it is recovered: this process, or Spark.
    """

    def __init__(self, context: PipelineContext, runs: Runs | None = None) -> None:
        self._io = PipelineIO(context)
        self._runs = runs or RunLive()
        self.board = self._io.board
        self.progress = self._io.progress
        self.requests = Requests(self._io, passes_rows=self._runs.passes_rows)

    def run(self, begin: Begin = StartEdge.WATERMARK, *, until_end: bool = False) -> None:
        """Start, then run until a stop is requested or, with ``until_end``, to the current ends.

        A replica first follows the one that leads, and follows again if it loses the pipeline. It does not end at
        the ends.

        Raises:
          StatementError: the start is refused; no state has changed.
          SupersededError: another process took the pipeline.
          TransientError: a dependency is down and waiting is not wanted.
          StoppedError: a stop was requested while a dependency was down; uncommitted work was dropped.
          FaultError: an invariant broke.
        """
        context = self._io.context
        self._runs.check(self._io)
        if context.threads:
            load_ahead(list(context.sources.values()))
        if context.is_replica:
            self._replicate(context.standby, begin)
            return
        claimed = claim(self._io, begin, on_spark=not self._runs.passes_rows)
        # Replicas of other processes may follow, and a quiet process learns by it that it was superseded.
        self._io.heart.lead(claimed.record.epoch, context.standby.beat_s)
        work = recover(self._io, claimed)
        if not context.stopping():
            self._runs(self._io, claimed, work, self.requests, until_end=until_end)
        self._io.heart.resign()

    def _replicate(self, standby: Standby, begin: Begin) -> None:
        """Follow and lead in turn, until a stop is requested."""
        io, context = self._io, self._io.context
        context.database.limit_idle(standby.idle_transaction_s)
        watch = LeaderWatch(standby)
        while not context.stopping():
            io.board.enter("starting")
            try:
                taken = FollowingReplica(io, standby, watch, self.requests.questions).until_leading(begin)
                if taken is None:
                    return
                self._runs(io, taken.claimed, taken.work, self.requests, until_end=False)
                io.heart.resign()
            except SupersededError as error:
                _log.warning("follows_again", pipeline=context.name, reason=error.message)
            finally:
                io.rest()
                self.requests.rest()
