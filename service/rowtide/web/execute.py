"""``POST /execute?sql=...``: statements that change rows of engine tables, executed by the running pipeline.

The answer is JSON: 200 with the number of rows and the rowtime from which the change holds; 202 if the statement
is queued and no process has executed it in time, or with ``&wait=false``; 400 if it is refused, with the error.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rowtide.web.declared import STATEMENTS, WAIT
from rowtide.web.parameters import flag, given
from rowtide.web.status import JsonAnswer

StatementRunner = Callable[[str, bool], JsonAnswer]
"""Sends a text; the flag says whether to wait for its outcome."""


def execute_handler(execute: StatementRunner) -> Callable[[Request], Response]:
    """Return the handler. It waits for the pipeline, so it runs in separate threads."""

    def handler(request: Request) -> Response:
        answer = execute(given(request, STATEMENTS), flag(request, WAIT)).to_json()
        codes = {"applied": 200, "queued": 202}
        return JSONResponse(answer, status_code=codes.get(str(answer["outcome"]), 400))

    return handler
