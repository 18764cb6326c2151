"""Bringing a flow to the committed positions: a snapshot, then exactly the offsets behind it.

What comes out while the log is replayed was committed before, or was refused
before, and is dropped. What is left is the state in which the last commit was
made: t-sort buffers, high-water marks, open windows, tables (exactly-once,
points 4 to 8). Kafka group offsets play no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import structlog

from rowtide.checkpoint.ledger import KeptSnapshot, Place, Record
from rowtide.errors import StatementError
from rowtide.runtime.crashpoints import CrashPoints
from rowtide.runtime.idle import DecisionLog
from rowtide.runtime.inbox import Inbox
from rowtide.runtime.intake import Channel, Delivery, cut, new_partitions_error
from rowtide.runtime.work import Work
from rowtide_connectors.api import OffsetRange

_TAKE_S = 0.5
_log = structlog.get_logger("rowtide")

AGED_OUT_HINT = (
    "Kafka deletes by the rows' own timestamps: a topic of old rows needs retention.ms=-1. Restore the "
    "offsets, or drop the pipeline's checkpoint and its tables and start it anew."
)


def begin_of_replay(record: Record, snapshot: KeptSnapshot | None) -> dict[Place, int]:
    """Give where the replay begins: the snapshot's positions, or where the pipeline began."""
    if snapshot is not None:
        return dict(snapshot.positions)
    return {standing.place: standing.start_offset for standing in record.standings}


def usable(snapshot: KeptSnapshot | None, record: Record) -> KeptSnapshot | None:
    """Give the snapshot if it is one of these partitions and not ahead of the committed positions."""
    if snapshot is None:
        return None
    committed = record.positions()
    if snapshot.positions.keys() != committed.keys():
        return None
    if any(offset > committed[place] for place, offset in snapshot.positions.items()):
        return None
    return snapshot


def check_ranges(
    record: Record, begin: Mapping[Place, int], ranges: Mapping[str, Mapping[int, OffsetRange]]
) -> None:
    """Check that the log still holds what is needed, and is the log that the positions are of.

    Raises:
      StatementError: offsets have aged out, a partition is new or gone, or the topic is another one.
    """
    committed = {standing.place: standing for standing in record.standings}
    for relation, partitions in ranges.items():
        known = {partition for name, partition in committed if name == relation}
        topic = next(held.topic for held in committed.values() if held.relation == relation)
        if new := sorted(set(partitions) - known):
            raise new_partitions_error(topic, new, len(known))
        for partition, held in sorted(partitions.items()):
            standing = committed[relation, partition]
            first = begin[relation, partition]
            if held.end < standing.next_offset:
                raise StatementError(
                    f'topic "{topic}" partition {partition} ends at offset {held.end}, but '
                    f"{standing.next_offset} is committed: it is not the topic that the pipeline has read",
                    hint="Was it deleted and created again? Drop the pipeline's checkpoint and its tables "
                    "and start it anew.",
                )
            if held.earliest > first and (
                first < standing.next_offset or held.earliest > standing.next_offset
            ):
                raise StatementError(
                    f'topic "{topic}" partition {partition} no longer holds offsets {first} to '
                    f"{held.earliest - 1}: it begins at {held.earliest}",
                    hint=AGED_OUT_HINT,
                )
        if gone := sorted(known - set(partitions)):
            raise StatementError(
                f'topic "{topic}" no longer has partitions {_listed(gone)}',
                hint="It is not the topic that the pipeline has read.",
            )


def replay(
    work: Work,
    begin: Mapping[Place, int],
    targets: Mapping[Place, int],
    *,
    decisions: DecisionLog,
    channels: Mapping[str, Channel],
    open_inbox: Callable[[Mapping[Place, int]], Inbox],
    crash_points: CrashPoints,
    stopping: Callable[[], bool],
    emit: Callable[[], None] | None = None,
    progress: Callable[[int], None] = lambda _messages: None,
) -> int:
    """Read from ``begin`` up to exactly ``targets`` into ``work``; give the number of messages.

    ``emit`` is called after each turn, when what came out is in ``work``; by default it is dropped.
    ``progress`` is told how many messages have been read. Returns early when told to stop.

    Raises:
      UnavailableError and others, as ``Inbox.take``.
    """
    work.place_at(begin)
    obeyed = [_obey(work, decisions, place, offset) for place, offset in begin.items()]
    left = {place: targets[place] for place, offset in begin.items() if offset < targets[place]}
    if not left and not any(obeyed):
        return 0
    messages = 0
    opened = {place: begin[place] for place in left}
    inbox = open_inbox(opened)
    try:
        while True:
            # At the end once more: a decision may be all that followed the last message.
            work.drain()
            if emit is None:
                work.drop()
            else:
                emit()
            if not left or stopping():
                break
            for delivery in inbox.take(_TAKE_S):
                place = (delivery.relation, delivery.partition)
                if place not in left:
                    continue
                channel = channels[delivery.relation]
                for part, reached in _pieces(
                    delivery, channel, work.positions[place], left[place], decisions
                ):
                    if part is not None:
                        work.enter(part)
                        messages += len(part)
                    _obey(work, decisions, place, reached)
                if delivery.next_offset >= left[place]:
                    del left[place]
                    _pause_reached(inbox, opened, left)
            progress(messages)
            crash_points.reach("recovery.within_replay")
    finally:
        inbox.close()
    work.place_at(targets)
    return messages


def _pieces(
    delivery: Delivery, channel: Channel, position: int, target: int, decisions: DecisionLog
) -> Iterator[tuple[Delivery | None, int]]:
    """Cut a delivery at its target and wherever a decision took effect; with the offset reached by each."""
    place = (delivery.relation, delivery.partition)
    rest: Delivery | None = delivery
    while rest is not None and position < target:
        decided = decisions.next_after(place, position)
        stop = target if decided is None else min(decided, target)
        head, rest = cut(rest, channel, stop)
        position = stop if rest is not None else delivery.next_offset
        yield head, position


def _obey(work: Work, decisions: DecisionLog, place: Place, offset: int) -> bool:
    """Let what was decided at an offset take effect; tell whether there was anything."""
    found = decisions.at(place, offset)
    for decision in found:
        work.obey(decision)
    return bool(found)


def _pause_reached(inbox: Inbox, opened: Mapping[Place, int], left: Mapping[Place, int]) -> None:
    reached: dict[str, set[int]] = {}
    for relation, partition in opened:
        if (relation, partition) not in left:
            reached.setdefault(relation, set()).add(partition)
    inbox.pause({relation: frozenset(partitions) for relation, partitions in reached.items()})


def _listed(partitions: list[int]) -> str:
    return ", ".join(map(str, partitions))
