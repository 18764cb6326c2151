"""Sessions of people: what their cookie is, for which requests it counts, and when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from structlog.testing import capture_logs

from rowtide.web.access import Access
from rowtide.web.oidc import OidcProvider
from rowtide.web.sessions import FAILED_LOGINS, IDLE_S, SESSIONS_AT_MOST, Sessions
from rowtide.web.tokens import Caller, InvalidTokenError, Right, TokenFile
from support.web import StoppedClock, address, whole_app

LOOKER, OPS = "looker-looker-looker", "operations-operations"
SESSION = "/api/v1/session"
ROOT = "/api/v1/pipelines"
LOCAL, PUBLIC = "http://127.0.0.1:8080", "https://rows.example"
OWN_PAGE = {"sec-fetch-site": "same-origin"}


class Site:
    """A service with tokens, called by a browser."""

    def __init__(self, folder: Path, base: str = LOCAL) -> None:
        self.file = folder / "tokens"
        self.write(f"looker read {LOOKER}", f"ops operate {OPS}")
        self.clock = StoppedClock()
        self.access = Access(TokenFile(self.file), audits=True, clock=self.clock)
        self.app: Starlette = whole_app(self.access)
        self.base = base
        self.cookie: str | None = None

    def write(self, *lines: str) -> None:
        self.file.write_text("\n".join(lines) + "\n")
        self.file.chmod(0o600)

    def call(
        self, method: str, path: str, body: object = None, client: str = "127.0.0.1", **more: str
    ) -> httpx.Response:
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        if self.cookie is not None:
            headers["cookie"] = self.cookie

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=(client, 9))
            async with httpx.AsyncClient(transport=transport, base_url=self.base) as browser:
                return await browser.request(method, path, headers=headers, json=body)

        return asyncio.run(ask())

    def page(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Call as a page of the service does."""
        return self.call(method, path, body, sec_fetch_site="same-origin", origin=self.base)

    def log_in(self, token: str = LOOKER) -> httpx.Response:
        answer = self.page("POST", SESSION, {"token": token})
        if answer.status_code == 200:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize(
    ("base", "name", "attributes"),
    [
        (LOCAL, "rowtide", ["Path=/", "HttpOnly", "SameSite=Strict"]),
        ("http://localhost:8080", "rowtide", ["Path=/", "HttpOnly", "SameSite=Strict"]),
        (PUBLIC, "__Host-rowtide", ["Path=/", "HttpOnly", "SameSite=Strict", "Secure"]),
        ("https://127.0.0.1:8080", "__Host-rowtide", ["Path=/", "HttpOnly", "SameSite=Strict", "Secure"]),
        # Behind a proxy that ends TLS: the browser sees HTTPS.
        ("http://rows.example", "__Host-rowtide", ["Path=/", "HttpOnly", "SameSite=Strict", "Secure"]),
    ],
)
def test_the_cookie_is_one_that_no_script_and_no_other_site_can_use(
    base: str, name: str, attributes: list[str], tmp_path: Path
) -> None:
    site = Site(tmp_path, base)
    answer = site.log_in()
    assert answer.json() == {"caller": "looker", "rights": ["read"]}
    held, *found = answer.headers["set-cookie"].split("; ")
    assert (held.partition("=")[0], found) == (name, attributes)
    assert len(held.partition("=")[2]) >= 43
    assert site.page("GET", ROOT).status_code == 200
    assert site.page("GET", SESSION).json() == {"caller": "looker", "rights": ["read"]}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"origin": LOCAL}, 200),
        ({"sec_fetch_site": "same-origin", "origin": LOCAL}, 200),
        ({}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"sec_fetch_site": "none", "origin": LOCAL}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "same-origin", "origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
    ],
)
def test_a_cookie_counts_only_in_requests_of_the_services_own_pages(
    headers: dict[str, str], status: int, site: Site
) -> None:
    site.log_in(OPS)
    for method, path in (("GET", ROOT), ("POST", address("/api/v1/pipelines/{pipeline}/snapshots"))):
        answer = site.call(method, path, **headers)
        assert (answer.status_code, method) == (status, method)
        assert status == 200 or answer.json()["type"] == "urn:rowtide:problem:other-site"


WITHOUT_A_TOKEN = {
    "/healthz": 200,
    "/readyz": 200,
    "/api/v1/openapi.json": 200,
    "/ui": 303,
    "/ui/": 200,
    "/ui/{asset}": 404,
}
"""Paths that anybody may read, and what they answer; the page is without data."""


def test_no_path_takes_a_cookie_without_an_origin(site: Site) -> None:
    site.log_in(OPS)
    for route in site.app.routes:
        assert isinstance(route, Route)
        for method in sorted(route.methods or ()):
            answer = site.call(method, address(route.path))
            is_login = (method, route.path) == ("POST", SESSION)
            expected = WITHOUT_A_TOKEN.get(route.path, 415 if is_login else 403)
            assert answer.status_code == expected, (method, route.path)


def test_a_token_in_the_header_counts_beside_a_cookie_and_needs_no_origin(site: Site) -> None:
    site.log_in()
    answer = site.call("GET", SESSION, authorization=f"Bearer {OPS}")
    assert answer.json() == {"caller": "ops", "rights": ["read", "operate"]}


def test_a_session_has_the_rights_of_its_token(site: Site) -> None:
    site.log_in()
    refused = site.page("POST", address("/api/v1/pipelines/{pipeline}/snapshots"))
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:rowtide:problem:right-missing")
    site.write(f"looker operate {LOOKER}")
    assert site.page("POST", address("/api/v1/pipelines/{pipeline}/snapshots")).status_code == 200


@pytest.mark.parametrize("known", ["chosen-by-somebody-else", "", "a" * 43])
def test_an_id_that_the_service_has_not_given_is_no_session(known: str, site: Site) -> None:
    site.cookie = f"rowtide={known}"
    assert site.page("GET", ROOT).status_code == 401
    assert site.log_in().status_code == 200
    first = site.cookie
    assert first != f"rowtide={known}"
    # The browser has a session already: another login gives another id.
    site.log_in()
    assert site.cookie not in (first, f"rowtide={known}")


def leaves_the_file(site: Site) -> None:
    site.write(f"ops operate {OPS}")


def is_idle(site: Site) -> None:
    site.clock.sleep(IDLE_S + 1)


def logs_out(site: Site) -> None:
    answer = site.page("DELETE", SESSION)
    assert answer.status_code == 204
    assert answer.headers["set-cookie"] == "rowtide=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"


def starts_again(site: Site) -> None:
    site.app = whole_app(Access(TokenFile(site.file), clock=site.clock))


@pytest.mark.parametrize("ends", [leaves_the_file, is_idle, logs_out, starts_again])
def test_a_session_ends(ends: Callable[[Site], None], site: Site) -> None:
    site.log_in()
    ends(site)
    answer = site.page("GET", ROOT)
    assert (answer.status_code, answer.json()["type"]) == (401, "urn:rowtide:problem:unauthenticated")


def test_a_session_that_is_used_lasts(site: Site) -> None:
    site.log_in()
    for _ in range(4):
        site.clock.sleep(IDLE_S - 1)
        assert site.page("GET", ROOT).status_code == 200


def test_a_session_lasts_no_longer_than_the_token_of_a_provider() -> None:
    class Provider:
        is_over = False

        async def caller(self, _token: str) -> Caller:
            if self.is_over:
                raise InvalidTokenError("the token has expired")
            return Caller("ann", frozenset({Right.READ}))

    provider = Provider()
    access = Access(None, oidc=cast("OidcProvider", provider))
    site = cast("Any", Site).__new__(Site)
    site.app, site.base, site.cookie = whole_app(access), LOCAL, None
    assert site.log_in("a-token-of-the-provider").status_code == 200
    assert site.page("GET", ROOT).status_code == 200
    provider.is_over = True
    assert site.page("GET", ROOT).json()["detail"] == "the token has expired"


def test_of_too_many_sessions_the_one_used_least_recently_ends() -> None:
    sessions = Sessions(StoppedClock())
    first, second = sessions.begin("one"), sessions.begin("two")
    for _ in range(SESSIONS_AT_MOST - 2):
        sessions.begin("more")
    assert sessions.token(first) == "one"
    sessions.begin("last")
    assert (sessions.token(first), sessions.token(second)) == ("one", None)


def test_failed_logins_of_an_address_are_limited_and_those_of_others_are_not(site: Site) -> None:
    for _ in range(FAILED_LOGINS):
        assert site.log_in("guessed-guessed-guessed").status_code == 401
    refused = site.log_in()
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    assert refused.json()["type"] == "urn:rowtide:problem:too-many-logins"
    other = site.call("POST", SESSION, {"token": LOOKER}, client="192.0.2.7")
    assert other.status_code == 200
    site.clock.sleep(61)
    assert site.log_in().status_code == 200


@pytest.mark.parametrize("path", [SESSION])
def test_a_login_of_another_site_is_refused(path: str, site: Site) -> None:
    answer = site.call("POST", path, {"token": LOOKER}, origin="http://evil.example")
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


def test_logins_are_in_the_log_and_their_tokens_and_ids_are_not(site: Site) -> None:
    with capture_logs() as logs:
        site.log_in()
        site.page("DELETE", SESSION)
        site.cookie = None
        site.log_in("guessed-guessed-guessed")
    assert [(each["caller"], each["method"], each["path"], each["status"]) for each in logs] == [
        ("looker", "POST", SESSION, 200),
        ("looker", "DELETE", SESSION, 204),
        (None, "POST", SESSION, 401),
    ]
    assert LOOKER not in str(logs)
    assert "guessed" not in str(logs)


def test_a_service_without_tokens_has_no_sessions() -> None:
    site = cast("Any", Site).__new__(Site)
    site.app, site.base, site.cookie = whole_app(Access()), LOCAL, None
    answer = site.log_in()
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:rowtide:problem:not-possible")
    assert site.call("GET", SESSION).json() == {
        "caller": "anonymous",
        "rights": ["read", "post", "operate", "admin"],
    }
