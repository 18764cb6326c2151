"""``/session``: a person logs in with a token and gets a cookie, which stands for it."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from rowtide.web.access import Access, Page, written
from rowtide.web.declared import BODY_BYTES, ApiPath, Parameter
from rowtide.web.parameters import given
from rowtide.web.problems import API, Problem
from rowtide.web.sessions import cookie
from rowtide.web.tokens import Caller, Right


@dataclass(frozen=True, slots=True)
class SessionAnswer:
    """Who calls, and with which rights."""

    caller: str
    rights: list[str]


TOKEN = Parameter("token", "the token of the caller", where="body")
BEGIN = ApiPath(
    f"{API}/session",
    None,
    "Log in with a token. The answer sets a cookie that stands for it, for pages of this service alone.",
    (TOKEN,),
    problems=(Problem.UNAUTHENTICATED, Problem.NOT_POSSIBLE, Problem.TOO_MANY_LOGINS),
    method="POST",
    body_bytes=BODY_BYTES,
    answer=SessionAnswer,
    is_open=False,
)
SHOW = ApiPath(
    f"{API}/session",
    None,
    "Return the caller and its rights.",
    problems=(Problem.UNAUTHENTICATED,),
    answer=SessionAnswer,
    is_open=False,
)
END = ApiPath(
    f"{API}/session",
    None,
    "Log out: the session ends, and the cookie is removed.",
    answers={204: "The session has ended."},
    problems=(Problem.UNAUTHENTICATED,),
    method="DELETE",
    is_open=False,
)
PATHS = (BEGIN, SHOW, END)


def pages(access: Access) -> list[Page]:
    """Return the pages."""

    async def begin(request: Request) -> Response:
        caller, known = await access.log_in(request, given(request, TOKEN))
        return written(_answer(caller), headers={"set-cookie": cookie(request, known)})

    async def show(request: Request) -> SessionAnswer:
        return _answer(await access.caller(request))

    async def end(request: Request) -> Response:
        await access.log_out(request)
        return Response(status_code=204, headers={"set-cookie": cookie(request, "")})

    return [Page(BEGIN, begin), Page(SHOW, show), Page(END, end)]


def _answer(caller: Caller) -> SessionAnswer:
    return SessionAnswer(caller.name, [each.value for each in Right if each in caller.rights])
