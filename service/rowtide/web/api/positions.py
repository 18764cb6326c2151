"""``/positions`` and ``/decisions``: how far each partition is read, what gave its bound, what was decided there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request

from rowtide.checkpoint.ledger import RESET, StoredDecision, is_resubmission
from rowtide.operators.contract import RESUBMITTED
from rowtide.runtime.ingest.bound_origins import BoundOrigin
from rowtide.web.access import Page
from rowtide.web.api.answers import At, at_of, rfc3339
from rowtide.web.declared import AFTER, OF_PIPELINE, PAGE_ROWS, PIPELINE, ApiPath
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import number
from rowtide.web.status import PositionStatus, Status
from rowtide.web.tokens import Right
from rowtide_connectors.several import place_of


@dataclass(frozen=True, slots=True)
class PositionAnswer:
    """The position of a partition.

    ``lag`` is the upper limit of unread messages; it and ``end_offset`` are null while the end is not known.
    ``bound_from`` is what has given the bound: a row, a bound record, the idle_timeout, or another decision, which
    /decisions has. It is null without a bound, and before this process runs the pipeline.
    """

    relation: str
    topic: str
    partition: int
    next_offset: int
    start_offset: int
    end_offset: int | None
    lag: int | None
    bound: str | None
    bound_from: BoundOrigin | None


@dataclass(frozen=True, slots=True)
class PositionsAnswer:
    """The committed positions, by relation, topic and partition."""

    positions: list[PositionAnswer]
    at: At


@dataclass(frozen=True, slots=True)
class DecisionAnswer:
    """A decision of the clock, the broker or a person, which every recovery and replay obeys.

    It took effect before the message at ``offset``, and raised the rowtime bound to ``bound`` if that is not null.
    ``reader`` is the one operator that it is for, null if it is for all that read the partition. ``kind`` is one of

    * IDLE: the partition was silent for its idle_timeout;
    * APPEND_TIME: the clock of the broker has advanced;
    * JOIN: the partition is new, or has resubmitted rows, which ``resubmission`` then numbers;
    * SKIP: the message is not decoded;
    * CUT: a backfill ended here; ``bound`` is the time by which its end was chosen;
    * RESET: history is over, and the time of the model ``relation`` jumped from ``jumped_from`` to ``bound``.
    """

    number: int
    kind: str
    relation: str
    topic: str | None
    partition: int | None
    resubmission: int | None
    offset: int | None
    jumped_from: str | None
    bound: str | None
    reader: str | None
    epoch: int
    committed_at: str | None


@dataclass(frozen=True, slots=True)
class DecisionsAnswer:
    """Decisions by number, the newest first. ``next`` is ``after`` of those that follow, null at the end."""

    decisions: list[DecisionAnswer]
    next: str | None


LIST = ApiPath(
    f"{OF_PIPELINE}/positions",
    Right.READ,
    "Return the committed positions, with the ends and the rowtime bounds of the partitions, and what has given them.",
    (PIPELINE,),
    answer=PositionsAnswer,
)
DECISIONS = ApiPath(
    f"{OF_PIPELINE}/decisions",
    Right.READ,
    "List the logged decisions, the newest first. A decision of one kind at one offset replaces the one before.",
    (PIPELINE, PAGE_ROWS, AFTER),
    answer=DecisionsAnswer,
)
PATHS = (LIST, DECISIONS)


def pages(handlers: Handlers, status: Status) -> list[Page]:
    """Return the pages. They never wait for the main loop; that of decisions waits for the database."""

    async def listed(_request: Request) -> PositionsAnswer:
        now = status.status()
        return PositionsAnswer([_answer(each) for each in now.positions], at_of(now))

    found = [Page(LIST, listed)]
    if (decisions := handlers.decisions) is not None:

        def decided(request: Request) -> DecisionsAnswer:
            limit = number(request, PAGE_ROWS)
            # One more shows whether others follow.
            stored = decisions(limit + 1, number(request, AFTER) or None)
            topics = {each.relation: each.topic for each in status.status().positions}
            rows = [_decision(each, topics) for each in stored[:limit]]
            return DecisionsAnswer(rows, str(rows[-1].number) if rows and len(stored) > limit else None)

        found.append(Page(DECISIONS, decided))
    return found


def _answer(position: PositionStatus) -> PositionAnswer:
    end = position.end_offset
    return PositionAnswer(
        position.relation,
        *place_of(position.topic, position.partition),
        position.next_offset,
        position.start_offset,
        end,
        None if end is None else max(0, end - position.next_offset),
        rfc3339(position.bound),
        position.bound_from,
    )


def _decision(stored: StoredDecision, topics: Mapping[str, str]) -> DecisionAnswer:
    """Return a decision; ``topics`` are those of the foreign streams."""
    each = stored.decision
    is_jump = each.kind == RESET
    again = is_resubmission((each.relation, each.partition))
    topic: str | None = None
    partition: int | None = None if is_jump or again else each.partition
    if partition is not None and each.relation in topics:
        topic, partition = place_of(topics[each.relation], partition)
    return DecisionAnswer(
        stored.number,
        each.kind,
        each.relation,
        topic,
        partition,
        each.partition - RESUBMITTED if again else None,
        None if is_jump else each.next_offset,
        rfc3339(each.next_offset) if is_jump else None,
        rfc3339(each.bound),
        each.reader,
        stored.epoch,
        rfc3339(stored.committed_at_ms),
    )
