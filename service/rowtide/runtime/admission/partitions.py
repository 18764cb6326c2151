"""Admission to a running pipeline: new partitions of topics, and resubmitted error rows."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import structlog

from rowtide.checkpoint.ledger import PartitionId
from rowtide.flow.gates import Target
from rowtide.runtime.ingest.channels import channel
from rowtide.runtime.ingest.inbox import Inbox
from rowtide.runtime.ingest.intake import LOOK_UP_S
from rowtide.runtime.live.resubmission import insert_resubmitted
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.topics import ids_of, known_ids
from rowtide_connectors.api import MatchingSource
from rowtide_connectors.several import place_of

_log = structlog.get_logger("rowtide")


class Admission:
    """Lets partitions join ``work``. Called by its thread."""

    def __init__(self, io: PipelineIO, state: PipelineState) -> None:
        self._io = io
        self._work = state
        self._ask_again = 0.0

    def begin(self, *, until_end: bool) -> None:
        """Admit new partitions before the readers are opened.

        A run ``until_end`` may end before the next call, so it admits all resubmitted rows at once.
        """
        self.join()
        self._resubmit(at_once=until_end)

    def admit(self, inbox: Inbox) -> None:
        """Admit new partitions, and read them, too."""
        for relation, partition in self.join():
            into = self._io.channel(relation, self._work.flow)
            known = self._io.identities.get(relation)
            inbox.join(into, {partition: self._work.positions[relation, partition]}, known)
        if self._io.context.clock.monotonic() >= self._ask_again:
            self._resubmit()

    def join(self) -> list[PartitionId]:
        """Let the new partitions of known topics, and those of new topics, join; return them."""
        newcomers = self._io.partitions.newcomers.take(self._work.positions)
        ids = self._ids(newcomers)
        for (relation, partition), offset in newcomers.items():
            topic, own = place_of(self._io.context.sources[relation].topic, partition)
            bound_ms = self._work.join(
                (relation, partition), topic, offset, topic_id=ids.get((relation, partition))
            )
            self._io.partitions.idle.note_arrival((relation, partition))
            _log.info(
                "partition_joins",
                relation=relation,
                topic=topic,
                partition=own,
                offset=offset,
                bound_ms=bound_ms,
            )
        if newcomers:
            self._io.identities = known_ids(self._work.partition_positions())
        return list(newcomers)

    def _ids(self, newcomers: Collection[PartitionId]) -> dict[PartitionId, str | None]:
        """Return the ids of the topics of new partitions, if they are not those of the stream's list.

        Raises:
          GoneError: a topic was deleted as soon as it was found.
        """
        found: dict[PartitionId, str | None] = {}
        for relation, source in sorted(self._io.context.sources.items()):
            own = [partition for name, partition in newcomers if name == relation]
            if own and isinstance(source, MatchingSource):
                ids = self._io.broker.call(partial(ids_of, source, own))
                found |= {(relation, partition): topic_id for partition, topic_id in ids.items()}
        return found

    def _resubmit(self, *, at_once: bool = False) -> None:
        """Admit the error rows that were resubmitted since the last call.

        Unless ``at_once``, those that a commit has no room for follow after it.
        """
        context, work = self._io.context, self._work
        self._ask_again = context.clock.monotonic() + LOOK_UP_S
        for each in self._io.database.call(context.ledger.resubmissions):
            if each.place in work.positions:
                continue
            if not at_once and work.raw_bytes >= context.pace.commit_max_bytes:
                self._ask_again = 0.0
                return
            source = context.sources[each.stream]
            bound_ms = work.join(each.place, source.topic, 0, Target(each.relation, each.entered))
            rows = self._io.resubmitted(each.place)
            insert_resubmitted(
                work, channel(self._io.streams[each.stream], source, work.flow), each.place, rows
            )
            _log.info(
                "errors_resubmitted",
                number=each.number,
                stream=each.stream,
                relation=each.relation,
                rows=len(rows),
                bound_ms=bound_ms,
            )
