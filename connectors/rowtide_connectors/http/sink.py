"""The message sink: each row, or each batch of rows, is one request, which may be repeated with the same numbers.

The number of a row in its outbox never changes. So a receiver that ignores an Idempotency-Key that it has processed, or
with batches the numbers up to the last one that it has processed, processes each row once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote, quote_from_bytes

from rowtide_connectors.api import OutgoingMessage
from rowtide_connectors.errors import RefusedMessageError
from rowtide_connectors.http.client import Client, RefusedRequestError

JSON_ARRAY, LINES = "json", "lines"

_REQUESTS_AT_ONCE = 100
"""The requests between two notes of what was sent: after a crash, at most these are repeated."""
_MOST_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Batches:
    """How rows are put into requests. ``rows`` 1: the body is the message as it is encoded."""

    method: str
    rows: int
    max_bytes: int
    is_lines: bool
    content_type: str


class HttpSink:
    """Sends the messages of one outbox, in order; see ``api.MessageSink``. The receiver stores no number."""

    def __init__(self, client: Client, sender: str, batches: Batches) -> None:
        self._client = client
        self._sender = quote(sender, safe="")
        self._batches = batches
        self._answered = 0
        """The number of the last message that the receiver has acknowledged to this sink."""
        self.most_messages = min(_REQUESTS_AT_ONCE * batches.rows, _MOST_AT_ONCE)

    def check(self) -> None:
        """Ask the server for anything. Only a request can show whether it takes one."""
        self._client.check()

    def begin(self) -> int | None:
        """Return None: the receiver stores no number."""
        return None

    def send(self, messages: Sequence[OutgoingMessage], number: int) -> None:
        """Send requests until all are acknowledged; those that this sink has sent already are left out."""
        del number
        left = [each for each in messages if each.number > self._answered]
        for group in self._groups(left):
            self._send(group)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _groups(self, messages: Sequence[OutgoingMessage]) -> Iterator[Sequence[OutgoingMessage]]:
        """Yield the messages of each request."""
        group: list[OutgoingMessage] = []
        size = 0
        for each in messages:
            length = len(each.value or b"")
            is_full = len(group) >= self._batches.rows or size + length > self._batches.max_bytes
            if group and (is_full or not _is_plain(each) or not _is_plain(group[-1])):
                yield group
                group, size = [], 0
            group.append(each)
            size += length
        if group:
            yield group

    def _send(self, group: Sequence[OutgoingMessage]) -> None:
        """Send one request. If it is refused, send its halves, so that the error names the row."""
        first, last = group[0], group[-1]
        try:
            if self._batches.rows > 1 and _is_plain(first):
                self._client.send(self._batches.method, self._body(group), self._headers(group))
            else:
                method = "DELETE" if first.value is None else self._batches.method
                self._client.send(method, first.value, self._headers(group) | _of_message(first))
        except RefusedRequestError as error:
            if len(group) > 1:
                middle = len(group) // 2
                self._send(group[:middle])
                self._send(group[middle:])
                return
            raise RefusedMessageError(
                f"{error.message} (row {first.number} of the outbox)",
                number=first.number,
                hint="Rows after it wait. Correct the receiver, or let it acknowledge what it does not want.",
            ) from error
        self._answered = last.number

    def _body(self, group: Sequence[OutgoingMessage]) -> bytes:
        values = [each.value or b"" for each in group]
        if self._batches.is_lines:
            return b"".join(value + b"\n" for value in values)
        return b"[" + b",".join(values) + b"]"

    def _headers(self, group: Sequence[OutgoingMessage]) -> dict[str, str]:
        first, last = group[0].number, group[-1].number
        numbers = str(first) if first == last else f"{first}-{last}"
        return {
            "Idempotency-Key": f"{self._sender}/{numbers}",
            "Rowtide-Sender": self._sender,
            "Rowtide-Number": str(first),
            "Rowtide-Rows": str(len(group)),
            "Content-Type": self._batches.content_type,
        }


def _is_plain(message: OutgoingMessage) -> bool:
    """Return whether a message is nothing but a value: then it may share a request."""
    return message.value is not None and message.key is None and not message.headers


def _of_message(message: OutgoingMessage) -> dict[str, str]:
    """Return the headers of the one message of a request, percent-encoded."""
    found = {
        "Rowtide-Timestamp": str(message.timestamp_ms),
        **{
            f"Rowtide-Header-{quote(name, safe='')}": quote_from_bytes(value)
            for name, value in message.headers
        },
    }
    if message.key is not None:
        found["Rowtide-Key"] = quote_from_bytes(message.key)
    return found
