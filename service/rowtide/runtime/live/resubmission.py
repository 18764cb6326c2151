"""Resubmitted error rows: each resubmission is read like a partition that joins its stream.

It joins at the stream's bound (``PipelineState.join``), delivers all its messages at
once, and then promises that none follows: to all that read its stream, now or later,
so that no reader waits for it. Rows below the bound take the least accepted
rowtime, so none is late again; their columns do not change. They go only to the
relation that had refused them (``flow.gates``). Positions, decisions and output are
committed like those of any partition: each row enters once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rowtide.checkpoint.ledger import PartitionId, Resubmission, StoredError, is_resubmission
from rowtide.errors import FaultError
from rowtide.flow.flow import Flow
from rowtide.flow.gates import Target
from rowtide.rowtime.bound import LATEST, Bound
from rowtide.runtime.ingest.intake import Channel
from rowtide.runtime.state.deadletters import headers_of_json
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide_connectors.api import Messages


def targets_of(resubmissions: Iterable[Resubmission]) -> dict[PartitionId, Target]:
    """Return the targets of the rows of each resubmission."""
    return {each.place: Target(each.relation, each.entered) for each in resubmissions}


def insert_resubmitted(
    state: PipelineState, channel: Channel, partition: PartitionId, rows: Sequence[StoredError]
) -> None:
    """Pass all rows of a resubmission that has joined to the flow. It ends with them."""
    state.enter(channel.deliver(messages_of(channel.source.topic, partition[1], rows)))
    end(state.flow, partition)
    state.drain()


def end(flow: Flow, partition: PartitionId) -> None:
    """Promise that no more rows of a resubmission follow. The next ``drain`` passes it on.

    The promise is one of the partition, so each reader that joins later has it, too.
    """
    flow.bound(*partition, Bound(LATEST))


def messages_of(topic: str, partition: int, rows: Sequence[StoredError]) -> Messages:
    """Return the messages of error rows."""
    times = []
    for stored in rows:
        row = stored.row
        time = row.message_time if row.message_time is not None else row.rowtime
        if time is None or row.raw is None:
            raise FaultError(f"error row {stored.error_id} no longer has its message")
        times.append(time)
    return Messages(
        topic=topic,
        partition=partition,
        offsets=np.arange(len(rows), dtype=np.int64),
        timestamps=np.array(times, dtype=np.int64),
        keys=[stored.row.key for stored in rows],
        values=[stored.row.raw for stored in rows],
        next_offset=len(rows),
        headers=[headers_of_json(stored.row.headers) for stored in rows],
        came_from=[
            (stored.row.topic or topic, stored.row.partition or 0, stored.row.offset or 0) for stored in rows
        ],
    )


def topic_places(places: Iterable[PartitionId]) -> list[PartitionId]:
    """Return the places that are partitions of topics."""
    return [place for place in places if not is_resubmission(place)]
