"""Facts about a running pipeline, besides its flow, for ``why_not``. The main thread gathers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rowtide.checkpoint.ledger import PartitionId, is_resubmission
from rowtide.flow.flow import Flow
from rowtide.operators.contract import Account
from rowtide.plan.plan import Plan
from rowtide.runtime.ingest.inbox import Paused
from rowtide.runtime.live.partition_watch import PartitionWatch
from rowtide.runtime.state.pipeline_state import IntakeAccount, PipelineState
from rowtide.runtime.state.status import DATABASE, StatusBoard, broker_of, database_of
from rowtide_connectors.several import place_of


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The known facts of a partition besides its bound. ``topic`` is empty if it has none.

    ``end`` is the last known end of what can be read, ``uncommitted`` the number of offsets after it that open
    transactions keep back; ``silent_ms`` how long it has been silent, known if an idle time-out
    is declared, ``heard_ms`` the time since its last message, if one has come. ``messages`` and ``rejected``
    count the messages of its stream that were read.
    """

    topic: str
    position: int
    end: int | None = None
    paused: bool = False
    down: bool = False
    idle_timeout_ms: int | None = None
    silent_ms: int | None = None
    heard_ms: int | None = None
    messages: int = 0
    rejected: int = 0
    uncommitted: int = 0
    polled_ms: int | None = None
    """The interval of its polls, if it is a table of a database."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that the flow does not know: about topic partitions, and names of the pipeline.

    ``streams`` are the relations that pumps or INSERT statements fill. A source that is neither there nor
    among the partitions is a stopped pump. ``uncommitted`` counts rows of foreign tables that wait for the
    commit, ``refused`` those that the tables did not take. ``met`` has the bounds that partitions of an idle
    stream take from the other streams that it meets; ``alone`` those that they would take if no other stream
    were idle. ``now_ms`` is the time of the clock, if it is known; ``still_ms`` the time since the bound of
    a step moved, and ``watched_ms`` that since such moves would have been seen; ``lost_ms`` the time since a row was
    late or rejected at a step, ``rejected_ms`` that since a message of a stream was rejected.
    """

    partitions: Mapping[PartitionId, PartitionFacts]
    streams: frozenset[str] = frozenset()
    uncommitted: Mapping[str, int] | None = None
    tables: Mapping[str, Account] | None = None
    database_down: bool = False
    met: Mapping[PartitionId, int] = field(default_factory=dict)
    alone: Mapping[PartitionId, int] = field(default_factory=dict)
    now_ms: int | None = None
    still_ms: Mapping[int, int] = field(default_factory=dict)
    watched_ms: int | None = None
    lost_ms: Mapping[int, int] = field(default_factory=dict)
    rejected_ms: Mapping[str, int] = field(default_factory=dict)


def gathered(
    state: PipelineState,
    plan: Plan,
    topics: Mapping[str, str],
    board: StatusBoard,
    paused: Paused,
    watch: PartitionWatch,
    polled: Mapping[str, int],
) -> Facts:
    """Return the current offsets, pauses, dependencies that are down, and rows that wait for the commit.

    ``polled`` are the intervals of polls in ms, of tables of databases.
    """
    ranges, down, idle = board.ranges(), board.down(), watch.idle
    partitions = {}
    for place, position in state.positions.items():
        relation, partition = place
        if is_resubmission(place):
            continue
        account, held = state.accounts.get(relation, IntakeAccount()), ranges.get(place)
        partitions[place] = PartitionFacts(
            topic=place_of(topics[relation], partition)[0],
            position=position,
            end=None if held is None else held.end,
            uncommitted=0 if held is None else held.uncommitted,
            paused=partition in paused.get(relation, ()),
            down=bool({broker_of(relation), database_of(relation)} & down),
            polled_ms=polled.get(relation),
            idle_timeout_ms=idle.timeout_ms(relation),
            silent_ms=idle.silent_ms(place),
            heard_ms=idle.heard_ms(place),
            messages=account.messages,
            rejected=account.rejected,
        )
    watch.bounds.look(state)
    met, alone = bounds_of_idle(state.flow, partitions)
    return Facts(
        partitions,
        streams=frozenset(name for name, _ in plan.relations),
        uncommitted={name: len(output) for name, output in state.outputs.items()},
        tables={name: output.account for name, output in state.outputs.items()},
        database_down=DATABASE in down,
        met=met,
        alone=alone,
        still_ms=watch.bounds.still_ms(),
        watched_ms=watch.bounds.watched_ms(),
        lost_ms=watch.bounds.lost_ms(),
        rejected_ms=watch.bounds.rejected_ms(),
    )


def bounds_of_idle(
    flow: Flow, partitions: Mapping[PartitionId, PartitionFacts]
) -> tuple[dict[PartitionId, int], dict[PartitionId, int]]:
    """Return ``Facts.met`` and ``Facts.alone``. Everything must have been drained."""
    idle, meetings = idle_streams(partitions), flow.meetings()
    met: dict[PartitionId, int] = {}
    alone: dict[PartitionId, int] = {}
    for relation in sorted({name for name, _ in partitions if flow.reads(name)}):
        for found, others in ((met, idle), (alone, set[str]())):
            found.update(meetings.taken(others | {relation}, {relation}))
    return met, alone


def idle_streams(partitions: Mapping[PartitionId, PartitionFacts]) -> set[str]:
    """Return the streams all of whose partitions have been silent for their idle_timeout."""
    awake = {
        relation
        for (relation, _), each in partitions.items()
        if each.idle_timeout_ms is None or each.silent_ms is None or each.silent_ms < each.idle_timeout_ms
    }
    return {relation for relation, _ in partitions} - awake
