"""Problems: every refusal of the API, as RFC 9457 has it. The types are declared once, here.

The paths below ``/api/v1`` answer with a problem; the others with the object ``{"error": .., "hint": ..}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from rowtide.errors import (
    LimitReachedError,
    RowtideError,
    SourceSpan,
    StatementError,
    SupersededError,
    TransientError,
    UnknownRelationError,
)
from rowtide_connectors.errors import UnavailableError

API = "/api/v1"
PROBLEM_JSON = "application/problem+json"
RETRY_AFTER_S = 2
"""When to try again what was busy or down."""
_log = structlog.get_logger("rowtide")


@dataclass(frozen=True, slots=True)
class ProblemType:
    """What a type of problems means: its status, its title, and what to do."""

    status: int
    title: str
    meaning: str


class Problem(Enum):
    """The types. The name of a type in answers is ``urn`` of the name here."""

    INVALID_PARAMETER = ProblemType(
        400,
        "A parameter is missing or invalid",
        "`detail` names the parameter, `hint` says what it may be. Correct the address.",
    )
    INVALID_BODY = ProblemType(
        400,
        "The body is invalid",
        "It is not a JSON object, or a field is missing, unknown or has another type. `hint` lists the fields.",
    )
    STATEMENT_REFUSED = ProblemType(
        400,
        "The SQL text is refused",
        "The text cannot be planned or executed, and nothing has changed. `place` is where in the text, `hint` what "
        "to write.",
    )
    UNAUTHENTICATED = ProblemType(
        401,
        "The token is missing or invalid",
        "Send the header `Authorization: Bearer TOKEN` with a token of `service.tokens_file` or of the provider.",
    )
    RIGHT_MISSING = ProblemType(
        403,
        "The caller lacks the right",
        "`detail` names the rights of the caller and the one that is needed.",
    )
    OTHER_SITE = ProblemType(
        403,
        "The request comes from another site",
        "A browser sends it for a web page of another site. Use the page of the service, or a program.",
    )
    HOST_NOT_ALLOWED = ProblemType(
        403, "The request names another host", "Add the name of the header `Host` to `service.allowed_hosts`."
    )
    UNKNOWN_PATH = ProblemType(404, "The service has no such path", f"`{API}/openapi.json` has every path.")
    UNKNOWN_PIPELINE = ProblemType(
        404,
        "The service runs no such pipeline",
        f"`hint` names the one that it runs; `{API}/pipelines` lists it.",
    )
    UNKNOWN_RELATION = ProblemType(
        404,
        "The pipeline has no such relation",
        "Names of relations are as in the catalog: upper case unless quoted. What has contents is an engine table.",
    )
    UNKNOWN_QUERY = ProblemType(
        404,
        "The service has no such query",
        "It has ended, or its rows were not read in time. Start it again.",
    )
    UNKNOWN_ERROR_ROW = ProblemType(
        404, "The pipeline has no such error row", f"`{API}/pipelines/NAME/errors` lists the error rows."
    )
    METHOD_NOT_ALLOWED = ProblemType(
        405, "The path does not have this method", "The header `Allow` has those that it has."
    )
    NOT_ACCEPTABLE = ProblemType(
        406,
        "The path does not answer in this format",
        "`hint` lists the formats that the header `Accept` may name. `service.allow_export` decides about CSV.",
    )
    NOT_POSSIBLE = ProblemType(
        409,
        "The pipeline cannot do this now",
        "It runs in a way that excludes it, such as on Spark or as a follower. `detail` says why.",
    )
    LENGTH_REQUIRED = ProblemType(
        411,
        "The size of the body is not known",
        "Send the header `Content-Length`, and no `Transfer-Encoding`.",
    )
    BODY_TOO_LARGE = ProblemType(
        413, "The body is too large", "`detail` says how many bytes the path takes. Most take none."
    )
    BODY_TYPE = ProblemType(
        415,
        "The body has another type",
        "Send a JSON object, with the header `Content-Type: application/json`.",
    )
    NOT_EXPLAINED = ProblemType(
        422,
        "The row is not explained",
        "The row does not exist, the topic has its messages no longer, or the search exceeded `limits.why_s`. "
        "`detail` says which.",
    )
    TOO_MANY_QUERIES = ProblemType(
        429, "Too many queries run", "End one of them, or try again after `retry_after_s` seconds."
    )
    TOO_MANY_LOGINS = ProblemType(
        429, "Too many logins from this address have failed", "Wait `retry_after_s` seconds."
    )
    HEAD_TOO_LARGE = ProblemType(431, "Address and headers are too long", "Send a long text in a body.")
    FAULT = ProblemType(
        500,
        "The service has failed",
        "This is a defect. The log of the service has the cause, under the id of `instance`.",
    )
    UNAVAILABLE = ProblemType(
        503,
        "The service is busy or waits for a dependency",
        "`detail` says for what. Try again after `retry_after_s` seconds.",
    )
    SUPERSEDED = ProblemType(
        503,
        "Another process has taken the pipeline",
        "This process ends. Ask the one that has taken it; behind a load balancer, try again.",
    )

    @property
    def word(self) -> str:
        """Return the last part of ``urn``."""
        return self.name.lower().replace("_", "-")

    @property
    def urn(self) -> str:
        """Return the type as answers have it."""
        return f"urn:rowtide:problem:{self.word}"


class ProblemError(RowtideError):
    """A request is refused. ``place`` is in its SQL text, ``shown`` has the message with the line and a caret.

    ``headers`` are of the answer.
    """

    def __init__(
        self,
        problem: Problem,
        message: str,
        *,
        hint: str | None = None,
        span: SourceSpan | None = None,
        shown: str | None = None,
        retry_after_s: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.problem = problem
        self.place = span
        self.shown = shown
        self.retry_after_s = retry_after_s
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class ProblemPlace:
    """A place in a text: line and column from 1, and how many characters."""

    line: int
    column: int
    length: int


@dataclass(frozen=True, slots=True)
class ProblemAnswer:
    """A problem as it is written. ``instance`` is the id of the request."""

    type: str
    title: str
    status: int
    detail: str
    hint: str | None
    place: ProblemPlace | None
    retry_after_s: int | None
    instance: str


def problem_of(error: Exception, refused: Problem, request: Request) -> ProblemError:
    """Return the problem that an error is. ``refused``: what a refusal by the runtime means for this path."""
    match error:
        case ProblemError():
            return error
        case UnknownRelationError():
            return ProblemError(Problem.UNKNOWN_RELATION, error.message, hint=error.hint)
        case LimitReachedError():
            problem, again = Problem.TOO_MANY_QUERIES, RETRY_AFTER_S
            return ProblemError(problem, error.message, hint=error.hint, retry_after_s=again)
        case StatementError():
            shown = None if error.place is None else error.render()
            return ProblemError(refused, error.message, hint=error.hint, span=error.place, shown=shown)
        case SupersededError():
            return ProblemError(
                Problem.SUPERSEDED, error.message, hint=error.hint, retry_after_s=RETRY_AFTER_S
            )
        case TransientError() | UnavailableError():
            return ProblemError(
                Problem.UNAVAILABLE, error.message, hint=error.hint, retry_after_s=RETRY_AFTER_S
            )
    _log.error("request_failed", request=request_id(request), path=request.url.path, exc_info=error)
    return ProblemError(
        Problem.FAULT, "the service failed to answer", hint="The log of the service has the cause."
    )


def answered(found: ProblemError, request: Request) -> Response:
    """Return the answer with a problem."""
    kind = found.problem.value
    headers = dict(found.headers)
    if found.retry_after_s is not None:
        headers["retry-after"] = str(found.retry_after_s)
    if not request.url.path.startswith(f"{API}/"):
        hint = found.hint if found.shown is None else None
        return Response(
            msgspec.json.encode({"error": found.shown or found.message, "hint": hint}),
            kind.status,
            headers,
            media_type="application/json",
        )
    place = found.place
    answer = ProblemAnswer(
        found.problem.urn,
        kind.title,
        kind.status,
        found.message,
        found.hint,
        None if place is None else ProblemPlace(place.line, place.column, place.length),
        found.retry_after_s,
        request_id(request),
    )
    return Response(msgspec.json.encode(answer), kind.status, headers, media_type=PROBLEM_JSON)


def request_id(request: Request) -> str:
    """Return the id of a request, which its answer and the log have."""
    return str(request.state.request_id)
