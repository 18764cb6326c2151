"""Clients that send nothing, never end, never read or come in crowds, on a real socket."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from rowtide.web import WebServer
from rowtide.web.connections import BoundedConnection
from support.waiting import wait_until

REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LIMIT_S = 0.5
PATIENCE_S = 15.0


async def hello(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


ended: list[float] = []


async def endless(_request: Request) -> StreamingResponse:
    async def lines() -> object:
        try:
            while True:
                yield b"x" * 65536
                await asyncio.sleep(0)
        finally:
            ended.append(time.monotonic())

    return StreamingResponse(lines())  # type: ignore[arg-type]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setattr(BoundedConnection, "request_s", LIMIT_S)
    monkeypatch.setattr(BoundedConnection, "unread_s", LIMIT_S)
    routes = [Route("/", hello, methods=["GET", "POST"]), Route("/endless", endless)]
    made = WebServer(Starlette(routes=routes), "127.0.0.1:0")
    made.start()
    yield made
    made.stop()


def connected(server: WebServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=PATIENCE_S)


def is_answered(client: socket.socket) -> bool:
    """Send a request on a connection that goes on, and read the whole answer."""
    client.sendall(REQUEST)
    answer = b""
    while not answer.endswith(b"hello") and (part := client.recv(65536)):
        answer += part
    return answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"hello")


def is_closed(client: socket.socket) -> bool:
    """Wait for the end of a connection."""
    try:
        while client.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nx",
        REQUEST + b"GET / HT",
        REQUEST + REQUEST + b"G",
    ],
)
def test_a_client_that_does_not_end_its_request_is_disconnected(server: WebServer, sent: bytes) -> None:
    with connected(server) as client:
        client.sendall(sent)
        assert is_closed(client)
    assert httpx.get(server.url, trust_env=False).text == "hello"


def test_a_client_that_trickles_its_request_is_disconnected(server: WebServer) -> None:
    began = time.monotonic()
    with connected(server) as client, pytest.raises(OSError):
        for _ in range(int(PATIENCE_S / 0.1)):
            client.sendall(b"G" if time.monotonic() == began else b"E")
            time.sleep(0.1)
    assert time.monotonic() - began < PATIENCE_S - 1


def test_a_client_that_does_not_read_its_answer_is_disconnected_and_the_answer_ends(
    server: WebServer,
) -> None:
    ended.clear()
    with connected(server) as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        wait_until(lambda: ended)


def test_an_answer_that_takes_longer_than_a_request_may_is_given(server: WebServer) -> None:
    with connected(server) as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        until = time.monotonic() + 3 * LIMIT_S
        while time.monotonic() < until:
            assert client.recv(1 << 20)


def test_clients_beyond_the_limit_are_disconnected_and_those_before_served(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedConnection, "most_connections", 4)
    monkeypatch.setattr(BoundedConnection, "request_s", 60.0)
    before = [connected(server) for _ in range(4)]
    for client in before:
        # Who has an answer has been let in.
        assert is_answered(client)
    with connected(server) as late:
        assert is_closed(late)
    for client in before:
        assert is_answered(client)
        client.close()
