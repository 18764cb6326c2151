"""``/queries``: queries on the running pipeline. A query is started, then its rows are read, once.

The rows are lines of JSON, as they come. The first is ``{"columns": [..], "types": [..], "changes": bool}``; then
``{"op": "+", "rowtime": ms, "row": [..]}``, ``{"error": ".."}`` for a row that the query rejects, and ``{"ended":
".."}`` when the service ends it. ``{"error": "..", "hint": "..", "failed": true}`` is the last line of a query that
exceeded its limits: rows are missing before it. The service sends a blank line from time to time while no row
arrives. With ``once`` a query on tables returns the current contents of its result and ends; with ORDER BY in that
order. ``rowtime`` is null for rows that have none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rowtide.runtime.state.following import StartedQuery
from rowtide.web.access import Page, written
from rowtide.web.api.answers import Column, columns_of
from rowtide.web.declared import BODY_BYTES, LINES, OF_PIPELINE, ONCE, PIPELINE, QUERY, ApiPath, Parameter
from rowtide.web.handlers import Handlers
from rowtide.web.parameters import flag, given, named
from rowtide.web.problems import Problem, ProblemError
from rowtide.web.tokens import Right

UNREAD_S = 15.0
"""How long a query waits for its reader: less than ``limits.query_s`` as it is by default, which has begun."""


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """A query that has started; ``changes``: its rows are changes of a table."""

    id: str
    columns: list[Column]
    changes: bool


ASKED, ASKED_ONCE = replace(QUERY, where="body"), replace(ONCE, where="body")
QUERY_ID = Parameter("query", "id of the query", where="path")
START = ApiPath(
    f"{OF_PIPELINE}/queries",
    Right.READ,
    "Start a query. It ends if its rows are not read within 15 seconds.",
    (PIPELINE, ASKED, ASKED_ONCE),
    {201: "The query has started."},
    problems=(Problem.STATEMENT_REFUSED, Problem.TOO_MANY_QUERIES),
    method="POST",
    body_bytes=BODY_BYTES,
    answer=QueryAnswer,
)
ROWS = ApiPath(
    f"{OF_PIPELINE}/queries/{{query}}/rows",
    Right.READ,
    "Return the rows of a query as they come, once, one JSON object a line: `columns`, then `row` with `op` and "
    "`rowtime`, `error` for a rejected row, `ended` or a last `error` with `failed`.",
    (PIPELINE, QUERY_ID),
    problems=(Problem.UNKNOWN_QUERY, Problem.NOT_POSSIBLE),
    media_type=LINES,
)
END = ApiPath(
    f"{OF_PIPELINE}/queries/{{query}}",
    Right.READ,
    "End a query.",
    (PIPELINE, QUERY_ID),
    {204: "The query has ended."},
    problems=(Problem.UNKNOWN_QUERY,),
    method="DELETE",
)
PATHS = (START, ROWS, END)


def pages(handlers: Handlers) -> list[Page]:
    """Return the pages. They wait for the query's process."""
    if (query := handlers.query) is None:
        return []
    queries = OpenQueries()

    def start(request: Request) -> Response:
        started = query(given(request, ASKED), flag(request, ASKED_ONCE))
        answer = QueryAnswer(
            queries.add(started), columns_of(started.columns, started.types), started.changes
        )
        return written(answer, 201, {"location": f"queries/{answer.id}"})

    def rows(request: Request) -> Response:
        known = named(request, QUERY_ID)
        return QueryLines(queries.read(known), partial(queries.forget, known))

    def end(request: Request) -> Response:
        queries.end(named(request, QUERY_ID))
        return Response(status_code=204)

    return [Page(START, start), Page(ROWS, rows), Page(END, end)]


class OpenQueries:
    """The queries that wait for their reader, or have it; any thread. One that waits for ``unread_s`` ends."""

    def __init__(self, unread_s: float = UNREAD_S) -> None:
        self._unread_s = unread_s
        self._lock = threading.Lock()
        self._held: dict[str, tuple[StartedQuery, threading.Timer | None]] = {}

    def add(self, query: StartedQuery) -> str:
        """Hold a query, and return its id."""
        known = uuid4().hex
        timer = threading.Timer(self._unread_s, self._end_unread, [known])
        timer.daemon = True
        with self._lock:
            self._held[known] = query, timer
        timer.start()
        return known

    def read(self, known: str) -> StartedQuery:
        """Return a query to its reader, who calls ``forget``.

        Raises:
          ProblemError: there is none, or it has a reader.
        """
        with self._lock:
            query, timer = self._found(known)
            if timer is None:
                raise ProblemError(
                    Problem.NOT_POSSIBLE, f'query "{known}" is being read', hint="Start another query."
                )
            self._held[known] = query, None
        timer.cancel()
        return query

    def end(self, known: str) -> None:
        """End a query.

        Raises:
          ProblemError: there is none.
        """
        with self._lock:
            query, timer = self._found(known)
            del self._held[known]
        if timer is None:
            # Its reader closes it, at the end of its lines.
            query.process.kill("the query was ended by a request", None)
        else:
            timer.cancel()
            query.close()

    def forget(self, known: str) -> None:
        """Hold a query no longer: its reader has closed it."""
        with self._lock:
            self._held.pop(known, None)

    def _found(self, known: str) -> tuple[StartedQuery, threading.Timer | None]:
        found = self._held.get(known)
        if found is None:
            raise ProblemError(
                Problem.UNKNOWN_QUERY,
                f'query "{known[:40]}" does not exist or has ended',
                hint="Start the query again.",
            )
        return found

    def _end_unread(self, known: str) -> None:
        with self._lock:
            query, timer = self._held.get(known, (None, None))
            if query is None or timer is None:
                return
            del self._held[known]
        query.close()


class QueryLines(StreamingResponse):
    """The lines of a query, which ends with its client; then ``ended`` is called."""

    def __init__(self, query: StartedQuery, ended: Callable[[], None] | None = None) -> None:
        super().__init__(query.lines(), media_type=LINES)
        self._query = query
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._query.close()
            if self._ended is not None:
                self._ended()
