"""The live run of a pipeline that is recovered, up to its orderly end."""

from __future__ import annotations

import structlog

from rowtide.runtime.admission.partitions import Admission
from rowtide.runtime.admission.statements import StatementDesk
from rowtide.runtime.inspect.first_look import FirstLook
from rowtide.runtime.live.end_of_history import EndOfHistory
from rowtide.runtime.live.live import BetweenTurns, Inflow, Live
from rowtide.runtime.live.partition_watch import ends_of
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.query.contents import SnapshotTaken
from rowtide.runtime.recovery.start import START_COMMITS, Claimed
from rowtide.runtime.requests import Requests
from rowtide.runtime.state.observer import Watching
from rowtide.runtime.state.pipeline_state import PipelineState

_log = structlog.get_logger("rowtide")


def run_live(
    io: PipelineIO, claimed: Claimed, state: PipelineState, requests: Requests, *, until_end: bool
) -> None:
    """Continue from the committed positions until asked to stop, or to the ends at the start.

    Raises:
      SupersededError, FaultError, TransientError, StoppedError, GoneError.
    """
    context, record = io.context, claimed.record
    committer = io.committer(record, state.source_of)
    backpressure = io.backpressure()
    origins = io.begins(state)
    clocks = io.partitions.decisions(state)
    io.feed(record.epoch)
    # A run to the end reads the tables of databases as they are now.
    ranges = io.polled_ends(claimed.ranges) if until_end else claimed.ranges
    for relation, held in ranges.items():
        io.partitions.looked_up(relation, held)
    outboxes = io.open_outboxes(record)
    admission = Admission(io, state)
    admission.begin(until_end=until_end)
    desk = StatementDesk(io, state, context.statements)
    inbox = io.open_inbox(state.positions, io.channels(state.flow))
    # A run to the end leaves the rest of history, if there is more, to the next one.
    end_of_history = None if until_end else EndOfHistory(ends_of(ranges), context.clock)
    look = FirstLook(context.name, io.topic_streams() if record.commits == START_COMMITS else ())

    def admit() -> None:
        admission.admit(inbox)
        desk.work_off()
        io.progress.look(state)
        io.progress.seek(lambda: requests.held_back(state))

    live = Live(
        context,
        state,
        Inflow(inbox, backpressure, clocks, look, end_of_history),
        committer,
        between=BetweenTurns(io.is_stopping, admit, io.progress.budget.rested, requests.questions, outboxes),
        observer=Watching(io.board, io.progress.committed, context.observer, state, claimed.created, origins),
        carries_state=bool(claimed.compacted),
    )

    def snapshot() -> SnapshotTaken:
        live.commit(with_snapshot=True)
        stored = committer.stored
        return SnapshotTaken(context.name, committer.commits, stored.size_bytes, stored.seconds)

    requests.serve(state, backpressure, snapshot)
    _log.info("running", pipeline=context.name, epoch=record.epoch, commits=record.commits)
    try:
        # A run to the end may have nothing to read.
        desk.work_off()
        live.run(ends_of(ranges) if until_end else None)
        io.progress.ends(state)
        io.board.enter("stopping")
        if until_end:
            outboxes.finish(limit_s=None, stopping=io.is_stopping)
        else:
            outboxes.finish()
    finally:
        state.followers.end("the service stops")
        context.crash_points.reach("stop.before_close")
        inbox.close()
        outboxes.close()
    summary = io.board.status().summary
    fields = {} if summary is None else summary.fields()
    _log.info("stopped", pipeline=context.name, epoch=record.epoch, commits=committer.commits, **fields)
