"""A receiver of requests over real TCP, which answers as tests want."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote_to_bytes

from rowtide.testing.contracts import Read
from rowtide_connectors.api import MessageSink
from rowtide_connectors.registry import find_message_sink

PREFIX = "rowtide-header-"


@dataclass(frozen=True)
class Received:
    """One request; names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Answer:
    """What the receiver answers; ``drops`` closes the connection instead, after the request was processed."""

    status: int = 200
    text: str = ""
    drops: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


class Receiver(ThreadingHTTPServer):
    """Keeps the requests that it acknowledged, and all that came."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._scheme = "http" if context is None else "https"
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.options: dict[str, str] = {"path": "in"}
        self.server_options: dict[str, str] = {}
        self.came: list[Received] = []
        self.taken: list[Received] = []
        self.connections = 0
        self.answer: Callable[[Received], Answer] = lambda _: Answer()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_address[1]}"

    def open(self, sender: str) -> MessageSink:
        server = {"url": self.url, **self.server_options}
        return find_message_sink("http").open(server, self.options, sender, 100_000)

    def read(self) -> Read:
        """Return the messages of the requests that were taken, of which each has one."""
        return [_message(each) for each in self.taken]


def _message(each: Received) -> tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes]]]:
    key = each.headers.get("rowtide-key")
    headers = [
        (name.removeprefix(PREFIX), unquote_to_bytes(value))
        for name, value in each.headers.items()
        if name.startswith(PREFIX)
    ]
    return (
        0,
        None if key is None else unquote_to_bytes(key),
        None if each.method == "DELETE" else each.body,
        int(each.headers["rowtide-timestamp"]),
        headers,
    )


def rows_of(each: Received) -> list[tuple[int, object]]:
    """Return number and JSON value of each row of a request."""
    first, count = int(each.headers["rowtide-number"]), int(each.headers["rowtide-rows"])
    if "rowtide-timestamp" in each.headers:
        values = [json.loads(each.body)]
    elif each.headers["content-type"] == "application/x-ndjson":
        values = [json.loads(line) for line in each.body.splitlines()]
    else:
        values = json.loads(each.body)
    assert len(values) == count
    return list(enumerate(values, first))


@contextmanager
def receiving(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Run a receiver in threads of this process."""
    with Receiver(context) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Received(self.command, self.path, headers, body)
        answer = self.server.answer(request)
        if request.method != "HEAD":
            self.server.came.append(request)
            if 200 <= answer.status < 300:
                self.server.taken.append(request)
        if answer.drops:
            self.close_connection = True
            return
        text = b"" if request.method == "HEAD" else answer.text.encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def handle(self) -> None:
        # A client that does not trust the certificate ends the handshake.
        with suppress(ssl.SSLError, ConnectionError):
            super().handle()

    do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""
