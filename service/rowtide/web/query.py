"""``/query?sql=...``: rows of a query on the running pipeline, a JSON object a line, as they come out.

The first line is ``{"columns": [..], "types": [..], "changes": bool}``; then ``{"op": "+", "rowtime": ms,
"row": [..]}``, ``{"error": ".."}`` for a row that the query rejects, and ``{"ended": ".."}`` when the
service ends it. A blank line now and then says that nothing came. With ``&once=true`` a query on tables gives
the changes that make up their present contents, and ends; one with ORDER BY the contents, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from rowtide.errors import StatementError, TransientError
from rowtide.rows.rowop import Opcode, Row
from rowtide.runtime.inspect.state import plain
from rowtide.runtime.live.following import Ended, Follower
from rowtide.runtime.live.listing import Contents

HEARTBEAT_S = 1.0
"""How long nothing may be said: so that a client that has gone is noticed."""

QueryRunner = Callable[[str, bool], tuple[Follower, bool, tuple[bool, ...]]]
"""Plans a query and lets it look on, or once if its rows are changes of a table.

Gives whether they are, and for each key that they are to be listed by whether it descends.
"""


def query_handler(query: QueryRunner) -> Callable[[Request], Response]:
    """Return the handler. It waits for rows, so it runs in threads of its own."""

    def handler(request: Request) -> Response:
        try:
            once = _flag(request.query_params.get("once", "false"))
            follower, changes, order = query(request.query_params.get("sql", ""), once)
        except StatementError as error:
            return JSONResponse({"error": error.render(), "hint": None}, status_code=400)
        except TransientError as error:
            return JSONResponse({"error": error.message, "hint": error.hint}, status_code=503)
        return StreamingResponse(_lines(follower, changes, order), media_type="application/x-ndjson")

    return handler


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise StatementError(f'invalid value of parameter "once": "{text[:40]}"', hint="Write true or false.")
    return text == "true"


def _lines(follower: Follower, changes: bool, order: tuple[bool, ...]) -> Iterator[str]:
    contents = Contents(order)
    try:
        types = contents.shown([str(field.type) for field in follower.row_type])
        yield _line({"columns": contents.shown(follower.row_type.names), "types": types, "changes": changes})
        while True:
            taken = False
            for given in follower.take(HEARTBEAT_S):
                taken = True
                if isinstance(given, Ended):
                    for row in contents.rows():
                        yield _row_line("+", None, row)
                    yield _line({"ended": given.why})
                    return
                if isinstance(given, list) and order:
                    contents.take(given)
                elif isinstance(given, list):
                    for timed in given:
                        yield _row_line(
                            "-" if timed.opcode == Opcode.DELETE else "+", timed.rowtime, timed.row
                        )
                else:
                    yield _line({"error": f"{given.reason}: {given.message}"})
            if not taken:
                yield "\n"
    finally:
        follower.is_open = False


def _row_line(op: str, rowtime: int | None, row: Row) -> str:
    return _line({"op": op, "rowtime": rowtime, "row": [plain(value) for value in row]})


def _line(told: object) -> str:
    return json.dumps(told) + "\n"
