"""Who may ask for what: every page has a right, tokens are checked, and an open port without tokens is refused."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from structlog.testing import capture_logs

from rowtide.errors import StatementError
from rowtide.metrics import Metrics
from rowtide.web import build_monitoring_app
from rowtide.web.access import REQUESTS_AT_MOST, Access, Page, access_of
from rowtide.web.declared import ApiPath
from rowtide.web.server import is_loopback
from rowtide.web.tokens import INCLUDED, Right, TokenFile
from support.web import Pipeline, StoppedClock, address, asked, whole_app

TOKENS = {right: f"the-token-of-{right.value}-0123456789" for right in Right}
OPEN = {
    "/healthz": 200,
    "/readyz": 200,
    "/api/v1/openapi.json": 200,
    "/ui": 303,
    "/ui/": 200,
    "/ui/{asset}": 404,
}
"""Pages that require no token, and what they answer: those of probes, the description of the API, the page itself."""
SESSION = "/api/v1/session"
"""Who calls, with any right: tests/unit/web/test_sessions.py."""
OF_PIPELINE = "/api/v1/pipelines/{pipeline}"
RIGHTS = {
    ("GET", "/"): Right.READ,
    ("GET", "/metrics"): Right.READ,
    ("GET", "/table"): Right.READ,
    ("GET", "/query"): Right.READ,
    ("GET", "/why"): Right.READ,
    ("GET", "/why-not"): Right.READ,
    ("POST", "/snapshot"): Right.OPERATE,
    ("POST", "/execute"): Right.OPERATE,
    ("GET", "/api/v1/pipelines"): Right.READ,
    ("GET", OF_PIPELINE): Right.READ,
    ("GET", f"{OF_PIPELINE}/positions"): Right.READ,
    ("GET", f"{OF_PIPELINE}/commits"): Right.READ,
    ("GET", f"{OF_PIPELINE}/decisions"): Right.READ,
    ("GET", f"{OF_PIPELINE}/relations/{{relation}}/why-not"): Right.READ,
    ("GET", f"{OF_PIPELINE}/relations/{{relation}}/rows"): Right.READ,
    ("GET", f"{OF_PIPELINE}/relations/{{relation}}/rows/latest"): Right.READ,
    ("POST", f"{OF_PIPELINE}/explanations"): Right.READ,
    ("POST", f"{OF_PIPELINE}/queries"): Right.READ,
    ("GET", f"{OF_PIPELINE}/queries/{{query}}/rows"): Right.READ,
    ("DELETE", f"{OF_PIPELINE}/queries/{{query}}"): Right.READ,
    ("POST", f"{OF_PIPELINE}/statements"): Right.OPERATE,
    ("GET", f"{OF_PIPELINE}/snapshots"): Right.READ,
    ("POST", f"{OF_PIPELINE}/snapshots"): Right.OPERATE,
    ("GET", f"{OF_PIPELINE}/errors"): Right.READ,
    ("GET", f"{OF_PIPELINE}/errors/{{number}}"): Right.READ,
    ("POST", f"{OF_PIPELINE}/errors/resubmissions"): Right.OPERATE,
    ("GET", f"{OF_PIPELINE}/graph"): Right.READ,
    ("GET", f"{OF_PIPELINE}/relations"): Right.READ,
    ("GET", f"{OF_PIPELINE}/relations/{{relation}}"): Right.READ,
    ("GET", f"{OF_PIPELINE}/events"): Right.READ,
    ("GET", f"{OF_PIPELINE}/history"): Right.READ,
}


def tokens_in(folder: Path, *lines: str, mode: int = 0o600) -> Path:
    file = folder / "tokens"
    file.write_text("\n".join(lines) + "\n")
    file.chmod(mode)
    return file


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    hashed = hashlib.sha256(TOKENS[Right.READ].encode()).hexdigest()
    return tokens_in(
        tmp_path,
        "# who may call",
        f"looker read sha256:{hashed}",
        "",
        f"operations operate {TOKENS[Right.OPERATE]}  # on call",
        f"chief admin {TOKENS[Right.ADMIN]}",
        f"door post {TOKENS[Right.POST]}",
    )


def routes_of(app: Starlette) -> list[tuple[str, str]]:
    found = []
    for route in app.routes:
        assert isinstance(route, Route), f"{route} is not a page with a role"
        found += [(method, route.path) for method in sorted(route.methods or ())]
    return found


def test_every_page_needs_its_role_and_a_request_without_it_is_refused(tokens: Path) -> None:
    app = whole_app(Access(TokenFile(tokens)))
    routes = routes_of(app)
    found = {(method, path) for method, path in routes if path not in {*OPEN, SESSION} and method != "HEAD"}
    assert found == RIGHTS.keys()
    assert {path for _, path in routes} >= OPEN.keys()
    for method, path in routes:
        if path == SESSION:
            continue
        if path in OPEN:
            assert asked(app, method, address(path)).status_code == OPEN[path]
            continue
        for token in (None, "", "nonsense", TOKENS[Right.READ][:-1], hashlib.sha256(b"x").hexdigest()):
            refused = asked(app, method, address(path), token)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (
                401,
                'Bearer realm="rowtide"',
            )
        for right, token in TOKENS.items():
            status = asked(app, method, address(path), token).status_code
            needed = RIGHTS["GET" if method == "HEAD" else method, path]
            has_it = needed in {right, *INCLUDED.get(right, ())}
            assert (status == 403) == (not has_it), (method, path, right)
            assert status != 401


def test_a_line_may_name_several_rights(tmp_path: Path) -> None:
    file = tokens_in(tmp_path, f"door read,post {TOKENS[Right.POST]}", f"one operate {TOKENS[Right.OPERATE]}")
    read = TokenFile(file)
    door, one = read.caller(TOKENS[Right.POST]), read.caller(TOKENS[Right.OPERATE])
    assert door is not None and one is not None
    assert door.rights == {Right.READ, Right.POST}
    assert one.rights == {Right.READ, Right.OPERATE}


@pytest.mark.parametrize(
    ("takes", "headers", "status"),
    [
        (0, {}, 200),
        (0, {"content-length": "0"}, 200),
        (0, {"content-length": "1"}, 413),
        (0, {"transfer-encoding": "chunked"}, 413),
        (8, {"content-length": "8"}, 200),
        (8, {"content-length": "9"}, 413),
        (8, {"content-length": "9" * 5000}, 413),
        (8, {"content-length": "-1"}, 411),
        (8, {"transfer-encoding": "chunked"}, 411),
        (8, {"transfer-encoding": "chunked", "content-length": "8"}, 411),
    ],
)
def test_a_page_takes_a_body_of_the_size_that_it_declares(
    takes: int, headers: dict[str, str], status: int
) -> None:
    async def done(_request: Request) -> Response:
        return PlainTextResponse("done")

    page = Page(ApiPath("/", Right.READ, "Answer.", body_bytes=takes), done)
    app = Starlette(routes=[page.route(Access())])

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            request = client.build_request("GET", "/")
            request.headers.update(headers)
            return await client.send(request)

    assert asyncio.run(ask()).status_code == status


def test_the_monitoring_listener_asks_for_no_token() -> None:
    app = build_monitoring_app(Pipeline(), Metrics(), StoppedClock())
    for method, path in routes_of(app):
        assert asked(app, method, path).status_code == 200


def test_a_refusal_says_what_is_missing_and_never_the_token(tokens: Path) -> None:
    app = whole_app(Access(TokenFile(tokens)))
    refused = asked(app, "POST", "/snapshot", TOKENS[Right.READ])
    assert refused.json()["error"] == '"looker" has the rights read, and /snapshot needs operate'
    for answer in (refused, asked(app, "GET", "/", "nonsense-nonsense")):
        assert TOKENS[Right.READ] not in answer.text
        assert "nonsense-nonsense" not in answer.text


def test_other_schemes_are_no_token(tokens: Path) -> None:
    app = whole_app(Access(TokenFile(tokens)))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://h") as client:
            return await client.get("/", headers={"Authorization": f"Basic {TOKENS[Right.ADMIN]}"})

    assert asyncio.run(ask()).status_code == 401


def test_a_changed_file_counts_at_once_and_an_invalid_one_lets_no_one_in(tokens: Path) -> None:
    app = whole_app(Access(TokenFile(tokens)))
    former, newer = TOKENS[Right.OPERATE], "a-token-that-came-later"
    with capture_logs() as logs:
        tokens_in(tokens.parent, f"operations operate {newer}")
        assert asked(app, "GET", "/", newer).status_code == 200
        assert asked(app, "GET", "/", former).status_code == 401
        tokens_in(tokens.parent, "operations operate short")
        for _ in range(2):
            assert asked(app, "GET", "/", newer).status_code == 503
        tokens.unlink()
        assert asked(app, "GET", "/", newer).status_code == 503
        tokens_in(tokens.parent, f"operations operate {newer}")
        assert asked(app, "GET", "/", newer).status_code == 200
    events = [each["event"] for each in logs]
    assert events == ["tokens_changed", "tokens_invalid", "tokens_invalid", "tokens_changed"]
    assert newer not in str(logs)


def test_a_file_that_is_replaced_by_one_of_the_same_size_and_time_counts(tokens: Path) -> None:
    """As Kubernetes changes a mounted Secret: by another file under the same name."""
    read = TokenFile(tokens)
    other = tokens.with_name("other")
    other.write_text(tokens.read_text().replace(TOKENS[Right.ADMIN], TOKENS[Right.ADMIN][::-1]))
    other.chmod(0o600)
    found = tokens.stat()
    os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))
    other.replace(tokens)
    assert read.caller(TOKENS[Right.ADMIN]) is None
    assert read.caller(TOKENS[Right.ADMIN][::-1]) is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("operations operate", "does not have three words"),
        ("operations operate one two-two-two-two-two", "does not have three words"),
        ("operations root a-token-that-is-long", 'right "root" does not exist'),
        ("operations operate a-short-token", "fewer than 16 characters"),
        ("operations operate sha256:abc", "is not a SHA-256"),
        ("operations operate sha256:" + "A" * 64, "is not a SHA-256"),
        ("# nothing else", "has no token"),
    ],
)
def test_an_invalid_file_is_refused_with_its_line_and_without_its_text(
    tmp_path: Path, line: str, said: str
) -> None:
    with pytest.raises(StatementError, match=said) as refused:
        TokenFile(tokens_in(tmp_path, "", line))
    assert refused.value.hint is not None
    for word in line.split()[2:]:
        assert word not in refused.value.render()


def test_a_token_of_two_callers_is_refused(tmp_path: Path) -> None:
    same = hashlib.sha256(TOKENS[Right.READ].encode()).hexdigest()
    file = tokens_in(tmp_path, f"one read {TOKENS[Right.READ]}", f"two admin sha256:{same}")
    with pytest.raises(StatementError, match="appears twice") as refused:
        TokenFile(file)
    assert refused.value.place is not None
    assert refused.value.place.line == 2


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602, 0o620, 0o601])
def test_a_file_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    file = tokens_in(tmp_path, f"one read {TOKENS[Right.READ]}", mode=mode)
    with pytest.raises(StatementError, match="others may read or change it") as refused:
        TokenFile(file)
    assert refused.value.hint == f"chmod 600 {file}"


def test_a_group_may_read_a_mounted_secret(tmp_path: Path) -> None:
    file = tokens_in(tmp_path, f"one read {TOKENS[Right.READ]}", mode=0o440)
    assert TokenFile(file).caller(TOKENS[Right.READ]) is not None


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("host.example", False),
        ("127.0.0.1.example", False),
    ],
)
def test_only_this_machine_reaches_a_loopback_address(host: str, here: bool) -> None:
    assert is_loopback(host) == here
    listen = f"[{host}]:8080" if ":" in host else f"{host}:8080"
    if here:
        assert asked(whole_app(access_of(listen, None, allow_anonymous=False)), "GET", "/").status_code == 200
    else:
        with pytest.raises(StatementError, match="no tokens are set") as refused:
            access_of(listen, None, allow_anonymous=False)
        assert "service.tokens_file" in str(refused.value.hint)
        assert asked(whole_app(access_of(listen, None, allow_anonymous=True)), "GET", "/").status_code == 200


def test_tokens_count_at_a_loopback_address_too(tokens: Path) -> None:
    app = whole_app(access_of("127.0.0.1:8080", str(tokens), allow_anonymous=True))
    assert asked(app, "GET", "/").status_code == 401


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8080", True),
        ("localhost:8080", True),
        ("LOCALHOST", True),
        ("[::1]:8080", True),
        ("rows.example", True),
        ("rows.example:9000", True),
        ("evil.example", False),
        ("evil.example:8080", False),
        ("127.0.0.1.evil.example:8080", False),
        ("[evil]:8080", False),
        ("", False),
        ("192.0.2.1:8080", False),
    ],
)
def test_a_page_whose_name_is_made_to_lead_here_is_refused(host: str, allowed: bool) -> None:
    access = access_of("127.0.0.1:8080", None, allow_anonymous=False, allowed_hosts="rows.example, other")
    app = whole_app(access)
    for method, path in routes_of(app):
        refused = asked(app, method, address(path), host=host).status_code == 403
        assert refused == (not allowed and path not in OPEN), path


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}],
)
def test_every_page_refuses_the_requests_of_other_sites_whatever_their_token(
    headers: dict[str, str], tokens: Path
) -> None:
    app = whole_app(Access(TokenFile(tokens)))
    for method, path in routes_of(app):
        answer = asked(app, method, address(path), TOKENS[Right.ADMIN], **headers)
        assert (answer.status_code == 403) == (path not in OPEN), path


def test_any_name_may_lead_to_a_listener_that_asks_for_a_token_unless_names_are_set(tokens: Path) -> None:
    for names, status in ((None, 200), ("rows.example", 403)):
        access = access_of("0.0.0.0:0", str(tokens), allow_anonymous=False, allowed_hosts=names)
        token = TOKENS[Right.READ]
        assert asked(whole_app(access), "GET", "/", token, host="else.example").status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "same-origin", "origin": "http://127.0.0.1:8080"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"content_length": "5"}, 413),
        ({"transfer_encoding": "chunked"}, 413),
        ({"content_length": "0"}, 200),
        ({"x": "a" * 30_000}, 200),
        ({"x": "a" * 33_000}, 431),
    ],
)
def test_pages_of_other_sites_and_bodies_are_refused(headers: dict[str, str], status: int) -> None:
    app = whole_app(access_of("127.0.0.1:8080", None, allow_anonymous=False))
    assert asked(app, "GET", "/", **headers).status_code == status
    assert asked(app, "POST", "/snapshot", **headers).status_code == status


def test_more_requests_than_can_be_answered_are_refused_and_health_is_not() -> None:
    access = Access()
    app = whole_app(access)
    access.running = REQUESTS_AT_MOST
    assert asked(app, "GET", "/").status_code == 503
    assert asked(app, "GET", "/healthz").status_code == 200
    access.running -= 1
    for _ in range(2):
        assert asked(app, "GET", "/").status_code == 200


def test_every_request_that_changes_something_is_in_the_log_with_its_caller_and_outcome(tokens: Path) -> None:
    app = whole_app(access_of("127.0.0.1:0", str(tokens), allow_anonymous=False))
    for method, path in routes_of(app):
        if RIGHTS.get((method, path)) is not Right.OPERATE:
            continue
        for token, caller, statuses in (
            (TOKENS[Right.OPERATE], "operations", (200, 415)),
            (TOKENS[Right.READ], None, (403,)),
            ("stranger-stranger", None, (401,)),
        ):
            with capture_logs() as logs:
                answer = asked(
                    app, method, f"{address(path)}?hidden=in-the-address&sql=in-the-address", token
                )
            assert logs == [
                {
                    "event": "audit",
                    "log_level": "info",
                    "caller": caller,
                    "client": "127.0.0.1",
                    "method": method,
                    "path": path,
                    "status": answer.status_code,
                    "request": answer.headers["x-request-id"],
                }
            ]
            assert answer.status_code in statuses
    with capture_logs() as logs:
        asked(app, "GET", "/table?relation=T", TOKENS[Right.READ])
        asked(app, "GET", "/query?sql=SELECT", TOKENS[Right.READ])
        asked(app, "POST", address(f"{OF_PIPELINE}/queries"), TOKENS[Right.READ], {"sql": "SELECT"})
    assert logs == []
    with capture_logs() as logs:
        asked(whole_app(access_of("127.0.0.1:0", None, allow_anonymous=False)), "POST", "/snapshot")
    assert [(each["caller"], each["status"]) for each in logs] == [("anonymous", 200)]


def test_an_address_has_a_size() -> None:
    app = whole_app(Access())
    assert asked(app, "GET", "/table?relation=" + "a" * 30_000).status_code == 200
    assert asked(app, "GET", "/table?relation=" + "a" * 33_000).status_code == 431
