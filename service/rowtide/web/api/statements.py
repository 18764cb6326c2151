"""``/statements``: statements that change rows of engine tables, executed by the running pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rowtide.web.access import Page
from rowtide.web.declared import BODY_BYTES, OF_PIPELINE, PIPELINE, STATEMENTS, WAIT, ApiPath
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import flag, given
from rowtide.web.problems import Problem, ProblemError
from rowtide.web.tokens import Right

SENT, WAITS = replace(STATEMENTS, where="body"), replace(WAIT, where="body")
EXECUTE = ApiPath(
    f"{OF_PIPELINE}/statements",
    Right.OPERATE,
    "Change rows of engine tables.",
    (PIPELINE, SENT, WAITS),
    {200: "The statements are executed.", 202: "They are queued."},
    problems=(Problem.STATEMENT_REFUSED,),
    method="POST",
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
