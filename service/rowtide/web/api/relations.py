"""``/relations/R``: why a relation is silent, and the rows of an engine table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from rowtide.flow.why_not import Holder
from rowtide.web.access import Page
from rowtide.web.api.answers import AnswerColumn, At, at_of, columns_of, values_of
from rowtide.web.declared import AFTER, LINES, OF_PIPELINE, PAGE_ROWS, PIPELINE, RELATION_NAME, ApiPath
from rowtide.web.formats import CSV, csv_of, lines_of
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import named, number
from rowtide.web.problems import Problem
from rowtide.web.status import Status
from rowtide.web.tokens import Right

OF_RELATION = f"{OF_PIPELINE}/relations/{{relation}}"


@dataclass(frozen=True, slots=True)
class RowsAnswer:
    """Rows of a table. ``next`` is ``after`` of the rows that follow, null at the end; ``total`` counts all rows."""

    columns: list[AnswerColumn]
    rows: Sequence[Sequence[object]]
    at: At
    next: str | None
    total: int


@dataclass(frozen=True, slots=True)
class CauseAnswer:
    """One reason. ``has`` and ``needs`` are rowtime bounds; null: no bound, or not known."""

    cause: str
    relation: str
    why: str
    released: str
    change: str
    topic: str | None
    partition: int | None
    has: int | None
    needs: int | None
    position: int | None
    end_offset: int | None


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
    causes: list[CauseAnswer]
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
    answer=RowsAnswer,
    more_types=(LINES, CSV),
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

        def rows(request: Request) -> Response | RowsAnswer:
            after = number(request, AFTER)
            held = contents(named(request, RELATION_NAME), number(request, PAGE_ROWS), after)
            columns = columns_of(held.columns, held.types)
            read = after + len(held.rows)
            following = str(read) if held.rows and read < held.total else None
            values = values_of(held.rows, columns)
            return _in_format(
                request, RowsAnswer(columns, values, at_of(status.status()), following, held.total)
            )

        found.append(Page(ROWS if handlers.allow_export else replace(ROWS, more_types=(LINES,)), rows))
    return found


def _in_format(request: Request, rows: RowsAnswer) -> Response | RowsAnswer:
    """Return rows in the format that the client prefers; the next page is in the header Link."""
    media_type = request.state.media_type
    if media_type == CSV:
        content = csv_of([each.name for each in rows.columns], rows.rows)
    elif media_type == LINES:
        head = {name: value for name, value in asdict(rows).items() if name != "rows"}
        content = lines_of(head, rows.rows)
    else:
        return rows
    limit = number(request, PAGE_ROWS)
    more = {} if rows.next is None else {"link": f'<?limit={limit}&after={rows.next}>; rel="next"'}
    return Response(content, headers=more, media_type=media_type)
