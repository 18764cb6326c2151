"""Recovery: brings a flow to the committed positions, by a snapshot and exactly the offsets after it.

Output during the replay was committed or refused before, and is dropped. The
result is the state of the last commit: t-sort buffers, high-water marks, open
windows, tables (exactly-once, points 4 to 8). Kafka group offsets play no
part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

import structlog

from rowtide.checkpoint.ledger import (
    KeptSnapshot,
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
from rowtide.runtime.context import PipelineContext
from rowtide.runtime.ingest.backpressure import Backpressure
from rowtide.runtime.ingest.idle import DecisionLog
from rowtide.runtime.ingest.inbox import Inbox, Pausable, Paused
from rowtide.runtime.ingest.intake import Channel, Delivery, another_topic, cut
from rowtide.runtime.ingest.resubmission import let_in, targets_of
from rowtide.runtime.ingest.topics import ids_of
from rowtide.runtime.live.read_loop import ReadLoop
from rowtide.runtime.live.work import PipelineState
from rowtide.runtime.pipeline_io import PipelineIO
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
    return flow if known == committed else flow.widened(committed, targets)


def _is_open(program: Program, place: PartitionId, target: Target) -> bool:
    try:
        Gates(program, {place: target})
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


def replay(
    io: PipelineIO,
    work: PipelineState,
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
    channels = io.channels(work.flow)
    work.place_at(begin)
    for model, before, after in decisions.jumps:
        work.flow.jump(model, before, after)
    obeyed = [_obey(work, decisions, place, offset) for place, offset in begin.items()]
    left = {place: targets[place] for place, offset in begin.items() if offset < targets[place]}
    if not left and not any(obeyed):
        return 0
    messages = 0
    for place in [place for place in left if is_resubmission(place)]:
        let_in(work, channels[place[0]], place, io.resubmitted(place))
        messages += left.pop(place)
    inbox = io.open_inbox({place: begin[place] for place in left}, channels)
    loop = _Replay(work, inbox, io.backpressure(), _Goal(targets, left), decisions, channels, emit)
    try:
        loop.drain()
        while left and not io.is_stopping():
            loop.turn()
            progress(messages + loop.messages)
            io.context.crash_points.reach("recovery.within_replay")
    finally:
        inbox.close()
    work.place_at(targets)
    return messages + loop.messages


class _Goal:
    """The partitions that are ``left`` to read up to their targets, and those that are there."""

    def __init__(self, targets: Mapping[PartitionId, int], left: dict[PartitionId, int]) -> None:
        self.left = left
        self.reached = set(targets.keys() - left.keys())

    def reach(self, place: PartitionId) -> None:
        """Note that a partition is at its target."""
        del self.left[place]
        self.reached.add(place)


class _Replay(ReadLoop):
    """Reads up to the targets that are left, and obeys the log of decisions on the way."""

    def __init__(
        self,
        work: PipelineState,
        inbox: Inbox,
        backpressure: Backpressure,
        goal: _Goal,
        decisions: DecisionLog,
        channels: Mapping[str, Channel],
        emit: Callable[[], None] | None,
    ) -> None:
        super().__init__(work, inbox, backpressure)
        self.messages = 0
        self._goal = goal
        self._log = decisions
        self._channels = channels
        self._emit = work.drop if emit is None else emit
        self._reading = _Reading(inbox)

    def patience_s(self) -> float:
        """Return a longer wait than a running pipeline does, because nothing else is due."""
        return _TAKE_S

    def enter(self, delivery: Delivery) -> None:
        """Let the part before the target enter, cut at each decision."""
        place = (delivery.relation, delivery.partition)
        if place not in self._goal.left:
            return
        target = self._goal.left[place]
        pieces = _pieces(
            delivery, self._channels[delivery.relation], self.work.positions[place], target, self._log
        )
        for part, reached in pieces:
            if part is not None:
                super().enter(part)
                self.messages += len(part)
            _obey(self.work, self._log, place, reached)
        if delivery.next_offset >= target:
            self._goal.reach(place)
            self._reading.stop(place)

    def drain(self) -> None:
        """Process what has entered, and emit or drop the output."""
        super().drain()
        self._emit()

    def pausable(self) -> Pausable:
        """Return the part that also keeps partitions at their targets paused."""
        return self._reading

    def reached(self) -> Collection[PartitionId]:
        """Return the partitions that are at their targets."""
        return self._goal.reached


def telling_progress(
    pipeline: str, clock: Clock, work: PipelineState, targets: Mapping[PartitionId, int]
) -> Callable[[int], None]:
    """Return a function that logs progress at intervals: a long recovery must not look like a hang."""
    said = clock.monotonic()

    def tell(messages: int) -> None:
        nonlocal said
        if clock.monotonic() - said >= SAY_PROGRESS_S:
            said = clock.monotonic()
            left = sum(targets[place] - offset for place, offset in work.positions.items())
            _log.info(
                "recovering",
                pipeline=pipeline,
                replayed_messages=messages,
                offsets_left=left,
                held_rows=work.held(),
            )

    return tell


def _pieces(
    delivery: Delivery, channel: Channel, position: int, target: int, decisions: DecisionLog
) -> Iterator[tuple[Delivery | None, int]]:
    """Cut a delivery at its target and at each decision; return each part with the offset after it."""
    place = (delivery.relation, delivery.partition)
    rest: Delivery | None = delivery
    while rest is not None and position < target:
        decided = decisions.next_after(place, position)
        stop = target if decided is None else min(decided, target)
        head, rest = cut(rest, channel, stop)
        position = stop if rest is not None else delivery.next_offset
        yield head, position


def _obey(work: PipelineState, decisions: DecisionLog, place: PartitionId, offset: int) -> bool:
    """Apply the decisions at an offset; return whether there were any."""
    found = decisions.at(place, offset)
    for decision in found:
        work.obey(decision)
    return bool(found)


class _Reading:
    """Pauses partitions that have reached their targets, and those that backpressure pauses."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._reached: dict[str, frozenset[int]] = {}
        self._waiting: Paused = {}

    def stop(self, place: PartitionId) -> None:
        relation, partition = place
        self._reached[relation] = self._reached.get(relation, frozenset()) | {partition}
        self.pause(self._waiting)

    def pause(self, partitions: Paused) -> None:
        self._waiting = partitions
        none: frozenset[int] = frozenset()
        self._inbox.pause(
            {
                relation: self._reached.get(relation, none) | partitions.get(relation, none)
                for relation in self._reached.keys() | partitions.keys()
            }
        )
