"""The start of a pipeline: check everything, take the epoch, recover.

A start that is refused (another plan, ``--from`` over committed positions, an
aged-out log) changes nothing and does not disturb a running process: the
epoch is taken only after all checks.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from rowtide.checkpoint.ledger import KeptSnapshot, PartitionId, PartitionPosition, Record, takes_any
from rowtide.plan.outputs import table_nodes
from rowtide.runtime.configured import takes_append_times
from rowtide.runtime.ingest.append_times import AppendTimes, by_message_time
from rowtide.runtime.ingest.intake import check_identity
from rowtide.runtime.leadership.release import RecordRelease
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.recovery.begin import (
    ON_SPARK,
    Begin,
    StartEdge,
    StartTimestamp,
    first_offsets,
    prepare_tables,
    refuse_start,
    refuse_tables_of_others,
)
from rowtide.runtime.recovery.digest import dumped, plan_digests
from rowtide.runtime.recovery.newest import NewestSnapshot
from rowtide.runtime.recovery.recovery import (
    begin_of_replay,
    check_compacted,
    check_ranges,
    flow_at,
    logged,
    replay,
    telling_progress,
    usable,
)
from rowtide.runtime.runnable import nothing_to_run
from rowtide.runtime.state.owned_tables import owned_tables
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.topics import adopt_topics, compacted_topics, ids_of, known_ids
from rowtide_connectors.api import MatchingSource, OffsetRange
from rowtide_connectors.several import place_of

START_COMMITS = 1
"""The number of the commit that records the start positions. Later commits have rows."""

_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class Claimed:
    """A pipeline whose epoch this process has taken, and the findings of the start.

    ``compacted`` are topics by foreign stream, ``created`` the tables that were created.
    """

    record: Record
    ranges: Mapping[str, Mapping[int, OffsetRange]]
    compacted: Mapping[str, frozenset[str]]
    created: Sequence[str]
    snapshots: NewestSnapshot


@dataclass(frozen=True, slots=True)
class Checked:
    """A start that is allowed, and its findings. No process was disturbed.

    ``record`` is the record that was found; None: the pipeline has never started.
    """

    record: Record | None
    digests: Mapping[str, str]
    begin: Begin
    ranges: Mapping[str, Mapping[int, OffsetRange]]
    compacted: Mapping[str, frozenset[str]]
    created: Sequence[str]
    snapshots: NewestSnapshot


def claim(io: PipelineIO, begin: Begin = StartEdge.WATERMARK, *, on_spark: bool = False) -> Claimed:
    """Check everything, refuse an invalid start, take the epoch.

    ``on_spark``: this process runs the pipeline on Spark, and the checkpoint says so.

    Raises:
      StatementError: the start is refused; nothing has changed.
      TransientError, StoppedError: a dependency is down and is not waited for.
    """
    return take_epoch(io, check_start(io, begin), on_spark=on_spark)


def check_start(io: PipelineIO, begin: Begin) -> Checked:
    """Check everything and refuse an invalid start. Takes no epoch: a running process continues.

    Raises:
      As ``claim``.
    """
    context = io.context
    if (idle := nothing_to_run(context.plan)) is not None:
        raise idle
    digests = plan_digests(context.plan)
    record = io.database.call(context.ledger.read)
    adopt_topics(context.sources, record)
    if record is not None and record.has_begun:
        refuse_start(context.name, record, digests, begin)
    else:
        io.check_tables()
        io.database.call(partial(refuse_tables_of_others, context.ledger, context.plan))
    io.check_sinks()
    sources = sorted(context.sources.items())
    ranges = {relation: io.broker.call(source.ranges) for relation, source in sources}
    compacted = {
        relation: topics
        for relation, source in sources
        if (topics := io.broker.call(partial(compacted_topics, source)))
    }
    io.partitions.append_times = _append_times(io)
    snapshots = NewestSnapshot(context.ledger)
    if record is not None and record.has_begun:
        known = known_ids(record.partition_positions)
        for relation, source in sources:
            io.broker.call(partial(check_identity, source, known.get(relation)))
        snapshot = usable(io.database.call(snapshots.look), record)
        _begin_of_replay(record, snapshot, ranges, compacted)
    kept = record is not None and record.has_begun and not context.recreate_tables
    created = io.database.call(
        partial(prepare_tables, context.name, context.database, context.plan, kept=kept)
    )
    if created:
        _log.info("tables_created", pipeline=context.name, tables=list(created))
    return Checked(record, digests, begin, ranges, compacted, created, snapshots)


def take_epoch(
    io: PipelineIO,
    checked: Checked,
    refuse: Callable[[Record], None] = takes_any,
    *,
    once: bool = False,
    on_spark: bool = False,
) -> Claimed:
    """Take the epoch, and record the start positions of a new pipeline.

    Args:
      io: the pipeline.
      checked: what ``check_start`` has found.
      refuse: raises, within the transaction, what prevents the claim.
      once: raise what fails because the database is down; False: wait for it.
      on_spark: see ``claim``.

    Raises:
      As ``claim``; what ``refuse`` raises; with ``once`` UnavailableError.
    """
    context = io.context

    def refuse_found(found: Record) -> None:
        if found.has_begun:
            refuse_start(context.name, found, checked.digests, checked.begin)
        refuse(found)

    def take() -> Record:
        if not once:
            release.wait(context.clock, io.is_stopping)
        digest = dumped(checked.digests, owned_tables(context.plan))
        return context.ledger.claim(digest, holder, refuse_found, context.text)

    release = RecordRelease(context.ledger.leadership(), context.name, context.standby.silence_s)
    context.crash_points.reach("start.before_epoch")
    holder = f"{socket.gethostname()} process {os.getpid()}{ON_SPARK if on_spark else ''}"
    seen = () if checked.record is None else checked.record.partition_positions
    # Again: `rowtide apply`, or another first start, may have committed since.
    record = take() if once else io.database.call(take)
    context.crash_points.reach("start.after_epoch")
    # Another process may have read new topics since, and messages after the ends that this one has seen.
    adopt_topics(context.sources, record)
    has_moved = record.partition_positions != seen
    ranges = {
        **checked.ranges,
        **{
            relation: io.broker.call(source.ranges)
            for relation, source in sorted(context.sources.items())
            if has_moved or isinstance(source, MatchingSource)
        },
    }
    ranges |= io.list_files(record.epoch)
    io.board.claimed(record.epoch)
    context.observer.claimed(context.name, record)
    if not record.has_begun or (context.sources and not record.partition_positions):
        record = _record_start(io, record, checked.begin)
    io.identities = known_ids(record.partition_positions)
    io.board.begins_at(record)
    return Claimed(record, ranges, checked.compacted, checked.created, checked.snapshots)


def recover(io: PipelineIO, claimed: Claimed) -> PipelineState:
    """Bring a new flow to the committed positions.

    Raises:
      StatementError: the log no longer holds what is needed.
      TransientError, StoppedError: a dependency is down and is not waited for.
    """
    context, record = io.context, claimed.record
    io.board.enter("recovering")
    context.crash_points.reach("recovery.before_snapshot")
    snapshot = usable(io.database.call(claimed.snapshots.take), record)
    built = build(io, record, snapshot, claimed.ranges, claimed.compacted)
    context.crash_points.reach("recovery.before_replay")
    began = context.clock.monotonic()
    messages = replay(
        io,
        built.work,
        built.begin,
        record.positions(),
        decisions=io.database.call(partial(logged, context.ledger, record)),
        progress=telling_progress(context.name, context.clock, built.work, record.positions()),
    )
    recovered(io, built.work, began, "recovered", snapshot=snapshot is not None, replayed_messages=messages)
    return built.work


@dataclass(frozen=True, slots=True)
class Built:
    """A flow in the state of a snapshot or in its first state, and the positions from which it is to read on."""

    work: PipelineState
    begin: Mapping[PartitionId, int]


def build(
    io: PipelineIO,
    record: Record,
    snapshot: KeptSnapshot | None,
    ranges: Mapping[str, Mapping[int, OffsetRange]],
    compacted: Mapping[str, frozenset[str]],
) -> Built:
    """Build the flow that a replay brings to the positions of ``record``.

    Raises:
      As ``recover``.
    """
    context = io.context
    resubmissions = io.database.call(context.ledger.resubmissions)
    nodes = table_nodes(context.plan)
    flow = flow_at(nodes, record, snapshot, resubmissions)
    work = PipelineState(flow, context.plan.targets, record.partition_positions)
    work.keep_latest(dict(context.plan.relations) | nodes, context.clock.now_ms())
    io.prepare_outputs(work)
    context.crash_points.reach("recovery.after_snapshot")
    begin = _begin_of_replay(record, snapshot, ranges, compacted)
    if record.commits > START_COMMITS and snapshot is None:
        # Rows of the pipeline's own INSERT statements came out with the first commit of rows.
        work.drain()
        work.drop()
    return Built(work, begin)


def recovered(io: PipelineIO, state: PipelineState, began: float, event: str, **fields: object) -> None:
    """Continue the accounts of the last commit, and report that ``work`` is at the committed positions."""
    context = io.context
    state.continue_accounts(io.database.call(context.ledger.accounts))
    context.crash_points.reach("recovery.after_replay")
    seconds = context.clock.monotonic() - began
    context.observer.recovered(state, seconds)
    _log.info(event, pipeline=context.name, **fields, held_rows=state.held(), seconds=round(seconds, 3))


def _append_times(io: PipelineIO) -> AppendTimes:
    """Return the part that decides on partitions of topics whose brokers stamp the messages."""
    sources = io.context.sources
    return AppendTimes(
        {
            relation: io.broker.call(sources[relation].has_append_times)
            for relation in sorted(by_message_time(io.context.plan) & sources.keys())
            if takes_append_times(io.streams[relation])
        }
    )


def _record_start(io: PipelineIO, record: Record, begin: Begin) -> Record:
    """Commit the start positions of a pipeline without a commit."""
    context = io.context
    sources = sorted(context.sources.items())
    partition_positions = []
    for relation, source in sources:
        offsets = io.broker.call(partial(first_offsets, source, begin))
        ids = io.broker.call(partial(ids_of, source, sorted(offsets)))
        partition_positions += [
            PartitionPosition(
                relation,
                place_of(source.topic, partition)[0],
                partition,
                offset,
                offset,
                None,
                ids[partition],
            )
            for partition, offset in sorted(offsets.items())
        ]
    context.crash_points.reach("start.before_positions")
    io.committer(record, lambda _: None).commit_start(partition_positions)
    context.crash_points.reach("start.after_positions")
    said = f"{begin.timestamp_ms} ms" if isinstance(begin, StartTimestamp) else begin.value
    _log.info("begins", pipeline=context.name, begin=said, partitions=len(partition_positions))
    return Record(
        record.epoch,
        record.holder,
        record.commits + 1,
        record.digest,
        tuple(partition_positions),
        context.clock.now_ms(),
    )


def _begin_of_replay(
    record: Record,
    snapshot: KeptSnapshot | None,
    ranges: Mapping[str, Mapping[int, OffsetRange]],
    compacted: Mapping[str, frozenset[str]],
) -> dict[PartitionId, int]:
    """Return the start of the replay; refuse it if the log no longer holds what is needed.

    Raises:
      StatementError: naming the topic.
    """
    begin = begin_of_replay(record, snapshot)
    check_ranges(record, begin, ranges)
    check_compacted(record, begin, compacted)
    return begin
