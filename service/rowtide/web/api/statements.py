"""``/statements``: statements that change rows of engine tables, executed by the running pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rowtide.web.access import Page
from rowtide.web.declared import BODY_BYTES, OF_PIPELINE, PIPELINE, STATEMENTS, WAIT, ApiPath
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import flag, given
from rowtide.web.problems import Problem, ProblemError
from rowtide.web.tokens import Right


@dataclass(frozen=True, slots=True)
class StatementOutcomeAnswer:
    """What has become of statements that were sent; ``did`` says what each has done.

    ``rowtime`` is when the change holds; it is null if that is not known yet, or ``from_the_beginning``.
    """

    statement: int
    outcome: Literal["queued", "applied"]
    text: str
    rows: int | None
    did: list[str] | None
    rowtime: str | None
    from_the_beginning: bool
    error: str | None
    sent_at: str
    settled_at: str | None


SENT, WAITS = replace(STATEMENTS, where="body"), replace(WAIT, where="body")
EXECUTE = ApiPath(
    f"{OF_PIPELINE}/statements",
    Right.OPERATE,
    "Change rows of engine tables.",
    (PIPELINE, SENT, WAITS),
    {200: "The statements are executed.", 202: "They are queued."},
    problems=(Problem.STATEMENT_REFUSED,),
    method="POST",
    answer=StatementOutcomeAnswer,
    body_bytes=BODY_BYTES,
)
PATHS = (EXECUTE,)


def pages(handlers: Handlers) -> list[Page]:
    """Return the page. It waits for the pipeline."""
    if (execute := handlers.execute) is None:
        return []

    def outcome(request: Request) -> Response:
        answer = execute(given(request, SENT), flag(request, WAITS)).to_json()
        if answer["outcome"] == "refused":
            # Its first line has the message, as the terminal shows it.
            raise ProblemError(Problem.STATEMENT_REFUSED, str(answer["error"]))
        return executed(answer)

    return [Page(EXECUTE, outcome)]


def executed(answer: Mapping[str, object], *, refused: int = 500) -> Response:
    """Return the outcome of statements: executed or queued, else with the status ``refused``."""
    return JSONResponse(answer, {"applied": 200, "queued": 202}.get(str(answer["outcome"]), refused))
