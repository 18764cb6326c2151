"""Recovery: brings a flow to the committed positions, by a snapshot and exactly the offsets after it.

Output during the replay was committed or refused before, and is dropped. The
result is the state of the last commit: t-sort buffers, high-water marks, open
windows, tables (exactly-once, points 4 to 8). Kafka group offsets play no
part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

import structlog

from rowtide.checkpoint.ledger import (
    KeptSnapshot,
    Ledger,
    PartitionId,
    PartitionPosition,
    Record,
    Resubmission,
    is_resubmission,
)
from rowtide.clock import Clock
from rowtide.errors import StatementError
from rowtide.flow.flow import Flow
from rowtide.flow.gates import Gates, Target
from rowtide.flow.program import Program
from rowtide.plan.nodes import Node
from rowtide.runtime.ingest.idle import DecisionLog
from rowtide.runtime.ingest.intake import another_topic
from rowtide.runtime.live.resubmission import end, targets_of
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.recovery.advance import Advance
from rowtide.runtime.state.context import PipelineContext
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.topics import ids_of
from rowtide_connectors.api import OffsetRange
from rowtide_connectors.several import place_of

SAY_PROGRESS_S = 10.0
"""Interval of log lines about the progress of a recovery."""
_TAKE_S = 0.5
_log = structlog.get_logger("rowtide")

AGED_OUT_HINT = (
    "Kafka deletes by the rows' own timestamps: set retention.ms=-1 on a topic with old rows. Restore the "
    "offsets, or drop the pipeline's checkpoint and its tables, then start it again."
)


def begin_of_replay(record: Record, snapshot: KeptSnapshot | None) -> dict[PartitionId, int]:
    """Return the start of the replay: the snapshot, or the first offset of each partition.

    Raises:
      StatementError: the pipeline has no snapshot, and messages from before a plan change cannot be replayed.
    """
    if snapshot is None and record.changed_at is not None:
        raise StatementError(
            f"the plan was changed at commit {record.changed_at}: what came before cannot be replayed, and "
            "no usable snapshot is there",
            hint="Drop the pipeline's checkpoint and its tables, then start it again.",
        )
    reached = {} if snapshot is None else snapshot.positions
    return {each.place: reached.get(each.place, each.start_offset) for each in record.partition_positions}


def flow_at(
    nodes: Mapping[str, Node],
    record: Record,
    snapshot: KeptSnapshot | None,
    resubmissions: Sequence[Resubmission] = (),
) -> Flow:
    """Return a flow of the committed partitions in the state of the snapshot; None: in its first state.

    Partitions that have joined since the snapshot have no bound yet: the replay first obeys the
    decisions by which they joined.
    """
    committed = partitions_of(record.positions())
    targets = {
        place: target for place, target in targets_of(resubmissions).items() if place in record.positions()
    }
    if record.changed_at is not None:
        # Partitions that were read under another plan have no rows on their way, and the relation may be
        # gone.
        program = Program(nodes, committed)
        targets = {place: target for place, target in targets.items() if _is_open(program, place, target)}
    if snapshot is None:
        return Flow(nodes, committed, targets)
    known = partitions_of(snapshot.positions)
    before = {place: target for place, target in targets.items() if place in snapshot.positions}
    flow = Flow(nodes, known, before)
    flow.restore(snapshot.state)
    flow = flow if known == committed else flow.widened(committed, targets)
    for place in snapshot.positions:
        # Snapshots of older versions have this promise only for the readers of that time.
        if is_resubmission(place) and flow.reads(place[0]):
            end(flow, place)
    return flow


def _is_open(program: Program, partition: PartitionId, target: Target) -> bool:
    try:
        Gates(program, {partition: target})
    except StatementError:
        return False
    return True


def partitions_of(places: Iterable[PartitionId]) -> dict[str, list[int]]:
    """Return the partitions of each relation, in order."""
    found: dict[str, list[int]] = {}
    for relation, partition in sorted(places):
        found.setdefault(relation, []).append(partition)
    return found


def positions_of_others(
    context: PipelineContext, known: Container[str], next_offset: Callable[[OffsetRange], int]
) -> list[PartitionPosition]:
    """Return a position for each partition of the streams that are not ``known``, as their topics are now.

    ``next_offset`` is asked for each partition; the first offset of the pipeline is the earliest one.
    """
    return [
        PartitionPosition(
            relation,
            place_of(source.topic, partition)[0],
            partition,
            next_offset(held),
            held.earliest,
            None,
            ids[partition],
        )
        for relation, source in sorted(context.sources.items())
        if relation not in known
        for ranges in [source.ranges()]
        for ids in [ids_of(source, ranges)]
        for partition, held in sorted(ranges.items())
    ]


def usable(snapshot: KeptSnapshot | None, record: Record) -> KeptSnapshot | None:
    """Return the snapshot if its partitions are committed and it is not ahead of their positions."""
    if snapshot is None:
        return None
    committed = record.positions()
    # Partitions may have joined since. They are read from their first offsets.
    if not snapshot.positions.keys() <= committed.keys():
        return None
    if any(offset > committed[place] for place, offset in snapshot.positions.items()):
        return None
    return snapshot


def check_ranges(
    record: Record, begin: Mapping[PartitionId, int], ranges: Mapping[str, Mapping[int, OffsetRange]]
) -> None:
    """Check that the log still holds what is needed, and belongs to the positions.

    Raises:
      StatementError: offsets have aged out, a partition is gone, or the topic is another one.
    """
    for relation, partitions in ranges.items():
        own = [each for each in record.partition_positions if each.relation == relation]
        partition_positions = [each for each in own if not is_resubmission(each.place)]
        for topic in sorted({each.topic for each in partition_positions}):
            positions = {
                each.partition: each.next_offset for each in partition_positions if each.topic == topic
            }
            wrong = another_topic(topic, positions, partitions)
            if wrong is not None:
                raise wrong
        for position in partition_positions:
            first, held = begin[position.place], partitions[position.partition]
            topic, number = place_of(position.topic, position.partition)
            if held.earliest > first and (
                first < position.next_offset or held.earliest > position.next_offset
            ):
                raise StatementError(
                    f'topic "{topic}" partition {number} no longer holds offsets '
                    f"{first} to {held.earliest - 1}: the first one is {held.earliest}",
                    hint=AGED_OUT_HINT,
                )


def check_compacted(
    record: Record, begin: Mapping[PartitionId, int], compacted: Mapping[str, Collection[str]]
) -> None:
    """Check that no compacted topic must be read again, because messages may be missing.

    ``compacted`` are the topics by foreign stream.

    Raises:
      StatementError: the state at the committed positions is missing.
    """
    for position in record.partition_positions:
        is_compacted = position.topic in compacted.get(position.relation, ())
        if is_compacted and begin[position.place] != position.next_offset:
            raise StatementError(
                f'topic "{position.topic}" is compacted and cannot be read again from offset '
                f"{begin[position.place]}: the state at the committed positions is not stored",
                hint="The topic was compacted later, or the snapshots were dropped. Drop the pipeline's "
                "checkpoint and its tables, then start it again.",
            )


def logged(ledger: Ledger, record: Record) -> DecisionLog:
    """Return everything that a replay up to ``record`` obeys: decisions, and the changes of statements."""
    return DecisionLog(ledger.decisions(), ledger.statements().applied(0, record.commits))


def replay(
    io: PipelineIO,
    state: PipelineState,
    begin: Mapping[PartitionId, int],
    targets: Mapping[PartitionId, int],
    *,
    decisions: DecisionLog,
    emit: Callable[[], None] | None = None,
    progress: Callable[[int], None] = lambda _messages: None,
) -> int:
    """Read from ``begin`` up to exactly ``targets`` into ``work``; return the number of messages.

    ``emit`` is called after each turn, when the output is in ``work``; by default the output is
    dropped. ``progress`` is called with the number of messages read. Returns early when asked to
    stop.

    Raises:
      UnavailableError and others, as ``Inbox.take``.
    """
    loop = Advance(io, state, begin, targets, decisions, emit=emit)
    try:
        while loop.left and not io.is_stopping():
            loop.turn()
            progress(loop.messages)
            io.context.crash_points.reach("recovery.within_replay")
    finally:
        loop.close()
    return loop.messages


def telling_progress(
    pipeline: str, clock: Clock, state: PipelineState, targets: Mapping[PartitionId, int]
) -> Callable[[int], None]:
    """Return a function that logs progress at intervals: a long recovery must not look like a hang."""
    said = clock.monotonic()

    def tell(messages: int) -> None:
        nonlocal said
        if clock.monotonic() - said >= SAY_PROGRESS_S:
            said = clock.monotonic()
            left = sum(targets[place] - offset for place, offset in state.positions.items())
            _log.info(
                "recovering",
                pipeline=pipeline,
                replayed_messages=messages,
                offsets_left=left,
                held_rows=state.held(),
            )

    return tell
