"""What is done with every request before its path is known: it gets an id, and names keep their slashes."""

from __future__ import annotations

import re
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-request-id"
GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""The ids that a client may choose: they are part of the log."""


class Arrival:
    """Gives requests an id, that of their header X-Request-Id if it is one, and sends it with the answer.

    Routes see the path as it was sent: a name of a path may have a slash, which is percent-encoded.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == HEADER), b"")
        known = given if GIVEN.fullmatch(given) else uuid4().hex.encode()

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (HEADER, known)]}
            await send(message)

        path = scope["raw_path"].decode("ascii")
        await self._app({**scope, "path": path, "state": {"request_id": known.decode()}}, receive, with_id)
