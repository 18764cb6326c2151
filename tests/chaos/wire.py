"""A TCP proxy before PostgreSQL: it can lose connections, hold COMMITs or their replies, and part the network.

Frontend messages after the start-up are a type, a length and a body (PostgreSQL, Frontend/Backend Protocol). A
commit is the message Query or Parse with the text COMMIT.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import threading
from enum import Enum

from rowtide.testing.processes import LOCAL

_COMMIT = re.compile(rb"[QP].{4}(?:[^\0]*\0)?COMMIT\0", re.DOTALL)
_AT_ONCE = 65_536
_LOOK_S = 0.05


class Held(Enum):
    """What happens to the next commit."""

    NOTHING = "it passes"
    BEFORE = "it waits before the server has it"
    AFTER = "the server has it, and its reply waits"


class Wire:
    """Connections from a port of its own to ``target``; each has a thread."""

    def __init__(self, target: int) -> None:
        self.target = target
        """The port that new connections are made to."""
        self.is_parted = False
        """Whether nothing passes, in either direction, without an error."""
        self.held = threading.Event()
        """Set once a commit is held."""
        self._hold = Held.NOTHING
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server((LOCAL, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, what: Held) -> None:
        """Hold the next commit; ``Held.NOTHING`` lets it go."""
        with self._lock:
            self._hold = what
            self.held.clear()

    def cut(self) -> None:
        """Lose all connections, with what is held."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            _close(*pair)

    def close(self) -> None:
        """Stop listening, and lose all connections."""
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((LOCAL, self.target))
            except OSError:
                _close(client)
                continue
            with self._lock:
                self._pairs.add((client, server))
            threading.Thread(target=self._serve, args=(client, server), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            while self._pass_on(client, server):
                pass
        _close(client, server)
        with self._lock:
            self._pairs.discard((client, server))

    def _pass_on(self, client: socket.socket, server: socket.socket) -> bool:
        """Pass on what there is; False: an end has closed."""
        ready, _, _ = select.select([client, server], [], [], _LOOK_S)
        if self.is_parted:
            threading.Event().wait(_LOOK_S)
            return True
        for source, sink in ((client, server), (server, client)):
            if source not in ready:
                continue
            some = source.recv(_AT_ONCE)
            if not some:
                return False
            holding = self._takes(some) if source is client else Held.NOTHING
            if holding is not Held.BEFORE:
                sink.sendall(some)
            if holding is not Held.NOTHING:
                self.held.set()
                # Until the connection is cut, or the client has died.
                while client.fileno() >= 0 and self._hold is holding:
                    threading.Event().wait(_LOOK_S)
                if holding is Held.BEFORE:
                    sink.sendall(some)
        return True

    def _takes(self, some: bytes) -> Held:
        """Return what to do with bytes from the client."""
        if self._hold is Held.NOTHING or self.held.is_set() or not _COMMIT.search(some):
            return Held.NOTHING
        return self._hold


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            # Both ends see it at once, also while another thread waits in a call.
            each.shutdown(socket.SHUT_RDWR)
        each.close()
