"""Rows as HTTP requests: what a request has, what each answer means, batches, connections, options, secrets."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from rowtide_connectors.api import OutgoingMessage
from rowtide_connectors.errors import (
    ConnectorError,
    DeniedError,
    OptionError,
    RefusedMessageError,
    UnavailableError,
)
from rowtide_connectors.http.connector import OPTIONS
from rowtide_connectors.options import redacted
from rowtide_connectors.registry import find_connector, find_message_sink
from support.http import Answer, Received, Receiver, receiving, rows_of

SECRETS = {"authorization": "Bearer s3cret", "headers": '{"X-Api-Key": "k3y"}'}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        server.server_options = dict(SECRETS)
        server.options = {"path": "/in/t0ken?x=1"}
        yield server


def rows(first: int, last: int) -> list[OutgoingMessage]:
    return [
        OutgoingMessage(number, b'{"n":%d}' % number, 1_000 + number) for number in range(first, last + 1)
    ]


def send(receiver: Receiver, messages: Sequence[OutgoingMessage], sender: str = "p-ALERTS-1") -> None:
    sink = receiver.open(sender)
    try:
        sink.send(messages, messages[-1].number)
    finally:
        sink.close()


def test_a_request_has_row_number_time_and_headers(receiver: Receiver) -> None:
    message = OutgoingMessage(7, b'{"n":1}', 1_234, "k é".encode(), [("kind", b"a/b\xff")])
    send(receiver, [message], "pipe line-A")
    (request,) = receiver.taken
    assert (request.method, request.path, request.body) == ("POST", "/in/t0ken?x=1", b'{"n":1}')
    wanted = {
        "idempotency-key": "pipe%20line-A/7",
        "rowtide-sender": "pipe%20line-A",
        "rowtide-number": "7",
        "rowtide-rows": "1",
        "rowtide-timestamp": "1234",
        "rowtide-key": "k%20%C3%A9",
        "rowtide-header-kind": "a/b%FF",
        "content-type": "application/json",
        "authorization": "Bearer s3cret",
        "x-api-key": "k3y",
    }
    assert wanted.items() <= request.headers.items()


def test_a_message_without_a_value_is_a_delete(receiver: Receiver) -> None:
    receiver.options |= {"method": "put"}
    send(receiver, [OutgoingMessage(1, b"1", 0, b"a"), OutgoingMessage(2, None, 0, b"a")])
    assert [(each.method, each.headers["rowtide-key"]) for each in receiver.taken] == [
        ("PUT", "a"),
        ("DELETE", "a"),
    ]


@pytest.mark.parametrize("form", ["json", "lines"])
def test_batches_have_at_most_their_rows_in_order(receiver: Receiver, form: str) -> None:
    receiver.options |= {"batch_rows": "3", "batch_format": form}
    keyed = OutgoingMessage(6, b'{"n":6}', 1_006, b"k")
    send(receiver, [*rows(1, 5), keyed, *rows(7, 8)])
    assert [each.headers["idempotency-key"] for each in receiver.taken] == [
        f"p-ALERTS-1/{numbers}" for numbers in ("1-3", "4-5", "6", "7-8")
    ]
    assert [row for each in receiver.taken for row in rows_of(each)] == [(n, {"n": n}) for n in range(1, 9)]


def test_a_batch_is_not_larger_than_a_message_may_be() -> None:
    with receiving() as receiver:
        receiver.options |= {"batch_rows": "100"}
        big = [OutgoingMessage(number, b'"%s"' % (b"x" * 40_000), 0) for number in range(1, 6)]
        send(receiver, big)
        assert [each.headers["rowtide-rows"] for each in receiver.taken] == ["2", "2", "1"]


def test_a_refused_row_of_a_batch_is_found_and_those_before_it_are_sent_once(receiver: Receiver) -> None:
    receiver.options |= {"batch_rows": "8"}
    receiver.answer = lambda request: Answer(422 if b'"n":6' in request.body else 200, "n is\n wrong")
    sink = receiver.open("p")
    for _ in range(2):
        with pytest.raises(RefusedMessageError, match="answers POST with 422: n is wrong") as refused:
            sink.send(rows(1, 8), 8)
        assert refused.value.number == 6
    receiver.answer = lambda _: Answer()
    sink.send(rows(1, 8), 8)
    sink.close()
    assert [number for each in receiver.taken for number, _ in rows_of(each)] == list(range(1, 9))


@pytest.mark.parametrize(
    ("status", "kind", "hint"),
    [
        (301, UnavailableError, "final address"),
        (400, RefusedMessageError, "Correct the receiver"),
        (401, DeniedError, "ROWTIDE_SERVERS__NAME__AUTHORIZATION"),
        (403, DeniedError, "ROWTIDE_SERVERS__NAME__AUTHORIZATION"),
        (404, UnavailableError, '"url" and "path"'),
        (413, RefusedMessageError, "Correct the receiver"),
        (429, UnavailableError, None),
        (500, UnavailableError, None),
        (503, UnavailableError, None),
    ],
)
def test_an_answer_decides_what_follows_and_shows_no_secret(
    receiver: Receiver, status: int, kind: type[ConnectorError], hint: str | None
) -> None:
    receiver.answer = lambda _: Answer(status, headers={"Location": "/in/t0ken"})
    with pytest.raises(UnavailableError, match=f"answers POST with {status}") as raised:
        send(receiver, rows(1, 1))
    assert type(raised.value) is kind
    assert (hint or "") in (raised.value.hint or "")
    shown = f"{raised.value.message} {raised.value.hint}"
    assert receiver.url in shown
    assert not any(secret in shown for secret in ("s3cret", "k3y", "t0ken"))


def test_requests_share_a_connection_and_a_closed_one_is_replaced(receiver: Receiver) -> None:
    sink = receiver.open("p")
    sink.check()
    sink.send(rows(1, 5), 5)
    assert receiver.connections == 1
    receiver.answer = lambda request: Answer(
        drops=request.headers["rowtide-number"] == "6" and len(receiver.came) < 6
    )
    # The answer to 6 is lost: the request is repeated on a new connection, with the same key.
    sink.send(rows(6, 7), 7)
    sink.close()
    assert receiver.connections == 2
    keys = [each.headers["idempotency-key"] for each in receiver.taken]
    assert keys == [f"p/{number}" for number in (1, 2, 3, 4, 5, 6, 6, 7)]


def test_after_a_failure_only_what_was_not_acknowledged_is_sent_again(receiver: Receiver) -> None:
    failures = iter((Answer(), Answer(), Answer(503)))
    receiver.answer = lambda _: next(failures, Answer())
    sink = receiver.open("p")
    with pytest.raises(UnavailableError):
        sink.send(rows(1, 4), 4)
    assert sink.begin() is None
    sink.send(rows(1, 4), 4)
    sink.close()
    assert [each.headers["rowtide-number"] for each in receiver.taken] == ["1", "2", "3", "4"]


def test_a_receiver_that_does_not_answer_in_time_is_unavailable() -> None:
    with receiving() as receiver:
        answered = threading.Event()
        receiver.server_options = {"timeout_s": "0.05"}
        receiver.answer = lambda _: Answer(200 if answered.wait(60) else 500)
        try:
            with pytest.raises(UnavailableError, match="does not answer: it timed out"):
                send(receiver, rows(1, 1))
        finally:
            answered.set()


def test_a_receiver_that_is_down_or_speaks_no_http_is_unavailable() -> None:
    connector = find_connector("http")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def speak() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        with pytest.raises(UnavailableError, match="does not answer"):
            connector.check({"url": url})
        thread.join(60)
    with pytest.raises(UnavailableError, match="does not answer"):
        connector.check({"url": url})


def test_a_certificate_is_checked_against_the_authorities_of_the_option(tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    names = ("-subj", "/CN=hooks", "-addext", "subjectAltName=IP:127.0.0.1")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    files = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run(["openssl", "req", "-x509", *curve, *files, *names], capture_output=True, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with receiving(context) as receiver:
        assert receiver.url.startswith("https://")
        with pytest.raises(UnavailableError, match="certificate verify failed") as unknown:
            send(receiver, rows(1, 1))
        assert "ca_location" in str(unknown.value.hint)
        receiver.server_options["ca_location"] = str(certificate)
        send(receiver, rows(1, 2))
        assert [each.headers["rowtide-number"] for each in receiver.taken] == ["1", "2"]


@pytest.mark.parametrize("status", [200, 403, 404, 405, 501])
def test_any_answer_shows_that_the_server_is_up(receiver: Receiver, status: int) -> None:
    receiver.answer = lambda _: Answer(status)
    assert (
        find_connector("http").check({"url": receiver.url}) == f'"{receiver.url}" answers HEAD with {status}'
    )
    receiver.open("p").check()
    assert not receiver.came


def test_wrong_credentials_end_a_start(receiver: Receiver) -> None:
    def answer(request: Received) -> Answer:
        return Answer(200 if request.headers.get("authorization") == "Bearer right" else 401)

    receiver.answer = answer
    with pytest.raises(DeniedError, match="answers HEAD with 401"):
        receiver.open("p").check()
    receiver.server_options["authorization"] = "Bearer right"
    receiver.open("p").check()


@pytest.mark.parametrize(
    ("server", "stream", "option"),
    [
        ({"url": "ftp://h"}, {}, "url"),
        ({"url": "http:///x"}, {}, "url"),
        ({"url": "http://h:x"}, {}, "url"),
        ({"url": "http://u:p@h"}, {}, "url"),
        ({"url": "http://h?token=1"}, {}, "url"),
        ({"timeout_s": "0"}, {}, "timeout_s"),
        ({"headers": "X-Key: 1"}, {}, "headers"),
        ({"headers": '{"X-Key": 1}'}, {}, "headers"),
        ({"headers": '{"X Key": "1"}'}, {}, "headers"),
        ({"headers": '{"Host": "h"}'}, {}, "headers"),
        ({"headers": '{"X-Key": "k3y\\r\\nHost: h"}'}, {}, "headers"),
        ({"authorization": "Bearer k3y\n"}, {}, "authorization"),
        ({"url": "https://h", "ca_location": "/no/such/file.pem"}, {}, "ca_location"),
        ({}, {"path": "a b"}, "path"),
        ({}, {"method": "GET"}, "method"),
        ({}, {"batch_rows": "0"}, "batch_rows"),
        ({}, {"batch_format": "xml"}, "batch_format"),
        ({}, {"content_type": "a\nb"}, "content_type"),
    ],
)
def test_wrong_options_are_named_without_secrets(
    server: Mapping[str, str], stream: Mapping[str, str], option: str
) -> None:
    with pytest.raises(OptionError) as refused:
        find_message_sink("http").open({"url": "http://h", **server}, stream, "p", 1_000)
    assert refused.value.option == option
    assert "k3y" not in refused.value.message
    assert refused.value.hint


def test_secrets_are_not_shown() -> None:
    given = {"url": "http://h", "path": "t0ken", **SECRETS}
    assert redacted(OPTIONS, given) == {"url": "http://h", **dict.fromkeys(("path", *SECRETS), "***")}
