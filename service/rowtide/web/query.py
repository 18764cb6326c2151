"""``/query?sql=...``: rows of a query on the running pipeline as they come out, one JSON object on each line.

The first line is ``{"columns": [..], "types": [..], "changes": bool}``; then ``{"op": "+", "rowtime": ms,
"row": [..]}``, ``{"error": ".."}`` for a row that the query rejects, and ``{"ended": ".."}`` when the
service ends it. ``{"error": "..", "hint": "..", "failed": true}`` is the last line of a query that exceeded its
limits: rows are missing before it. The service sends a blank line from time to time while no row arrives.
With ``&once=true`` a query on tables returns the current contents of its result and ends; with ORDER BY in that
order. ``rowtime`` is null for rows that have none.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rowtide.runtime.state.following import Follower, QueryProcess
from rowtide.web.declared import ONCE, QUERY
from rowtide.web.parameters import flag, given

QueryRunner = Callable[[str, bool], tuple[Follower, QueryProcess]]
"""Plans a query and starts it; the flag requests the current contents of tables once."""


def query_handler(query: QueryRunner) -> Callable[[Request], Response]:
    """Return the handler. It waits for rows, so it runs in separate threads."""

    def handler(request: Request) -> Response:
        return _Answer(*query(given(request, QUERY), flag(request, ONCE)))

    return handler


class _Answer(StreamingResponse):
    """The lines of a query, which ends with its client."""

    def __init__(self, follower: Follower, process: QueryProcess) -> None:
        super().__init__(follower.lines(process), media_type="application/x-ndjson")
        self._follower = follower

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._follower.close()
