"""``/errors``: the rows that were late or rejected, with their bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.checkpoint.ledger import StoredError
from rowtide.web.access import Page
from rowtide.web.api.answers import rfc3339
from rowtide.web.declared import AFTER, OF_PIPELINE, PAGE_ROWS, PIPELINE, ApiPath, Parameter
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import flag, named, number, optional
from rowtide.web.problems import Problem, ProblemError
from rowtide.web.tokens import Right

GREATEST = 2**63 - 1
"""The greatest number of an error row."""


@dataclass(frozen=True, slots=True)
class ResubmissionAnswer:
    """The resubmission that an error row is part of."""

    number: int
    at: str | None


@dataclass(frozen=True, slots=True)
class ErrorRowAnswer:
    """An error row. ``row`` is the row as far as it was decoded; ``headers`` have name and value in base64."""

    number: int
    kind: str
    relation: str
    reason: str
    detail: str
    stream: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    message_time: str | None
    rowtime: str | None
    bound: str | None
    late_by_ms: int | None
    row: object
    raw_base64: str | None
    key_base64: str | None
    headers: Sequence[object] | None
    epoch: int
    committed_at: str | None
    resubmission: ResubmissionAnswer | None


@dataclass(frozen=True, slots=True)
class ErrorRowsAnswer:
    """Error rows by number. ``next`` is ``after`` of the rows that follow, null at the end."""

    errors: list[ErrorRowAnswer]
    next: str | None


KIND = Parameter("kind", "only rows of this kind, `LATE` or `REJECTED`", "")
OF_RELATION = Parameter("relation", "only rows of this relation, by its catalog name", "")
REASON = Parameter("reason", "only rows with this reason, such as `DECODE`", "")
PENDING = Parameter("pending", "only rows that were not resubmitted", False, kind="boolean")
NUMBER = Parameter("number", "number of the error row", where="path")


@dataclass(frozen=True, slots=True)
class FilterFields:
    """The parameters of a request that choose error rows."""

    kind: Parameter
    relation: Parameter
    reason: Parameter
    pending: Parameter
    after: Parameter

    def chosen(self, request: Request, numbers: tuple[int, ...] = ()) -> ErrorFilter:
        """Return the rows that a request chooses."""
        kind, reason = optional(request, self.kind), optional(request, self.reason)
        return ErrorFilter(
            numbers,
            None if kind is None else kind.upper(),
            optional(request, self.relation),
            None if reason is None else reason.upper(),
            pending=flag(request, self.pending),
            after=number(request, self.after),
        )


IN_ADDRESS = FilterFields(KIND, OF_RELATION, REASON, PENDING, AFTER)
LIST = ApiPath(
    f"{OF_PIPELINE}/errors",
    Right.READ,
    "List late and rejected rows, the oldest first.",
    (PIPELINE, KIND, OF_RELATION, REASON, PENDING, PAGE_ROWS, AFTER),
    answer=ErrorRowsAnswer,
)
ONE = ApiPath(
    f"{OF_PIPELINE}/errors/{{number}}",
    Right.READ,
    "Return an error row.",
    (PIPELINE, NUMBER),
    problems=(Problem.UNKNOWN_ERROR_ROW,),
    answer=ErrorRowAnswer,
)
PATHS = (LIST, ONE)


def pages(handlers: Handlers) -> list[Page]:
    """Return the pages. They wait for the database."""
    if (errors := handlers.errors) is None:
        return []

    def listed(request: Request) -> ErrorRowsAnswer:
        limit = number(request, PAGE_ROWS)
        # One more shows whether others follow.
        found = errors(IN_ADDRESS.chosen(request), limit + 1)
        rows = [_answer(each) for each in found[:limit]]
        return ErrorRowsAnswer(rows, str(rows[-1].number) if rows and len(found) > limit else None)

    def one(request: Request) -> ErrorRowAnswer:
        text = named(request, NUMBER)
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(GREATEST))
        found = errors(ErrorFilter(numbers=(int(text),)), 1) if is_number and int(text) <= GREATEST else ()
        if not found:
            raise ProblemError(
                Problem.UNKNOWN_ERROR_ROW,
                f'error row "{text[:40]}" does not exist',
                hint=f"{LIST.path} lists the error rows.",
            )
        return _answer(found[0])

    return [Page(LIST, listed), Page(ONE, one)]


def _answer(stored: StoredError) -> ErrorRowAnswer:
    row = stored.row
    reason, _, detail = row.reason.partition(": ")
    again = stored.resubmitted
    return ErrorRowAnswer(
        stored.error_id,
        row.kind,
        row.relation,
        reason,
        detail,
        row.stream,
        row.topic,
        row.partition,
        row.offset,
        rfc3339(row.message_time),
        rfc3339(row.rowtime),
        rfc3339(row.bound),
        row.late_by_ms,
        None if row.row is None else json.loads(row.row),
        _base64(row.raw),
        _base64(row.key),
        None if row.headers is None else json.loads(row.headers),
        stored.epoch,
        rfc3339(stored.committed_at_ms),
        None if again is None else ResubmissionAnswer(again, rfc3339(stored.resubmitted_at_ms)),
    )


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
