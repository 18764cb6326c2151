"""The connector and the format pass the contract suites; the connector against a server of HTTP in the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote_to_bytes

import pytest

from rowtide.errors import Reason
from rowtide.testing.contracts import FormatCase, FormatContract, MessageSinkContract, Read, Topic
from rowtide_connectors.api import Guarantee, MessageSink, OutgoingMessage
from rowtide_connectors.errors import (
    DeniedError,
    GoneError,
    OptionError,
    RefusedMessageError,
    UnavailableError,
)
from rowtide_connectors.registry import find_connector, find_message_sink

PREFIX = "Rowtide-Header-"


class Receiver(ThreadingHTTPServer):
    """Stores what it receives, or answers with the code ``answer``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = 200
        self.received: list[tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes]]]] = []
        self.keys: list[str] = []

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def open(self, sender: str) -> MessageSink:
        """Return a sink of this sender."""
        return find_message_sink("webhook").open({"url": self.url}, {"path": "alerts"}, sender, 100_000)

    def read(self) -> Read:
        """Return what was sent."""
        return self.received


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    server: Receiver

    def do_HEAD(self) -> None:
        """Answer only."""
        self.send_response(self.server.answer)
        self.end_headers()

    def do_POST(self) -> None:
        """Store the message."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.answer == 200:
            key = self.headers.get("Rowtide-Key")
            headers = [
                (name.removeprefix(PREFIX).lower(), unquote_to_bytes(value))
                for name, value in self.headers.items()
                if name.startswith(PREFIX)
            ]
            self.server.keys.append(self.headers["Idempotency-Key"])
            self.server.received.append(
                (
                    0,
                    None if key is None else unquote_to_bytes(key),
                    None if self.command == "DELETE" else body,
                    int(self.headers["Rowtide-Timestamp"]),
                    headers,
                )
            )
        self.do_HEAD()

    do_DELETE = do_POST  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Start a server for one test."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class TestSink(MessageSinkContract):
    """The contract of message sinks."""

    guarantee = Guarantee.AT_LEAST_ONCE
    partitions = False

    @pytest.fixture
    def topic(self, receiver: Receiver) -> Topic:
        """Return the server."""
        return receiver


class TestLogfmt(FormatContract):
    """The contract of formats."""

    @pytest.fixture
    def case(self) -> FormatCase:
        """Return messages with their rows, and wrong ones."""
        return FormatCase(
            "LOGFMT",
            "level VARCHAR(5) NOT NULL, text VARCHAR, size INTEGER, seen TIMESTAMP",
            good={
                b'level=error text="disk is \\"full\\"" size=3': ("error", 'disk is "full"', 3, None),
                b' other=1 LEVEL=warn  seen="2024-01-02 03:04:05"\n': ("warn", None, None, 1_704_164_645_000),
                b'level=a level="" text="c:\\\\" size=': ("", "c:\\", None, None),
            },
            bad={
                b"": Reason.MISSING_FIELD,
                b"\xff": Reason.DECODE,
                b"level": Reason.DECODE,
                b'level=error text="disk': Reason.DECODE,
                b'level="a"b=c': Reason.DECODE,
                b"level=longer": Reason.TYPE,
                b"level=error size=many": Reason.TYPE,
            },
        )


def test_a_request_that_is_repeated_has_the_same_key(receiver: Receiver) -> None:
    """Check what lets a receiver ignore what it has processed."""
    for _ in range(2):
        sink = receiver.open("pipe line/1")
        sink.send([OutgoingMessage(7, b"x", 0)], 7)
    assert receiver.keys == ["pipe%20line/1/7"] * 2


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (400, RefusedMessageError),
        (401, DeniedError),
        (404, GoneError),
        (429, UnavailableError),
        (503, UnavailableError),
    ],
)
def test_an_answer_decides_whether_a_message_is_sent_again(
    receiver: Receiver, answer: int, kind: type[Exception]
) -> None:
    """Check the error of each kind of answer."""
    receiver.answer = answer
    with pytest.raises(kind, match=f"answers POST with {answer}"):
        receiver.open("p").send([OutgoingMessage(7, b"x", 0)], 7)


def test_a_server_that_is_down_is_unavailable() -> None:
    """Check an address that nothing listens at."""
    with Receiver() as server:
        url = server.url
    with pytest.raises(UnavailableError, match="does not answer"):
        find_connector("webhook").check({"url": url})
    with pytest.raises(OptionError, match="not an address of HTTP"):
        find_connector("webhook").check({"url": "file:///etc/passwd"})
