"""``/relations/R/rows/latest``: the rows that a relation has given last, of any kind of relation that runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from rowtide.flow.latest_trays import KEPT_ROWS
from rowtide.web.access import Page
from rowtide.web.api.answers import AnswerColumn, At, at_of, columns_of, rfc3339, values_of
from rowtide.web.api.relations import OF_RELATION
from rowtide.web.declared import PIPELINE, RELATION_NAME, ApiPath, Parameter
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import named, number
from rowtide.web.problems import Problem
from rowtide.web.status import Status
from rowtide.web.tokens import Right


@dataclass(frozen=True, slots=True)
class LatestRowAnswer:
    """A row; ``op`` is +, or - for a row that goes. ``rowtime`` is in ms as in rows of queries; null: it has none."""

    op: str
    rowtime: int | None
    row: Sequence[object]


@dataclass(frozen=True, slots=True)
class LatestRowsAnswer:
    """The last rows of a relation, the newest last.

    ``total`` counts all rows that it has given since ``since``, when this process began to compute it.
    """

    columns: list[AnswerColumn]
    rows: list[LatestRowAnswer]
    total: int
    since: str | None
    at: At


LATEST_LIMIT = Parameter("limit", "greatest number of rows in the answer", 20, kind="integer", most=KEPT_ROWS)
LATEST = ApiPath(
    f"{OF_RELATION}/rows/latest",
    Right.READ,
    "Return the last rows that a relation has given in this process, the newest last; those of a table are its "
    "changes. After a start they are those of the messages that the recovery has read again. The next commit may "
    "still have to write them.",
    (PIPELINE, RELATION_NAME, LATEST_LIMIT),
    problems=(Problem.UNKNOWN_RELATION, Problem.NOT_POSSIBLE),
    refused=Problem.NOT_POSSIBLE,
    answer=LatestRowsAnswer,
)
PATHS = (LATEST,)


def pages(handlers: Handlers, status: Status) -> list[Page]:
    """Return the page. It waits for the main loop."""
    if (latest := handlers.latest_rows) is None:
        return []

    def answered(request: Request) -> LatestRowsAnswer:
        found = latest(named(request, RELATION_NAME), number(request, LATEST_LIMIT))
        columns = columns_of(found.columns, found.types)
        values = values_of([each.row for each in found.rows], columns)
        rows = [
            LatestRowAnswer(each.op, each.rowtime, row) for each, row in zip(found.rows, values, strict=True)
        ]
        return LatestRowsAnswer(columns, rows, found.total, rfc3339(found.since_ms), at_of(status.status()))

    return [Page(LATEST, answered)]
