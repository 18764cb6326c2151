"""The HTTP connector: its options, and the sink of foreign streams that pumps write to."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from rowtide_connectors.api import (
    Guarantee,
    MessageSink,
    MessageSinkConnector,
    Option,
    PolledConnector,
    SinkConnector,
    SourceConnector,
)
from rowtide_connectors.errors import OptionError
from rowtide_connectors.http.client import Client, Endpoint
from rowtide_connectors.http.sink import JSON_ARRAY, LINES, Batches, HttpSink
from rowtide_connectors.options import ConnectorOptions, read_options

OWNER = 'connector "http"'

SERVER_OPTIONS = (
    Option(
        "url",
        str,
        "the address of the server, such as https://hooks.example.com/in; errors and logs show it",
        "server",
        required=True,
    ),
    Option(
        "timeout_s", float, "how long a connection or an answer may take, in seconds", "server", default=10.0
    ),
    Option(
        "authorization", str, "the header Authorization, such as Bearer and a token", "server", secret=True
    ),
    Option("headers", str, "further headers, as a JSON object of names and values", "server", secret=True),
    Option(
        "ca_location",
        str,
        "a PEM file of the certificate authorities to trust instead of the system's",
        "server",
    ),
)
STREAM_OPTIONS = (
    Option(
        "path",
        str,
        "path and query below the url; never shown, because receivers put secrets there",
        "stream",
        secret=True,
    ),
    Option("method", str, "POST or PUT", "stream", default="POST"),
    Option(
        "content_type",
        str,
        "the header Content-Type. Default: application/json, or application/x-ndjson for lines",
        "stream",
    ),
    Option("batch_rows", int, "the most rows of a request", "stream", default=1),
    Option(
        "batch_format",
        str,
        f"with batch_rows above 1: {JSON_ARRAY}, a JSON array of the rows, or {LINES}, a line for each row",
        "stream",
        default=JSON_ARRAY,
    ),
)
OPTIONS = SERVER_OPTIONS + STREAM_OPTIONS

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "idempotency-key"})
_PREFIX = "rowtide-"
"""The beginning of the names of headers that the sink sets."""


class HttpMessages:
    """Foreign streams that pumps write to; see ``api.MessageSinkConnector``."""

    options: Sequence[Option] = STREAM_OPTIONS
    guarantee = Guarantee.AT_LEAST_ONCE

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        _batches(read_options(OWNER, OPTIONS, "stream", stream), max_bytes=0)

    def guarantee_of(self, stream: Mapping[str, str]) -> Guarantee:
        """Return the guarantee, which no option changes: an idempotent receiver makes it exactly once."""
        return self.guarantee

    def open(
        self, server: Mapping[str, str], stream: Mapping[str, str], sender: str, max_message_bytes: int
    ) -> MessageSink:
        """Return the sink of a stream; it connects at its first use."""
        options = read_options(OWNER, OPTIONS, "stream", stream)
        path = options.optional("path", str) or ""
        return HttpSink(
            Client(endpoint(server, path)), sender, _batches(options, max_bytes=max_message_bytes)
        )


class HttpConnector:
    """Writes rows as requests to a server of HTTP."""

    name = "http"
    description = "HTTP requests to a server: webhooks"
    options: Sequence[Option] = SERVER_OPTIONS
    client_options: str | None = None
    source: SourceConnector | None = None
    sink: SinkConnector | None = None
    polled: PolledConnector | None = None
    message_sink: MessageSinkConnector | None = HttpMessages()

    def check_options(self, server: Mapping[str, str]) -> None:
        """Read options against their declarations."""
        endpoint(server, "", reads_files=False)

    def check(self, server: Mapping[str, str]) -> str:
        """Connect, and send HEAD; any answer shows that the server is up."""
        client = Client(endpoint(server, ""))
        try:
            answer = client.check()
        finally:
            client.close()
        return f'"{client.shown}" answers HEAD with {answer}'


def endpoint(server: Mapping[str, str], path: str, *, reads_files: bool = True) -> Endpoint:
    """Return where requests are sent, and the headers of each, from a server's options.

    Raises:
      OptionError: names the option and says what is allowed.
    """
    options = read_options(OWNER, OPTIONS, "server", server)
    url, timeout_s = options.get("url", str), options.get("timeout_s", float)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong_url(str(error)) from error
    if parts.scheme not in ("http", "https") or not host:
        raise _wrong_url("it is not an address of HTTP")
    if parts.username is not None or parts.password is not None:
        raise _wrong_url("it has a user or a password", hint="Write them as authorization 'Basic ..'.")
    if parts.query or parts.fragment:
        raise _wrong_url("it has a query or a fragment", hint="Write the query in the path of the stream.")
    if not 0 < timeout_s <= 3_600:
        raise OptionError(
            f'option "timeout_s" of {OWNER} is {timeout_s:g}',
            hint="It must be above 0 and at most 3600.",
            option="timeout_s",
        )
    target = "/".join(each for each in (parts.path.rstrip("/"), path.lstrip("/")) if each) or "/"
    target = target if target.startswith("/") else f"/{target}"
    if not (target.isascii() and target.isprintable()) or " " in target:
        raise OptionError(
            f'option "path" of {OWNER} has characters that an address cannot have',
            hint="Percent-encode them.",
            option="path",
        )
    return Endpoint(
        url,
        is_secure=parts.scheme == "https",
        host=host,
        port=port,
        target=target,
        headers=_headers(options),
        timeout_s=timeout_s,
        context=_context(options) if parts.scheme == "https" and reads_files else None,
    )


def _wrong_url(
    what: str, *, hint: str = "Write http:// or https://, a host, and a path if there is one."
) -> OptionError:
    return OptionError(f'option "url" of {OWNER} is wrong: {what}', hint=hint, option="url")


def _headers(options: ConnectorOptions) -> dict[str, str]:
    """Return the headers of every request. Errors show no values."""
    found: dict[str, str] = {}
    text = options.optional("headers", str)
    if text is not None:
        try:
            given = json.loads(text)
        except ValueError:
            given = None
        if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
            raise OptionError(
                f'option "headers" of {OWNER} is not a JSON object of names and texts',
                hint="""Write it as headers '{"X-Api-Key": "..."}'.""",
                option="headers",
            )
        found |= given
    authorization = options.optional("authorization", str)
    if authorization is not None:
        found["Authorization"] = authorization
    for name, value in found.items():
        option = "authorization" if name == "Authorization" and authorization is not None else "headers"
        folded = name.lower()
        if not _HEADER_NAME.fullmatch(name) or folded in _OWN_HEADERS or folded.startswith(_PREFIX):
            raise OptionError(
                f'option "headers" of {OWNER} cannot set the header "{name}"',
                hint="It is not a name of a header, or the connector sets it.",
                option="headers",
            )
        if not (value.isascii() and value.isprintable()):
            raise OptionError(
                f'option "{option}" of {OWNER} has a value for header "{name}" that a header cannot have',
                hint="It must be printable ASCII, in one line.",
                option=option,
            )
    return found


def _context(options: ConnectorOptions) -> ssl.SSLContext:
    """Return what TLS connections trust."""
    location = options.optional("ca_location", str)
    try:
        return ssl.create_default_context(cafile=location)
    except OSError as error:
        raise OptionError(
            f'option "ca_location" of {OWNER}: file "{location}" cannot be used: {error.strerror or error}',
            hint="It is a PEM file with certificates.",
            option="ca_location",
        ) from error


def _batches(options: ConnectorOptions, *, max_bytes: int) -> Batches:
    """Return how rows are put into requests.

    Raises:
      OptionError: a value is not allowed.
    """
    method, rows = options.get("method", str).upper(), options.get("batch_rows", int)
    batch_format = options.get("batch_format", str).lower()
    if method not in ("POST", "PUT"):
        raise _not_allowed("method", method, "It must be POST or PUT.")
    if batch_format not in (JSON_ARRAY, LINES):
        raise _not_allowed("batch_format", batch_format, f"It must be {JSON_ARRAY} or {LINES}.")
    if not 1 <= rows <= 10_000:
        raise _not_allowed("batch_rows", str(rows), "It must be 1 to 10000.")
    is_lines = rows > 1 and batch_format == LINES
    content_type = options.optional("content_type", str)
    if content_type is not None and not (content_type.isascii() and content_type.isprintable()):
        raise _not_allowed("content_type", content_type, "It must be printable ASCII, in one line.")
    return Batches(
        method,
        rows,
        max_bytes,
        is_lines=is_lines,
        content_type=content_type or ("application/x-ndjson" if is_lines else "application/json"),
    )


def _not_allowed(option: str, value: str, hint: str) -> OptionError:
    return OptionError(f"option \"{option}\" of {OWNER} has the value '{value}'", hint=hint, option=option)
