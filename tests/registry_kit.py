"""A fake Schema Registry over HTTP, which holds what a test puts into it."""

from __future__ import annotations

import base64
import io
import json
import ssl
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote

import fastavro


class FakeRegistry:
    """Answers as Confluent's registry does to what is asked of it.

    It answers 500 while it is ``failing``, and as often as ``failures_left`` says.
    """

    def __init__(
        self, *, user: str | None = None, password: str = "", tls: ssl.SSLContext | None = None
    ) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.failing = False
        self.failures_left = 0
        self._authorized = None
        if user is not None:
            self._authorized = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                status, body = registry.answer(self.path, self.headers.get("Authorization"))
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

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, Any]]:
        if self.failing or self.failures_left:
            self.failures_left = max(0, self.failures_left - 1)
            return 500, {"error_code": 50001, "message": "fails as told"}
        if self._authorized is not None and authorization != self._authorized:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        match [unquote(each) for each in path.strip("/").split("/")]:
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                numbers = self.subjects[subject]
                at = len(numbers) if version == "latest" else int(version)
                if at <= len(numbers):
                    found = numbers[at - 1]
                    return 200, {"subject": subject, "version": at, "id": found, **self.schemas[found]}
        return 404, {"error_code": 40403, "message": "Schema not found"}


def written(schema: Any, record: Any, number: int | None = None) -> bytes:
    """Return a record in Avro, after the header with the number of its schema if one is given."""
    given = io.BytesIO()
    fastavro.schemaless_writer(given, fastavro.parse_schema(schema, named_schemas={}), record)
    header = b"" if number is None else b"\0" + number.to_bytes(4, "big")
    return header + given.getvalue()
