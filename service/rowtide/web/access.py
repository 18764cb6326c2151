"""Who may ask for which page: each page declares its role once, and no page is served without this check."""

from __future__ import annotations

import inspect
import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rowtide.errors import StatementError, TransientError
from rowtide.web.server import parse_listen
from rowtide.web.tokens import Caller, Role, TokenFile

Handler = Callable[[Request], Any]
"""Answers a request: a coroutine function, or a function that waits and runs in a thread of its own."""
ANYONE = Caller("anonymous", Role.ADMIN)
"""Who calls an API that asks for no token."""


class Access:
    """Decides on requests. Without ``tokens`` everyone who reaches the listener may do everything."""

    def __init__(self, tokens: TokenFile | None = None) -> None:
        self._tokens = tokens

    def caller(self, request: Request, needed: Role) -> Caller | Response:
        """Return who asks, or the refusal: 401 without a valid token, 403 where the role does not suffice."""
        if self._tokens is None:
            return ANYONE
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return _unauthorized("a token is missing")
        try:
            found = self._tokens.caller(token.strip())
        except TransientError as error:
            return JSONResponse({"error": error.message, "hint": error.hint}, status_code=503)
        if found is None:
            return _unauthorized("the token is invalid")
        if found.role < needed:
            message = (
                f'"{found.name}" has role {found.role.label}, and {request.url.path} needs {needed.label}'
            )
            return JSONResponse(
                {"error": message, "hint": "Use a token of that role."},
                status_code=403,
            )
        return found


@dataclass(frozen=True, slots=True)
class Page:
    """One path of the API, and the role that it needs; None: everyone may ask, also without a token."""

    path: str
    role: Role | None
    handler: Handler
    method: str = "GET"

    def route(self, access: Access) -> Route:
        """Return the page as a route that lets only those in who may ask."""

        async def guarded(request: Request) -> Response:
            if self.role is not None:
                found = access.caller(request, self.role)
                if isinstance(found, Response):
                    return found
            return await self._answer(request)

        return Route(self.path, guarded, methods=[self.method])

    async def _answer(self, request: Request) -> Response:
        answer: Awaitable[Response]
        if inspect.iscoroutinefunction(self.handler):
            answer = self.handler(request)
        else:
            answer = run_in_threadpool(self.handler, request)
        return await answer


def access_of(listen: str, tokens_file: str | None, *, allow_anonymous: bool) -> Access:
    """Return who may use a listener.

    Raises:
      StatementError: others can reach it and there are no tokens, or the token file is invalid.
    """
    if tokens_file is not None:
        return Access(TokenFile(Path(tokens_file)))
    host, _ = parse_listen(listen)
    if not is_loopback(host) and not allow_anonymous:
        raise StatementError(
            f'other machines can reach the API at "{listen}", and no tokens are set',
            hint='Set service.tokens_file to a file with a line "NAME ROLE TOKEN" for each caller, or listen on '
            "127.0.0.1. If something else keeps strangers out, set service.allow_anonymous to true.",
        )
    return Access()


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host to listen on; of names only localhost is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _unauthorized(message: str) -> Response:
    return JSONResponse(
        {
            "error": message,
            "hint": "Send the header Authorization: Bearer TOKEN; commands take --token-file FILE.",
        },
        status_code=401,
        headers={"WWW-Authenticate": 'Bearer realm="rowtide"'},
    )
