"""``/positions``: how far the pipeline has read each partition."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from rowtide.web.access import Page
from rowtide.web.api.answers import At, at_of, rfc3339
from rowtide.web.declared import OF_PIPELINE, PIPELINE, ApiPath
from rowtide.web.status import PositionStatus, Status
from rowtide.web.tokens import Right
from rowtide_connectors.several import place_of


@dataclass(frozen=True, slots=True)
class PositionAnswer:
    """The position of a partition.

    ``lag`` is the upper limit of unread messages; it and ``end_offset`` are null while the end is not known.
    """

    relation: str
    topic: str
    partition: int
    next_offset: int
    start_offset: int
    end_offset: int | None
    lag: int | None
    bound: str | None


@dataclass(frozen=True, slots=True)
class PositionsAnswer:
    """The committed positions, by relation, topic and partition."""

    positions: list[PositionAnswer]
    at: At


LIST = ApiPath(
    f"{OF_PIPELINE}/positions",
    Right.READ,
    "Return the committed positions, with the ends and the rowtime bounds of the partitions.",
    (PIPELINE,),
    answer=PositionsAnswer,
)
PATHS = (LIST,)


def pages(status: Status) -> list[Page]:
    """Return the page. It never waits for the main loop."""

    async def listed(_request: Request) -> PositionsAnswer:
        now = status.status()
        return PositionsAnswer([_answer(each) for each in now.positions], at_of(now))

    return [Page(LIST, listed)]


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
    )
