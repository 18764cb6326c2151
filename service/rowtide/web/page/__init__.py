"""``/ui/``: the page for people. ``service/page`` has its sources, ``assets`` what is built of them.

The page is static: it has no data, so it needs no token; it asks the API for all that it shows. A browser that
comes to ``/`` is sent to it. Names of assets have the hash of their content, so a browser loads each only once.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from rowtide.web import declared
from rowtide.web.access import Page
from rowtide.web.problems import Problem, ProblemError

HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "worker-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types rowtide",
        )
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""What every answer below ``/ui/`` has: only scripts of the page run, and nothing else is loaded or sent."""
INDEX = "index.html"
ASSETS = files(__name__) / "assets"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page, as it is and compressed."""

    content: bytes
    compressed: bytes
    headers: Mapping[str, str]

    def answer(self, request: Request) -> Response:
        """Return the file, compressed if the client takes that, or that the client has it."""
        if self.headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=self.headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.compressed, headers={**self.headers, "Content-Encoding": "gzip"})
        return Response(self.content, headers=self.headers)


@cache
def assets() -> Mapping[str, Asset]:
    """Return the files of the page by name."""
    return {each.name: _asset(each.name, each.read_bytes()) for each in ASSETS.iterdir()}


def page_files() -> list[Page]:
    """Return the page and its files."""

    async def index(request: Request) -> Response:
        return assets()[INDEX].answer(request)

    async def asset(request: Request) -> Response:
        name = request.path_params[declared.ASSET.name]
        if (found := assets().get(name)) is not None:
            return found.answer(request)
        raise ProblemError(
            Problem.UNKNOWN_PATH,
            "the page has no such file",
            hint="Load the page again: /ui/.",
            headers=HEADERS,
        )

    return [Page(declared.UI, index), Page(declared.UI_ASSET, asset)]


def page_redirects() -> list[Route]:
    """Return the routes that lead a browser to the page; they come before those of the API."""

    async def redirect(_request: Request) -> Response:
        # Relative, as a proxy may serve all this below a path of its own.
        return RedirectResponse(
            "ui/", status_code=303, headers={"Vary": "Accept", "Cache-Control": "no-store"}
        )

    return [_ForBrowsers("/", redirect), Route("/ui", redirect)]


class _ForBrowsers(Route):
    """A route of requests that ask for HTML; programs do not."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and "text/html" in Request(scope).headers.get("accept", ""):
            return super().matches(scope)
        return Match.NONE, {}


def _asset(name: str, content: bytes) -> Asset:
    suffix = name[name.rindex(".") :]
    # The names of these have the hash of their content.
    keeps = "public, max-age=31536000, immutable" if suffix in (".css", ".js") else "no-cache"
    headers = {
        **HEADERS,
        "Content-Type": _MEDIA_TYPES[suffix],
        "ETag": f'"{hashlib.sha256(content).hexdigest()[:16]}"',
        "Cache-Control": keeps,
        "Vary": "Accept-Encoding",
    }
    return Asset(content, gzip.compress(content, mtime=0), headers)
