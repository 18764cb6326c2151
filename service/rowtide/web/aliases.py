"""The paths from before version 1. Each is an alias of a path of it, for one release."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rowtide.web import declared
from rowtide.web.access import Page
from rowtide.web.api.queries import QueryLines
from rowtide.web.api.statements import executed
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import flag, given, number
from rowtide.web.status import JsonAnswer


def alias_pages(handlers: Handlers) -> list[Page]:
    """Return the pages of the aliases."""
    pages = []
    if (why_not := handlers.why_not) is not None:
        answer = _answering(lambda request: why_not(given(request, declared.RELATION)))
        pages.append(Page(declared.WHY_NOT, answer))
    if (why := handlers.why) is not None:
        answer = _answering(
            lambda request: why(given(request, declared.RELATION), given(request, declared.ROW))
        )
        pages.append(Page(declared.WHY, answer))
    if (snapshot := handlers.snapshot) is not None:
        pages.append(Page(declared.SNAPSHOT, _answering(lambda _request: snapshot())))
    if (contents := handlers.contents) is not None:
        answer = _answering(
            lambda request: contents(given(request, declared.RELATION), number(request, declared.LIMIT), 0)
        )
        pages.append(Page(declared.TABLE, answer))
    if (query := handlers.query) is not None:

        def lines(request: Request) -> Response:
            return QueryLines(query(given(request, declared.QUERY), flag(request, declared.ONCE)))

        pages.append(Page(declared.ROWS, lines))
    if (execute := handlers.execute) is not None:

        def outcome(request: Request) -> Response:
            answer = execute(given(request, declared.STATEMENTS), flag(request, declared.WAIT)).to_json()
            return executed(answer, refused=400)

        pages.append(Page(declared.EXECUTE, outcome))
    return pages


def _answering(question: Callable[[Request], JsonAnswer]) -> Callable[[Request], Response]:
    def handler(request: Request) -> Response:
        return JSONResponse(question(request).to_json())

    return handler
