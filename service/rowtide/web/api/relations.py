"""``/relations/R``: why a relation is silent, and the rows of an engine table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from rowtide.flow.why_not import Holder
from rowtide.runtime.inspect.why_not import Cause
from rowtide.web.access import Page
from rowtide.web.api.answers import At, Column, at_of, columns_of, values_of
from rowtide.web.declared import AFTER, OF_PIPELINE, PAGE_ROWS, PIPELINE, RELATION_NAME, ApiPath
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import named, number
from rowtide.web.problems import Problem
from rowtide.web.status import Status
from rowtide.web.tokens import Right

OF_RELATION = f"{OF_PIPELINE}/relations/{{relation}}"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table. ``next`` is ``after`` of the rows that follow, null at the end; ``total`` counts all rows."""

    columns: list[Column]
    rows: Sequence[Sequence[object]]
    at: At
    next: str | None
    total: int


@dataclass(frozen=True, slots=True)
class AccountAnswer:
    """The counts of an operator's rows so far."""

    relation: str
    operator: str
    partition: int | None
    rows_in: int
    done: int
    filtered: int
    late: int
    rejected: int
    rows_out: int
    held: int


@dataclass(frozen=True, slots=True)
class WhyNotAnswer:
    """Why a relation has no new rows. Rowtime bounds are in milliseconds."""

    pipeline: str
    relation: str
    phase: str
    rows_out: int | None
    causes: list[Cause]
    operators: list[Holder]
    accounts: list[AccountAnswer]


WHY_NOT = ApiPath(
    f"{OF_RELATION}/why-not",
    Right.READ,
    "Explain why a relation has no new rows.",
    (PIPELINE, RELATION_NAME),
    problems=(Problem.UNKNOWN_RELATION,),
    answer=WhyNotAnswer,
)
ROWS = ApiPath(
    f"{OF_RELATION}/rows",
    Right.READ,
    "Return rows of an engine table as it is now. Between two pages the table may change.",
    (PIPELINE, RELATION_NAME, PAGE_ROWS, AFTER),
    problems=(Problem.UNKNOWN_RELATION,),
    answer=Rows,
)
PATHS = (WHY_NOT, ROWS)


def pages(handlers: Handlers, status: Status) -> list[Page]:
    """Return the pages. They wait for the main loop."""
    found = []
    if (why_not := handlers.why_not) is not None:

        def explained(request: Request) -> Mapping[str, object]:
            return why_not(named(request, RELATION_NAME)).to_json()

        found.append(Page(WHY_NOT, explained))
    if (contents := handlers.contents) is not None:

        def rows(request: Request) -> Rows:
            after = number(request, AFTER)
            held = contents(named(request, RELATION_NAME), number(request, PAGE_ROWS), after)
            columns = columns_of(held.columns, held.types)
            read = after + len(held.rows)
            following = str(read) if held.rows and read < held.total else None
            return Rows(columns, values_of(held.rows, columns), at_of(status.status()), following, held.total)

        found.append(Page(ROWS, rows))
    return found
