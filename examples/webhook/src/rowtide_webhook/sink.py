"""The connector webhook: each message is an HTTP request, which may be repeated with the same Idempotency-Key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from rowtide_connectors.api import Connector, Guarantee, MessageSink, Option, OutgoingMessage
from rowtide_connectors.errors import (
    ConnectorError,
    DeniedError,
    GoneError,
    OptionError,
    RefusedMessageError,
    UnavailableError,
)
from rowtide_connectors.options import read_options

OWNER = 'connector "webhook"'
SERVER_OPTIONS = (
    Option("url", str, "the address of the server, such as https://host/hooks/", "server", required=True),
    Option("timeout_s", float, "how long an answer may take", "server", default=10.0),
)
STREAM_OPTIONS = (
    Option("path", str, "where requests are sent, below the address of the server", "stream", required=True),
)


class WebhookSink:
    """Sends the messages of one outbox to one address; see ``rowtide_connectors.api.MessageSink``."""

    def __init__(self, url: str, sender: str, timeout_s: float) -> None:
        self._url = url
        self._sender = sender
        self._timeout_s = timeout_s

    def check(self) -> None:
        """Ask for the address with HEAD; a server that only takes POST exists, too."""
        try:
            request(self._url, "HEAD", self._timeout_s)
        except RejectedRequestError:
            return

    def begin(self) -> int | None:
        """Return None: the server stores no number."""
        return None

    def send(self, messages: Sequence[OutgoingMessage], number: int) -> None:
        """Send a request for each message, in order."""
        del number
        for each in messages:
            headers = {
                "Idempotency-Key": quote(f"{self._sender}/{each.number}"),
                "Rowtide-Timestamp": str(each.timestamp_ms),
                "Content-Type": "application/octet-stream",
                **{f"Rowtide-Header-{name}": quote(value) for name, value in each.headers},
            }
            if each.key is not None:
                headers["Rowtide-Key"] = quote(each.key)
            try:
                request(
                    self._url,
                    "DELETE" if each.value is None else "POST",
                    self._timeout_s,
                    each.value,
                    headers,
                )
            except RejectedRequestError as error:
                raise RefusedMessageError(
                    error.message,
                    number=each.number,
                    hint="Correct the receiver, or leave this row out of the pump.",
                ) from error

    def close(self) -> None:
        """Release nothing: each request has a connection."""


class RejectedRequestError(ConnectorError):
    """The server does not take this request, and would not take it again."""


def request(
    url: str,
    method: str,
    timeout_s: float,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Send a request.

    Raises:
      UnavailableError, GoneError, RejectedRequestError.
    """
    try:
        # The scheme is that of the option, which is http or https.
        with urlopen(Request(url, body, dict(headers or {}), method=method), timeout=timeout_s):
            return
    except HTTPError as error:
        code = error.code
        error.close()
    except (OSError, HTTPException) as error:
        raise UnavailableError(f'"{url}" does not answer: {error}') from error
    message = f'"{url}" answers {method} with {code}'
    if code in (401, 403, 407):
        raise DeniedError(message, hint="Give the address a user and a right to write.")
    if code in (404, 410):
        raise GoneError(message, hint='Correct the options "url" and "path".')
    if code in (408, 425, 429) or (code >= 500 and code != 501):
        raise UnavailableError(message)
    raise RejectedRequestError(message)


class WebhookMessages:
    """Foreign streams that pumps write to; see ``rowtide_connectors.api.MessageSinkConnector``."""

    options: Sequence[Option] = STREAM_OPTIONS
    guarantee = Guarantee.AT_LEAST_ONCE

    def check_options(self, stream: Mapping[str, str]) -> None:
        """Check the options of a stream."""
        read_options(OWNER, STREAM_OPTIONS, "stream", stream)

    def guarantee_of(self, stream: Mapping[str, str]) -> Guarantee:
        """Return the guarantee, which no option changes."""
        del stream
        return self.guarantee

    def open(
        self, server: Mapping[str, str], stream: Mapping[str, str], sender: str, max_message_bytes: int
    ) -> MessageSink:
        """Return the sink of a stream."""
        del max_message_bytes
        url, timeout_s = address(server)
        path = read_options(OWNER, STREAM_OPTIONS, "stream", stream).get("path", str)
        return WebhookSink(f"{url.rstrip('/')}/{path.lstrip('/')}", sender, timeout_s)


def address(server: Mapping[str, str]) -> tuple[str, float]:
    """Return the address and the time-out of a server.

    Raises:
      OptionError: an option is wrong.
    """
    options = read_options(OWNER, SERVER_OPTIONS, "server", server)
    url = options.get("url", str)
    if not url.startswith(("http://", "https://")):
        raise OptionError(
            f'option "url" of {OWNER} is not an address of HTTP',
            hint="Write http:// or https://.",
            option="url",
        )
    return url, options.get("timeout_s", float)


class WebhookConnector(Connector):
    """Sends messages as requests."""

    name = "webhook"
    description = "requests to an HTTP server"
    options = SERVER_OPTIONS
    message_sink = WebhookMessages()

    def check_options(self, server: Mapping[str, str]) -> None:
        """Check the options of a server."""
        address(server)

    def check(self, server: Mapping[str, str]) -> str:
        """Ask for the address."""
        url, timeout_s = address(server)
        try:
            request(url, "HEAD", timeout_s)
        except (GoneError, RejectedRequestError) as error:
            return f"{error.message}: the server is up"
        return f'"{url}" answers'


CONNECTOR = WebhookConnector()
