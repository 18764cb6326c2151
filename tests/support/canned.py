"""A web server in a thread that gives each request the same answer."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def json_lines(*values: object) -> bytes:
    """Return values as JSON, one on each line; None is a blank line."""
    return b"\n".join(b"" if each is None else json.dumps(each).encode() for each in values) + b"\n"


@contextmanager
def answering(body: bytes, status: int = 200) -> Iterator[tuple[str, list[str | None]]]:
    """Give the URL of the server, and the Authorization header of each request so far."""
    asked: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()
