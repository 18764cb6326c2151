"""Access control: who may call a path, by the right and the body that it declares.

No page is served without this check.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import structlog
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rowtide.clock import Clock, SystemClock
from rowtide.errors import StatementError
from rowtide.web.declared import JSON, PIPELINE, ApiPath
from rowtide.web.formats import chosen
from rowtide.web.parameters import named, read_body
from rowtide.web.problems import (
    API,
    RETRY_AFTER_S,
    Problem,
    ProblemError,
    answered,
    problem_of,
    request_id,
)
from rowtide.web.server import is_loopback, parse_listen
from rowtide.web.sessions import Sessions, cookie_name
from rowtide.web.tokens import Caller, InvalidTokenError, Right, TokenFile

if TYPE_CHECKING:
    from rowtide.web.oidc import OidcProvider

Handler = Callable[[Request], Any]
"""Answers a request with a response, or with what is written as JSON: the answer that its path declares.

It is a coroutine function, or a blocking function, which runs in a separate thread.
"""
REQUESTS_AT_MOST = 32
"""The most requests that are answered at the same time; each can occupy a thread."""
MOST_HEAD_BYTES = 32 * 1024
"""The largest size of address and headers: enough for a long query."""
DEPRECATED_SINCE = "@1795824000"
"""When the aliases were deprecated (RFC 9745): 2026-11-28."""
_log = structlog.get_logger("rowtide")
_encode = msgspec.json.Encoder(decimal_format="string").encode
ANYONE = Caller("anonymous", frozenset(Right))
"""The caller of an API that requires no token."""


class Access:
    """Accepts or refuses requests. Without ``tokens`` and ``oidc`` every client of the listener has all rights.

    ``hosts`` are the names that a request may have in its header Host beside those of this machine; None: any.
    This stops DNS rebinding: a web page whose host name resolves to this machine sends its own name. With
    ``audits`` the log has a line for every request that changes something.
    """

    def __init__(
        self,
        tokens: TokenFile | None = None,
        hosts: frozenset[str] | None = None,
        *,
        oidc: OidcProvider | None = None,
        audits: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._sessions = Sessions(clock or SystemClock())
        self._tokens = tokens
        self._oidc = oidc
        self._hosts = hosts
        self.audits = audits
        self.running = 0
        """The number of requests that are being answered; only the server's thread changes it."""

    def admit(self, request: Request, body_bytes: int = 0) -> None:
        """Refuse what is refused for any caller. The body may have ``body_bytes``.

        Raises:
          ProblemError: the request is refused.
        """
        headers = request.headers
        host = _host(headers.get("host", ""))
        if self._hosts is not None and host not in self._hosts and not is_loopback(host):
            raise ProblemError(
                Problem.HOST_NOT_ALLOWED,
                f'host "{host[:80]}" is not allowed',
                hint="service.allowed_hosts has the allowed names.",
            )
        if _head_bytes(request) > MOST_HEAD_BYTES:
            raise ProblemError(
                Problem.HEAD_TOO_LARGE, f"the head of the request has more than {MOST_HEAD_BYTES} bytes"
            )
        if _is_cross_site(headers):
            raise ProblemError(Problem.OTHER_SITE, "a web page of another site makes this request")
        _check_size(headers, body_bytes)
        if self.running >= REQUESTS_AT_MOST:
            raise ProblemError(
                Problem.UNAVAILABLE,
                "the service answers too many requests",
                hint="Try again in a few seconds.",
                retry_after_s=RETRY_AFTER_S,
            )

    async def caller(self, request: Request, needed: Right | None = None) -> Caller:
        """Return the caller, by its token or by the cookie of its session.

        Raises:
          ProblemError: it has no valid token, or lacks the right.
          TransientError: the token file, or the keys of the provider, cannot be read.
        """
        if not self.has_tokens:
            return ANYONE
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        known = request.cookies.get(cookie_name(request))
        if scheme.lower() == "bearer" and token.strip():
            token = token.strip()
        elif known is not None:
            token = self._token_of(request, known)
        else:
            raise _unauthenticated("a token is missing")
        found = await self._valid(token)
        if needed is not None and needed not in found.rights:
            message = f'"{found.name}" has {found.described}, and {request.url.path} needs {needed.value}'
            raise ProblemError(
                Problem.RIGHT_MISSING, message, hint=f"Use a token with the right {needed.value}."
            )
        return found

    async def log_in(self, request: Request, token: str) -> tuple[Caller, str]:
        """Begin a session: return the caller with this token, and the id of the session.

        Raises:
          ProblemError: the token is invalid, too many were, or the service has no tokens.
          TransientError: the token file, or the keys of the provider, cannot be read.
        """
        if not self.has_tokens:
            raise ProblemError(
                Problem.NOT_POSSIBLE,
                "the service requires no token",
                hint="Call its paths without one.",
            )
        address = "" if request.client is None else request.client.host
        self._sessions.check_logins(address)
        try:
            found = await self._valid(token.strip())
        except ProblemError:
            self._sessions.login_failed(address)
            raise
        request.state.caller = found
        return found, self._sessions.begin(token.strip())

    async def log_out(self, request: Request) -> None:
        """End the session of a request.

        Raises:
          ProblemError: there is none.
        """
        request.state.caller = await self.caller(request)
        self._sessions.end(request.cookies.get(cookie_name(request), ""))

    @property
    def has_tokens(self) -> bool:
        """Return whether a caller needs a token."""
        return self._tokens is not None or self._oidc is not None

    def _token_of(self, request: Request, known: str) -> str:
        """Return the token of a session.

        Raises:
          ProblemError: a page of another site may have made the request, or the session has ended.
        """
        if not _is_same_origin(request.headers):
            raise ProblemError(
                Problem.OTHER_SITE,
                "the cookie counts only in requests of the service's own pages",
                hint="Programs send a token: Authorization: Bearer TOKEN.",
            )
        token = self._sessions.token(known)
        if token is None:
            raise _unauthenticated("the session has ended")
        return token

    async def _valid(self, token: str) -> Caller:
        """Return the caller with this token.

        Raises:
          ProblemError: it is invalid.
          TransientError: the file, or the keys of the provider, cannot be read.
        """
        try:
            return await self._named(token)
        except InvalidTokenError as error:
            raise _unauthenticated(error.message) from error

    async def _named(self, token: str) -> Caller:
        """Return the caller with this token. The token file has precedence.

        Raises:
          InvalidTokenError: neither the file nor the provider knows the token.
          TransientError: the file, or the keys of the provider, cannot be read.
        """
        found = None if self._tokens is None else self._tokens.caller(token)
        if found is not None:
            return found
        if self._oidc is None:
            raise InvalidTokenError("the token is invalid")
        return await self._oidc.caller(token)


@dataclass(frozen=True, slots=True)
class Page:
    """A declared path of the API, and what answers it."""

    declared: ApiPath
    handler: Handler

    def route(self, access: Access, pipeline: str = "") -> Route:
        """Return the page as a route that checks the caller. ``pipeline`` is the one of the service."""
        declared, right = self.declared, self.declared.right

        async def guarded(request: Request) -> Response:
            try:
                if right is None and declared.is_open:
                    return await self._answer(request, pipeline)
                access.admit(request, declared.body_bytes)
                if right is not None:
                    request.state.caller = await access.caller(request, right)
                answer = await self._counted(request, access, pipeline)
            except Exception as error:  # noqa: BLE001 - every error is a problem of the answer
                answer = answered(problem_of(error, declared.refused, request), request)
            if declared.successor is not None:
                answer.headers["deprecation"] = DEPRECATED_SINCE
                answer.headers["link"] = (
                    f'<{_successor(declared, request, pipeline)}>; rel="successor-version"'
                )
            if right is not Right.READ and declared.method != "GET" and access.audits:
                caller: Caller | None = getattr(request.state, "caller", None)
                _log.info(
                    "audit",
                    caller=None if caller is None else caller.name,
                    client=None if request.client is None else request.client.host,
                    method=declared.method,
                    path=declared.path,
                    status=answer.status_code,
                    request=request_id(request),
                    **getattr(request.state, "effect", {}),
                )
            return answer

        return Route(declared.path, guarded, methods=[declared.method])

    async def _counted(self, request: Request, access: Access, pipeline: str) -> Response:
        access.running += 1
        try:
            return await self._answer(request, pipeline)
        finally:
            access.running -= 1

    async def _answer(self, request: Request, pipeline: str) -> Response:
        if PIPELINE in self.declared.parameters and (given := named(request, PIPELINE)) != pipeline:
            raise ProblemError(
                Problem.UNKNOWN_PIPELINE,
                f'this service runs no pipeline "{given[:80]}"',
                hint=f'It runs "{pipeline}".',
            )
        if self.declared.path.startswith(f"{API}/"):
            request.state.media_type = _acceptable(request, self.declared.media_types)
        if fields := self.declared.parameters_in("body"):
            await read_body(request, fields)
        answer: Awaitable[Any]
        if inspect.iscoroutinefunction(self.handler):
            answer = self.handler(request)
        else:
            answer = run_in_threadpool(self.handler, request)
        found = await answer
        return found if isinstance(found, Response) else written(found)


def _acceptable(request: Request, offered: tuple[str, ...]) -> str:
    """Return the type of the answer.

    Raises:
      ProblemError: the client takes none of those that the path has.
    """
    found = chosen(request.headers.get("accept", ""), offered)
    if found is None:
        raise ProblemError(
            Problem.NOT_ACCEPTABLE,
            "the client does not take any format of this path",
            hint=f"Send the header Accept with {' or '.join(offered)}, or without it.",
        )
    return found


def written(answer: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer as JSON."""
    return Response(_encode(answer), status, headers, media_type=JSON)


def _successor(declared: ApiPath, request: Request, pipeline: str) -> str:
    """Return the address of the path that replaces an alias, relative to it."""
    names = {"pipeline": pipeline, "relation": request.query_params.get("relation", "")}
    path = str(declared.successor).format_map({name: quote(each, safe="") for name, each in names.items()})
    return path.lstrip("/")


def note_effect(request: Request, **effect: object) -> None:
    """Note what a request has changed, for its line in the log."""
    request.state.effect = effect


async def no_page(request: Request, error: Exception) -> Response:
    """Answer a request whose path or method does not exist."""
    pages = [each for each in request.app.routes if each.path_regex.match(request.scope["path"])]
    if not pages:
        found = ProblemError(
            Problem.UNKNOWN_PATH, "the service has no such path", hint=f"See {API}/openapi.json."
        )
    else:
        allowed = ", ".join(sorted({method for each in pages for method in each.methods}))
        found = ProblemError(
            Problem.METHOD_NOT_ALLOWED,
            f"the path does not have the method {request.method[:20]}",
            hint=f"It has {allowed}.",
            headers={"allow": allowed},
        )
    return answered(found, request)


def access_of(
    listen: str,
    tokens_file: str | None,
    *,
    allow_anonymous: bool,
    allowed_hosts: str | None = None,
    oidc: OidcProvider | None = None,
    clock: Clock | None = None,
) -> Access:
    """Return the access rules of a listener; ``allowed_hosts`` are names, separated by commas.

    Raises:
      StatementError: other machines can reach it and no tokens are set, or the token file is invalid.
    """
    host, _ = parse_listen(listen)
    here = is_loopback(host)
    hosts = None
    if here or allowed_hosts is not None:
        given = (each.strip().lower() for each in (allowed_hosts or "").split(","))
        hosts = frozenset(each for each in given if each)
    if tokens_file is not None or oidc is not None:
        tokens = None if tokens_file is None else TokenFile(Path(tokens_file))
        return Access(tokens, hosts, oidc=oidc, audits=True, clock=clock)
    if not here and not allow_anonymous:
        raise StatementError(
            f'other machines can reach the API at "{listen}", and no tokens are set',
            hint='Set service.tokens_file to a file with a line "NAME RIGHTS TOKEN" for each caller, or oidc.issuer '
            "to your OpenID Connect provider, or listen on 127.0.0.1. If something else keeps strangers out, set "
            "service.allow_anonymous to true.",
        )
    return Access(None, hosts, audits=True)


def _host(header: str) -> str:
    """Return the host name of a Host header, without its port."""
    bracketed, bracket, _ = header.partition("]")
    return (bracketed.lstrip("[") if bracket else header.partition(":")[0]).lower()


def _head_bytes(request: Request) -> int:
    """Return the size of address and headers."""
    address = len(request.url.path) + len(request.scope["query_string"])
    return address + sum(len(name) + len(value) for name, value in request.headers.raw)


def _is_cross_site(headers: Headers) -> bool:
    """Return whether a browser sends the request for a page of another site."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        return True
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _is_same_origin(headers: Headers) -> bool:
    """Return whether a browser says that a page of this very service makes the request."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        return False
    return site == "same-origin" if site is not None else origin is not None


def _check_size(headers: Headers, most: int) -> None:
    """Refuse a body of more than ``most`` bytes, or of a size that is not known.

    Raises:
      ProblemError: it is refused, and the connection ends.
    """
    size = headers.get("content-length", "0")
    is_known = "transfer-encoding" not in headers and size.isascii() and size.isdigit()
    # The length first: Python refuses to read thousands of digits.
    if is_known and len(size) < 20 and int(size) <= most:
        return
    problem = Problem.BODY_TOO_LARGE
    if not is_known and most:
        problem = Problem.LENGTH_REQUIRED
        message, hint = "the size of the body is not known", "Send the header Content-Length."
    elif not most:
        message, hint = "the request has a body", "Parameters are part of the address."
    else:
        message, hint = f"the body has more than {most} bytes", "Divide the request into several."
    raise ProblemError(problem, message, hint=hint, headers={"connection": "close"})


def _unauthenticated(message: str) -> ProblemError:
    return ProblemError(
        Problem.UNAUTHENTICATED,
        message,
        hint="Send the header Authorization: Bearer TOKEN; commands take --token-file FILE.",
        headers={"www-authenticate": 'Bearer realm="rowtide"'},
    )
