"""A fake Schema Registry over HTTP, which holds what a test puts into it."""

from __future__ import annotations

import base64
import io
import json
import ssl
import threading
import uuid
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote

import fastavro
import pytest
from fastavro.schema import SchemaParseException


class FakeRegistry:
    """Answers as Confluent's registry does to what is asked of it.

    It knows each schema by its number, and by the GUID that is this number.
    It gives Protobuf schemas as descriptors in base64 where a client asks for them, unless it no longer
    ``serializes``: some registries cannot. It answers 500 while it is ``failing``, and as often as
    ``failures_left`` says. A schema that is not ``compatible`` is refused.
    """

    def __init__(
        self, *, user: str | None = None, password: str = "", tls: ssl.SSLContext | None = None
    ) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.failing = False
        self.failures_left = 0
        self.compatible = True
        self.serializes = True
        self._authorized = None
        if user is not None:
            self._authorized = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                self._answer(None)

            def do_POST(self) -> None:
                registry.asked.append(self.path)
                assert self.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, given: dict[str, Any] | None) -> None:
                status, body = registry.answer(self.path, self.headers.get("Authorization"), given)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._scheme = "http"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://localhost:{self._server.server_address[1]}"

    def __enter__(self) -> FakeRegistry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def register(
        self,
        subject: str,
        schema: Any,
        references: Sequence[tuple[str, str, int]] = (),
        kind: str | None = None,
    ) -> int:
        number = len(self.schemas) + 1
        found: dict[str, Any] = {"schema": json.dumps(schema)}
        if kind is not None:
            found["schemaType"] = kind
        if references:
            found["references"] = [
                {"name": name, "subject": of, "version": version} for name, of, version in references
            ]
        self.schemas[number] = found
        self.subjects.setdefault(subject, []).append(number)
        return number

    def register_protobuf(
        self, subject: str, text: str, references: Sequence[tuple[str, str, int]] = ()
    ) -> int:
        """Register a file descriptor in base64; without ``serializes`` it is answered as the text of a file."""
        number = self.register(subject, None, references, kind="PROTOBUF")
        self.schemas[number]["schema"] = text
        return number

    def read(self, value: bytes) -> Any:
        """Return the record of a message, by the schema whose number is in its header."""
        assert value[:1] == b"\0"
        given = io.BytesIO(value[5:])
        schema = json.loads(self.schemas[int.from_bytes(value[1:5], "big")]["schema"])
        found = fastavro.schemaless_reader(given, schema, None)
        assert given.read() == b""
        return found

    def answer(
        self, path: str, authorization: str | None, given: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        if self.failing or self.failures_left:
            self.failures_left = max(0, self.failures_left - 1)
            return 500, {"error_code": 50001, "message": "fails as told"}
        if self._authorized is not None and authorization != self._authorized:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        path, _, query = path.partition("?")
        steps = [unquote(each) for each in path.strip("/").split("/")]
        if given is not None:
            return self._posted(steps, given)
        status, found = self._found(steps)
        if found.get("schemaType") == "PROTOBUF" and (query != "format=serialized" or not self.serializes):
            # A real registry has the text of the file here.
            found = {**found, "schema": 'syntax = "proto3";'}
        return status, found

    def _found(self, steps: list[str]) -> tuple[int, dict[str, Any]]:
        match steps:
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case ["schemas", "guids", guid] if uuid.UUID(guid).int in self.schemas:
                return 200, self.schemas[uuid.UUID(guid).int]
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                numbers = self.subjects[subject]
                at = len(numbers) if version == "latest" else int(version)
                if at <= len(numbers):
                    found = numbers[at - 1]
                    return 200, {"subject": subject, "version": at, "id": found, **self.schemas[found]}
        return 404, {"error_code": 40403, "message": "Schema not found"}

    def _posted(self, steps: list[str], given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Look a schema up, register it, or compare it with the newest one."""
        kind = given.get("schemaType")
        try:
            schema = _parsed(given["schema"], kind)
        except (ValueError, SchemaParseException) as error:
            return 422, {"error_code": 42201, "message": f"Invalid schema: {error}"}
        known = [
            number
            for number in self.subjects.get(steps[1], ())
            if self.schemas[number].get("schemaType") == kind
            and _parsed(self.schemas[number]["schema"], kind) == schema
        ]
        match steps:
            case ["subjects", subject] if known:
                return 200, {"subject": subject, "id": known[0], **self.schemas[known[0]]}
            case ["subjects", subject, "versions"]:
                if known:
                    return 200, {"id": known[0]}
                if not self.compatible:
                    return 409, {"error_code": 409, "message": "READER_FIELD_MISSING_DEFAULT_VALUE"}
                if kind == "PROTOBUF":
                    return 200, {"id": self.register_protobuf(subject, given["schema"])}
                return 200, {"id": self.register(subject, schema)}
            case ["compatibility", "subjects", subject, "versions", "latest"] if subject in self.subjects:
                return 200, {"is_compatible": self.compatible}
        return 404, {"error_code": 40401, "message": "Subject not found"}


def _parsed(text: str, kind: str | None) -> Any:
    """Return a schema in the form that is compared; raises ValueError or SchemaParseException."""
    if kind == "PROTOBUF":
        return base64.b64decode(text, validate=True)
    schema = json.loads(text)
    fastavro.parse_schema(schema, named_schemas={})
    return schema


def written(schema: Any, record: Any, number: int | None = None) -> bytes:
    """Return a record in Avro, after the header with the number of its schema if one is given."""
    given = io.BytesIO()
    fastavro.schemaless_writer(given, fastavro.parse_schema(schema, named_schemas={}), record)
    header = b"" if number is None else b"\0" + number.to_bytes(4, "big")
    return header + given.getvalue()


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """Start a registry for one test."""
    with FakeRegistry() as found:
        yield found
