"""Which answers of a Schema Registry, or of what is before it, are final (docs/sql/streams.md#avro)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rowtide.codec.avro import AvroDecoder
from rowtide.codec.options import Declared
from rowtide.rows.types import BIGINT, Field, RowType
from rowtide_connectors.errors import GoneError, MismatchError, UnavailableError
from rowtide_connectors.schema_registry import SchemaRegistry
from support.registry import written

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
Answer = tuple[int, object]


def error(code: object) -> dict[str, object]:
    return {"error_code": code, "message": "as told"}


HTML = b"<html>default backend - 404</html>"
GOOD: list[Answer] = [
    (200, {"schema": json.dumps(SCHEMA)}),
    (200, {"schema": json.dumps(SCHEMA), "id": 7, "references": [], "schemaType": "AVRO"}),
]
GONE: list[Answer] = [(404, error(40403)), (404, error(40401)), (404, error(40402))]
OTHER: list[Answer] = [
    (404, HTML),
    (404, b""),
    (404, error(404)),
    (404, error("40403")),
    (404, error(50001)),
    (404, {"message": "no Route matched with those values"}),
    (404, [40403]),
    (404, b"[" * 100_000),
    (200, HTML),
    (200, b""),
    (200, b"[" * 100_000),
    (200, {}),
    (200, []),
    (200, {"schema": None}),
    (200, {"schema": {"type": "record"}}),
    (200, {"schema": json.dumps(SCHEMA), "references": 1}),
    (200, {"schema": json.dumps(SCHEMA), "references": [1]}),
    (200, {"schema": json.dumps(SCHEMA), "references": [{"subject": "s"}]}),
    (200, error(40403)),
    (204, b""),
    *((status, error(40403)) for status in (400, 401, 403, 405, 406, 409, 410, 422, 429, 500, 502, 503, 504)),
]


class Double:
    """A server that answers what a test says, whatever it is asked."""

    def __init__(self) -> None:
        self.answer: Answer = GOOD[0]
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._answer()

            def _answer(self) -> None:
                status, body = double.answer
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def doubles() -> Iterator[tuple[Double, Double]]:
    pair = Double(), Double()
    yield pair
    for each in pair:
        each.close()


@pytest.mark.parametrize("first", [*GOOD, *GONE, *OTHER], ids=lambda answer: f"{answer[0]} {answer[1]!r:.40}")
def test_a_schema_does_not_exist_if_every_address_says_so(
    doubles: tuple[Double, Double], first: Answer
) -> None:
    one, two = doubles
    one.answer = first
    for second in (GOOD[0], GONE[0], OTHER[0], OTHER[2], (200, {}), (500, error(50001)), first):
        two.answer = second
        registry = SchemaRegistry([one.url, two.url])
        both = [first, second]
        if any(each in GOOD for each in both):
            assert json.loads(registry.by_id(7).text) == SCHEMA
            continue
        with pytest.raises(GoneError if all(each in GONE for each in both) else UnavailableError):
            registry.by_id(7)


@pytest.mark.parametrize("answer", OTHER, ids=lambda answer: f"{answer[0]} {answer[1]!r:.40}")
def test_messages_wait_for_the_registry(doubles: tuple[Double, Double], answer: Answer) -> None:
    one, two = doubles
    decoder = AvroDecoder(
        Declared("S", RowType((Field("ID", BIGINT),)), {"registry_url": f"{one.url},{two.url}"})
    )
    messages = [written(SCHEMA, {"id": 1}, 7)]
    for one.answer, two.answer in ((answer, answer), (GONE[0], answer), (answer, GONE[0])):
        with pytest.raises(UnavailableError):
            decoder.decode(messages)
    one.answer = two.answer = GONE[0]
    assert [fault.message for fault in decoder.decode(messages).faults] == [
        "schema 7 does not exist in the registry"
    ]
    two.answer = GOOD[0]
    assert decoder.decode(messages).columns[0].to_list() == [1]


@pytest.mark.parametrize("status", [409, 422])
def test_only_the_registry_refuses_a_schema(doubles: tuple[Double, Double], status: int) -> None:
    one, _ = doubles
    registry = SchemaRegistry([one.url])
    one.answer = status, error(status)
    with pytest.raises(MismatchError, match="as told"):
        registry.register("s", json.dumps(SCHEMA))
    for body in (HTML, {"message": "no"}, b""):
        one.answer = status, body
        with pytest.raises(UnavailableError, match=f"answers {status}"):
            registry.register("s", json.dumps(SCHEMA))
    for number in (None, "7", True):
        one.answer = 200, {"id": number}
        with pytest.raises(UnavailableError, match="answers without id"):
            registry.register("s", json.dumps(SCHEMA))


def test_the_hint_of_another_servers_404_names_the_option(doubles: tuple[Double, Double]) -> None:
    one, _ = doubles
    one.answer = OTHER[0]
    with pytest.raises(UnavailableError, match="answers 404") as caught:
        SchemaRegistry([one.url]).by_id(7)
    assert "registry_url" in (caught.value.hint or "")
