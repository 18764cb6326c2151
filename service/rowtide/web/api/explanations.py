"""``/explanations``: the messages that an output row comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from starlette.requests import Request

from rowtide.web.access import Page
from rowtide.web.declared import BODY_BYTES, OF_PIPELINE, PIPELINE, RELATION, ROW, ApiPath
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import given
from rowtide.web.problems import Problem
from rowtide.web.tokens import Right


@dataclass(frozen=True, slots=True)
class InputAnswer:
    """A message that the row was made of. ``topic`` is null for a row of the pipeline's own INSERT."""

    relation: str
    topic: str | None
    partition: int
    offset: int
    rowtime: int | None
    row: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class MadeOfAnswer:
    """The number of the inputs of a row at an operator; ``offsets`` are the first and last, by partition."""

    relation: str
    operator: str
    rowtime: int | None
    row: Mapping[str, object]
    rows: int
    offsets: list[Mapping[str, object]]
    note: str | None


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """A bound of a partition that the row waited for, and its origin ``by``, at ``offset``."""

    relation: str
    topic: str | None
    partition: int
    clock: str
    needs: int
    by: str | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class ExplanationAnswer:
    """Where a row comes from; times are in milliseconds. ``path`` leads from the row back to its messages.

    ``since`` is set if the log no longer reaches back to the first offsets of the pipeline.
    """

    pipeline: str
    relation: str
    row: Mapping[str, object]
    rowtime: int | None
    matching: int
    path: list[str]
    made_of: list[MadeOfAnswer]
    inputs: list[InputAnswer]
    releases: list[ReleaseAnswer]
    decisions: list[Mapping[str, object]]
    messages_read: int
    notes: list[str]
    since: list[Mapping[str, object]]


EXPLAINED = replace(RELATION, where="body")
EXPLAINED_ROW = replace(ROW, where="body")
EXPLAIN = ApiPath(
    f"{OF_PIPELINE}/explanations",
    Right.READ,
    "Explain which messages an output row comes from. It reads the log again.",
    (PIPELINE, EXPLAINED, EXPLAINED_ROW),
    problems=(Problem.UNKNOWN_RELATION, Problem.NOT_EXPLAINED),
    refused=Problem.NOT_EXPLAINED,
    method="POST",
    answer=ExplanationAnswer,
    body_bytes=BODY_BYTES,
)
PATHS = (EXPLAIN,)


def pages(handlers: Handlers) -> list[Page]:
    """Return the page. It opens the log by itself, and takes as long as reading it does."""
    if (why := handlers.why) is None:
        return []

    def explained(request: Request) -> Mapping[str, object]:
        return why(given(request, EXPLAINED), given(request, EXPLAINED_ROW)).to_json()

    return [Page(EXPLAIN, explained)]
