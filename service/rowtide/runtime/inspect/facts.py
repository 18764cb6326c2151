"""Facts about a running pipeline, besides its flow, for ``why_not``. The main thread gathers them."""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.checkpoint.ledger import is_resubmission
from rowtide.plan.plan import Plan
from rowtide.runtime.ingest.idle import IdleWatch
from rowtide.runtime.ingest.inbox import Paused
from rowtide.runtime.inspect.why_not import Facts, PartitionFacts, bounds_of_idle
from rowtide.runtime.state.pipeline_state import IntakeAccount, PipelineState
from rowtide.runtime.state.status import DATABASE, StatusBoard, broker_of, database_of
from rowtide_connectors.several import place_of


def gathered(
    state: PipelineState,
    plan: Plan,
    topics: Mapping[str, str],
    board: StatusBoard,
    paused: Paused,
    idle: IdleWatch,
    polled: Mapping[str, int],
) -> Facts:
    """Return the current offsets, pauses, dependencies that are down, and rows that wait for the commit.

    ``polled`` are the intervals of polls in ms, of tables of databases.
    """
    ranges, down = board.ranges(), board.down()
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
    met, alone = bounds_of_idle(state.flow, partitions)
    return Facts(
        partitions,
        streams=frozenset(name for name, _ in plan.relations),
        uncommitted={name: len(output) for name, output in state.outputs.items()},
        tables={name: output.account for name, output in state.outputs.items()},
        database_down=DATABASE in down,
        met=met,
        alone=alone,
    )
