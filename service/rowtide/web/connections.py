"""Connections of clients, bounded in number and in time.

A client that connects and does not send a whole request, or does not read its answer, is disconnected, so that
it takes neither the service's file descriptors nor its memory.
"""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 256
"""The most connections of one listener: brokers and databases also need some of the usual 1,024 descriptors."""
REQUEST_S = 10.0
"""Time limit from the connection, or the first byte of a further request, to the end of the request."""
UNREAD_S = 30.0
"""How long a client can leave its answer unread while more data is pending."""


class BoundedConnection(H11Protocol):
    """One connection."""

    request_s = REQUEST_S
    unread_s = UNREAD_S
    most_connections = MOST_CONNECTIONS
    _request_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to wait for a request, unless there are too many connections."""
        super().connection_made(cast("asyncio.Transport", transport))
        if len(self.connections) > self.most_connections:
            self.transport.abort()
        else:
            self._request_timer = self.loop.call_later(self.request_s, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._cancel_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stop waiting if the request has ended; else wait until the time limit."""
        super().data_received(data)
        if not self._awaits_request():
            if self._request_timer is not None:
                self._request_timer.cancel()
                self._request_timer = None
        elif self._request_timer is None:
            self._request_timer = self.loop.call_later(self.request_s, self.transport.abort)

    def pause_writing(self) -> None:
        """Start to wait for the client to read."""
        super().pause_writing()
        self._unread_timer = self.loop.call_later(self.unread_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop waiting: the client reads."""
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _awaits_request(self) -> bool:
        """Return whether the end of a request is still missing."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _cancel_timers(self) -> None:
        for timer in (self._request_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()
