"""A client of one endpoint: one connection, kept open between requests, and answers by what follows from them.

An answer is success (2xx), a refusal of this request (other 4xx), or a reason to wait and repeat it. No error and no
log shows headers or the path, which may be secret.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection

from rowtide_connectors.errors import ConnectorError, DeniedError, UnavailableError

_SHOWN_BYTES = 200
"""How much of an answer an error shows."""
_KEPT_BYTES = 65_536
"""A longer answer is not read: a new connection is cheaper."""
_REPEATED = frozenset({408, 409, 423, 425, 429})
"""Answers of 4xx after which the same request may succeed."""
_DENIED_HINT = (
    "Correct the options authorization or headers of the server, such as by ROWTIDE_SERVERS__NAME__AUTHORIZATION, or "
    "the rights of this user at the receiver."
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests are sent. ``url`` is what errors show, ``target`` the whole path; ``headers`` are secret."""

    url: str
    is_secure: bool
    host: str
    port: int | None
    target: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    context: ssl.SSLContext | None


class RefusedRequestError(ConnectorError):
    """The server refuses this request, and would refuse it again."""


class Client:
    """Sends requests to one endpoint, one after the other; owned by one thread at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: HTTPConnection | None = None

    @property
    def shown(self) -> str:
        """The address without anything secret."""
        return self._endpoint.url

    def check(self) -> int:
        """Send HEAD, and return the status. Receivers answer it as they like, if they take POST only.

        Raises:
          UnavailableError: nothing answers. DeniedError: the server does not accept the credentials.
        """
        status, text = self._exchange("HEAD", None, {})
        if status in (401, 407):
            raise self._error("HEAD", status, text)
        return status

    def send(self, method: str, body: bytes | None, headers: Mapping[str, str]) -> None:
        """Send a request until its answer is there.

        Raises:
          RefusedRequestError: the server does not take it.
          UnavailableError: whether the server has processed it is unknown, or it has not.
        """
        status, text = self._exchange(method, body, headers)
        if not 200 <= status < 300:
            raise self._error(method, status, text)

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _exchange(self, method: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, str]:
        """Send a request, and return status and beginning of the answer."""
        is_reused = self._connection is not None
        try:
            try:
                return self._once(method, body, headers)
            except (ConnectionError, HTTPException):
                self.close()
                if not is_reused:
                    raise
                # The server closes connections that were idle: one more try shows whether it is up.
                return self._once(method, body, headers)
        except (OSError, HTTPException) as error:
            self.close()
            why = "it timed out" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise UnavailableError(f'"{self.shown}" does not answer: {why}', hint=_hint(error)) from error

    def _once(self, method: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, str]:
        endpoint = self._endpoint
        if self._connection is None:
            if endpoint.is_secure:
                self._connection = HTTPSConnection(
                    endpoint.host, endpoint.port, timeout=endpoint.timeout_s, context=endpoint.context
                )
            else:
                self._connection = HTTPConnection(endpoint.host, endpoint.port, timeout=endpoint.timeout_s)
        self._connection.request(method, endpoint.target, body, {**endpoint.headers, **headers})
        answer = self._connection.getresponse()
        try:
            return answer.status, self._text(answer)
        finally:
            if not answer.isclosed() or answer.will_close:
                self.close()

    @staticmethod
    def _text(answer: HTTPResponse) -> str:
        """Read the answer; return its beginning in one line."""
        found = answer.read(_KEPT_BYTES)
        shown = found[:_SHOWN_BYTES].decode("utf-8", "replace")
        return " ".join("".join(each if each.isprintable() else " " for each in shown).split())

    def _error(self, method: str, status: int, text: str) -> ConnectorError:
        message = f'"{self.shown}" answers {method} with {status}' + (f": {text}" if text else "")
        if status in (401, 403, 407):
            return DeniedError(message, hint=_DENIED_HINT)
        if status in (404, 410):
            return UnavailableError(message, hint='Correct the options "url" and "path", or the receiver.')
        if 300 <= status < 400:
            return UnavailableError(message, hint="Redirections are not followed: write the final address.")
        if status in _REPEATED or status >= 500 or status < 200:
            return UnavailableError(message)
        return RefusedRequestError(message)


def _hint(error: Exception) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "Set ca_location to a PEM file with the certificate of the authority."
    return None
