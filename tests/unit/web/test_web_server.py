"""The HTTP server on a real socket: it answers, refuses a taken port, and gives its port back."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import ExitStack, suppress

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from rowtide.errors import StatementError
from rowtide.web import WebServer
from rowtide.web.server import NEAR, parse_listen


async def hello(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


APP = Starlette(routes=[Route("/", hello)])


def test_a_started_server_answers_and_a_stopped_one_gives_its_port_back() -> None:
    server = WebServer(APP, "127.0.0.1:0")
    server.start()
    try:
        assert httpx.get(server.url, trust_env=False).text == "hello"
        port = int(server.url.rpartition(":")[2])
    finally:
        server.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "rowtide-web"]
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_that_is_taken_is_refused_at_once_with_a_free_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, ExitStack() as held:
        port = taken.getsockname()[1]
        with suppress(OSError):
            # This one is taken, too: by us, or by somebody else.
            held.enter_context(socket.create_server(("127.0.0.1", port + 1)))
        listen = f"127.0.0.1:{port}"
        with pytest.raises(
            StatementError, match=f'cannot listen at "{listen}": address already in use'
        ) as refused:
            WebServer(APP, listen).start()
    hint = refused.value.hint
    assert hint is not None
    assert "service.listen" in hint
    found = re.search(r"--listen 127\.0\.0\.1:(\d+) is free\.$", hint)
    assert found is not None
    assert port + 1 < int(found[1]) <= port + NEAR


def test_a_host_of_another_machine_is_refused() -> None:
    with pytest.raises(StatementError, match="cannot listen at"):
        WebServer(APP, "192.0.2.1:0").start()


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        (":0", "", 0),
        ("[::1]:80", "::1", 80),
        ("host:65535", "host", 65535),
    ],
)
def test_an_address_is_a_host_and_a_port(listen: str, host: str, port: int) -> None:
    assert parse_listen(listen) == (host, port)


@pytest.mark.parametrize(
    "listen", ["8080", "host:", "host:http", "host:65536", "::1:80", "host:-1", "", "host:²"]
)
def test_what_is_no_address_is_refused_by_name(listen: str) -> None:
    with pytest.raises(StatementError, match="is not a host and port") as refused:
        parse_listen(listen)
    assert f'"{listen}"' in refused.value.message
