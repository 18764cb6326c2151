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

from rowtide.checkpoint.ledger import ErrorRow, PartitionId, Resubmission, StoredError, is_resubmission
from rowtide.codec.contract import DecodeFault, Decoder
from rowtide.codec.format_options import REGISTRY_URL
from rowtide.codec.registry import decoder_of
from rowtide.errors import FaultError, Reason, StatementError
from rowtide.flow.flow import Flow
from rowtide.flow.gates import Gates, Target
from rowtide.flow.program import Program
from rowtide.operators.contract import RESUBMITTED
from rowtide.plan.outputs import table_nodes
from rowtide.plan.plan import ForeignStream, Plan
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


class Resubmittable:
    """Returns why error rows cannot be resubmitted to a plan's relations."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._streams = {stream.name: stream for stream in plan.foreign_streams}
        self._decoders: dict[str, Decoder] = {}
        self._refusals: dict[tuple[str, str, bool], str | None] = {}

    def refusal(self, stored: StoredError) -> str | None:
        """Return why a row cannot be resubmitted; None: it can."""
        row = stored.row
        if stored.resubmitted is not None:
            return "it was resubmitted before"
        if row.topic is None:
            return "it was made by an operator, so no message can be read again"
        if row.raw is None:
            return "its message has no bytes, or its bytes are unknown"
        if row.stream is None or row.stream not in self._streams:
            return "it was stored before rows knew their stream, or the stream is gone"
        if row.message_time is None and row.rowtime is None:
            return "the time of its message is not known"
        if (fault := self._decode_fault(self._streams[row.stream], row)) is not None:
            return f"its message does not change, and cannot be decoded: {fault.message}"
        key = (row.stream, row.relation, row.row is not None)
        if key not in self._refusals:
            self._refusals[key] = self._refusal(*key)
        return self._refusals[key]

    def _decode_fault(self, stream: ForeignStream, row: ErrorRow) -> DecodeFault | None:
        """Return why the message of an undecoded row is rejected again; None: it may be accepted.

        A schema of a registry may have changed since, and changes of a table have keys, too: these are read again.
        """
        undecoded = row.row is None and row.reason.partition(":")[0] == Reason.DECODE.value
        if not undecoded or stream.key or REGISTRY_URL in dict(stream.options):
            return None
        if stream.name not in self._decoders:
            self._decoders[stream.name] = decoder_of(stream)
        return next(iter(self._decoders[stream.name].decode([row.raw]).faults), None)

    def _refusal(self, stream: str, relation: str, entered: bool) -> str | None:
        place = (stream, RESUBMITTED)
        program = Program(table_nodes(self._plan), {stream: (0, RESUBMITTED)})
        if place not in program.entrances:
            return f'no pump reads "{stream}"'
        try:
            Gates(program, {place: Target(relation, entered)})
        except StatementError as error:
            return error.message
        return None
