"""``/errors/resubmissions``: error rows that the pipeline reads again, each once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from starlette.requests import Request

from rowtide.checkpoint.error_stream import RESUBMITTED_BYTES, RESUBMITTED_ROWS, ErrorFilter
from rowtide.runtime.resubmitting.resubmit import ResubmittedRows
from rowtide.runtime.resubmitting.where_counts import Counting
from rowtide.web.access import Page, note_effect
from rowtide.web.api.answers import rfc3339
from rowtide.web.api.error_rows import GREATEST, KIND, OF_RELATION, REASON, FilterFields
from rowtide.web.declared import AFTER, BODY_BYTES, OF_PIPELINE, PIPELINE, ApiPath, Parameter
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import flag, numbers
from rowtide.web.problems import Problem, ProblemError
from rowtide.web.tokens import Right


@dataclass(frozen=True, slots=True)
class ResubmittedRelation:
    """How many rows of a relation are taken."""

    relation: str
    rows: int


@dataclass(frozen=True, slots=True)
class CountingWindow:
    """The window of a relation in which a late row counts, by its end."""

    relation: str
    ends: str | None


@dataclass(frozen=True, slots=True)
class CountingAnswer:
    """Where a late row counts at the earliest: its rowtime, and its windows."""

    number: int
    rowtime: str | None
    windows: list[CountingWindow]


@dataclass(frozen=True, slots=True)
class StayingRow:
    """A row that is not resubmitted, and why."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class ResubmissionsAnswer:
    """The error rows that are resubmitted, by number; after a dry run those that would be.

    ``next`` is ``after`` of the rows that the filter matches beyond the limit, null if there are none. ``left`` is how
    many resubmissions the pipeline may have after this: each answer takes one for each relation.
    """

    dry_run: bool
    taken: list[int]
    relations: list[ResubmittedRelation]
    counts: list[CountingAnswer]
    refused: list[StayingRow]
    next: int | None
    left: int


NUMBERS = Parameter(
    "numbers",
    "numbers of error rows; those that also match the other fields are taken",
    (),
    kind="integers",
    most=GREATEST,
    most_items=RESUBMITTED_ROWS,
    where="body",
)
OF_KIND, OF_NAME, WITH_REASON = (replace(each, where="body") for each in (KIND, OF_RELATION, REASON))
ALL_PENDING = Parameter(
    "pending",
    "all rows that were not resubmitted and match the other fields",
    False,
    kind="boolean",
    where="body",
)
CONTINUED = replace(AFTER, where="body")
IN_BODY = FilterFields(OF_KIND, OF_NAME, WITH_REASON, ALL_PENDING, CONTINUED)
DRY_RUN = Parameter(
    "dry_run", "say which rows would be resubmitted; change nothing", False, kind="boolean", where="body"
)
RESUBMIT = ApiPath(
    f"{OF_PIPELINE}/errors/resubmissions",
    Right.OPERATE,
    "Resubmit error rows, as `rowtide errors resubmit` does: some by number, or all that match and were not "
    "resubmitted. A row is taken once, so a request may be sent again. A request looks at "
    f"{RESUBMITTED_ROWS:,} rows at most, the oldest first, and at as many as have "
    f"{RESUBMITTED_BYTES // (1024 * 1024)} MiB.",
    (PIPELINE, NUMBERS, OF_KIND, OF_NAME, WITH_REASON, ALL_PENDING, CONTINUED, DRY_RUN),
    problems=(Problem.NOT_POSSIBLE,),
    refused=Problem.NOT_POSSIBLE,
    method="POST",
    body_bytes=BODY_BYTES,
    answer=ResubmissionsAnswer,
)
PATHS = (RESUBMIT,)


def pages(handlers: Handlers) -> list[Page]:
    """Return the page. It waits for the database."""
    if (resubmit := handlers.resubmit) is None:
        return []

    def resubmitted(request: Request) -> ResubmissionsAnswer:
        dry_run = flag(request, DRY_RUN)
        done = resubmit(_wanted(request), dry_run, RESUBMITTED_ROWS)
        note_effect(request, resubmitted=0 if dry_run else len(done.rows), dry_run=dry_run)
        if handlers.events is not None and not dry_run:
            handlers.events.count_errors_soon()
        return _answer(done, dry_run)

    return [Page(RESUBMIT, resubmitted)]


def _wanted(request: Request) -> ErrorFilter:
    """Return the rows that a request chooses.

    Raises:
      ProblemError: it chooses none.
    """
    wanted = IN_BODY.chosen(request, numbers(request, NUMBERS))
    if wanted == ErrorFilter(after=wanted.after):
        raise ProblemError(
            Problem.INVALID_BODY,
            "no error rows are selected",
            hint="Send numbers, kind, relation or reason, or pending as true for all rows that were not resubmitted.",
        )
    return wanted


def _answer(done: ResubmittedRows, dry_run: bool) -> ResubmissionsAnswer:
    relations = Counter(each.row.relation for each in done.rows)
    return ResubmissionsAnswer(
        dry_run,
        [each.error_id for each in done.rows],
        [ResubmittedRelation(name, rows) for name, rows in sorted(relations.items())],
        [_counting(at, each) for at, each in done.counting.items()],
        [StayingRow(at, why) for at, why in done.stay.items()],
        done.last,
        done.left,
    )


def _counting(at: int, counting: Counting) -> CountingAnswer:
    windows = [CountingWindow(relation, rfc3339(end)) for relation, end in counting.windows]
    return CountingAnswer(at, rfc3339(counting.rowtime), windows)
