"""A server for a model: several clients send lines and read the model's output.

The server of the guide's chapter 7.8: one thread, sockets that never block. The server reads a
client's next lines only after the client has read its output, so a slow client neither delays the
others nor fills memory. The model gets the lines of all clients in the order in which they are
complete; the answer to a line goes to the client that sent it. The answer to a line that fails begins
with ``error:``; the failure does not affect other clients.

The server is not secure: it has neither authentication nor quoting.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from rowtide.clock import Clock, SystemClock
from rowtide.errors import RowtideError

MOST_CLIENTS = 64
"""The most clients at a time; further ones are rejected. The server is for experiments, by people and
scripts."""
LONGEST_LINE = 1 << 20
"""The most bytes of a line; a client that sends more without a line end is disconnected."""
PAUSE_ABOVE = 1 << 16
"""Bytes of output that may wait before the client's next line is processed: about a socket's buffer."""
MOST_OUTPUT = 1 << 26
"""Bytes of output from other clients' lines that may wait for a client; beyond, it is disconnected."""
DRAIN_SECONDS = 5.0
"""How long a shutdown waits until clients have read their output."""
_PORTION = 1 << 16

EXIT, QUIT, SHUTDOWN = "exit", "quit", "shutdown"


class LineHandler(Protocol):
    """The interface that processes lines one by one, such as ``TextDriver``."""

    @property
    def inputs(self) -> Collection[str]:
        """The first words of its lines, which take precedence over the server's commands."""

    def feed(self, line: str) -> list[str]:
        """Process a line and return what is printed."""

    def settle(self) -> list[str]:
        """Finish the work of a ``feed`` that raised, and return its output."""


class _Client:
    """One connection: received bytes that are not processed, and output that is not sent."""

    def __init__(self, number: int, connection: socket.socket, place: str) -> None:
        self.number = number
        self.connection = connection
        self.place = place
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.has_ended = False
        """The client sends no more lines, or the server no longer reads them."""

    def next_line(self) -> bytes | None:
        """Remove and return the next complete line."""
        line, end, rest = self.incoming.partition(b"\n")
        if not end:
            return None
        self.incoming = rest
        return bytes(line).removesuffix(b"\r")


class TextServer:
    """Serves a model to clients. ``run`` serves until ``stop``, or ``exit`` or ``shutdown`` of a client.

    Commands, unless the model has an input of that name: ``quit`` ends the client's own connection;
    ``exit`` accepts no new clients and ends when the last one has disconnected (guide, 7.8);
    ``shutdown`` answers the lines received so far and ends. Opcodes may follow them, as the guide
    writes ``exit,OP_INSERT``.

    Args:
      answers: the model.
      host, port: the address to listen on; port 0 selects a free port, which ``port`` returns.
      echo: answer each line with ``> `` and the line itself first, so that answers are a transcript.
      tell: called with a message when a client connects, leaves or is disconnected.
    """

    def __init__(
        self,
        answers: LineHandler,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        echo: bool = False,
        tell: Callable[[str], None] | None = None,
        clock: Clock | None = None,
        most_output: int = MOST_OUTPUT,
    ) -> None:
        self._answers = answers
        self._echo = echo
        self._tell = tell or (lambda words: None)
        self._clock = clock or SystemClock()
        self._most_output = most_output
        self._clients: dict[int, _Client] = {}
        self._number = 0
        self._listener: socket.socket | None = socket.create_server((host, port))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.current: int | None = None
        """The number of the client whose line is being processed; numbers are never used again."""
        # ``stop`` may be called by a signal or another thread while the loop waits.
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._end_at: float | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._wake)

    def run(self) -> None:
        """Serve, and close everything at the end."""
        try:
            while self._listener is not None or self._clients:
                timeout = None if self._end_at is None else self._end_at - self._clock.monotonic()
                if timeout is not None and timeout <= 0:
                    break
                for key, events in self._selector.select(timeout):
                    key.data(events)
        finally:
            for client in list(self._clients.values()):
                self._close(client, "cut off: it did not take its output in time")
            self._stop_listening()
            self._selector.close()
            self._woken.close()
            self._waker.close()

    def stop(self) -> None:
        """End ``run`` after received lines are processed and answered. May be called from any thread."""
        try:
            self._waker.send(b"!")
        except OSError:
            # The loop is already awake, or has ended.
            return

    def send(self, number: int, lines: Iterable[str]) -> bool:
        """Send lines to any client, as a later answer; return False if it has disconnected."""
        client = self._clients.get(number)
        if client is None:
            return False
        for line in lines:
            client.outgoing += f"{line}\n".encode(errors="backslashreplace")
        if len(client.outgoing) > self._most_output and number != self.current:
            self._close(client, f"cut off: more than {self._most_output} bytes wait for it")
            return False
        self._expect(client)
        return True

    def _wake(self, events: int) -> None:
        self._woken.recv(_PORTION)
        self._shut_down()

    def _shut_down(self) -> None:
        if self._end_at is not None:
            return
        self._stop_listening()
        self._end_at = self._clock.monotonic() + DRAIN_SECONDS
        for client in list(self._clients.values()):
            client.has_ended = True
            self._work(client)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, events: int) -> None:
        if self._listener is None:
            return
        try:
            connection, address = self._listener.accept()
        except OSError:
            # It disconnected before the server accepted it.
            return
        connection.setblocking(False)
        self._number += 1
        client = _Client(self._number, connection, f"{address[0]}:{address[1]}")
        self._clients[client.number] = client
        self._selector.register(connection, selectors.EVENT_READ, lambda events: self._serve(client, events))
        self._tell(f"client {client.number} comes from {client.place}")
        if len(self._clients) > MOST_CLIENTS:
            client.has_ended = True
            self.send(client.number, [f"error: there are {MOST_CLIENTS} clients already"])

    def _serve(self, client: _Client, events: int) -> None:
        if client.number not in self._clients:
            return
        if events & selectors.EVENT_READ and not client.has_ended:
            try:
                came = client.connection.recv(_PORTION)
            except BlockingIOError:
                return
            except OSError as error:
                self._close(client, f"lost: {error}")
                return
            client.has_ended = not came
            client.incoming += came
        self._work(client)

    def _work(self, client: _Client) -> None:
        """Process a client's lines, as long as it reads the answers."""
        while client.number in self._clients:
            if client.outgoing and not self._write(client):
                break
            line = client.next_line() if len(client.outgoing) <= PAUSE_ABOVE else None
            if line is None:
                break
            self._answer(client, line)
        if client.number not in self._clients:
            return
        if client.incoming and b"\n" not in client.incoming:
            self._refuse_rest(client)
        if client.has_ended and not client.outgoing and not client.incoming:
            self._close(client, "goes")
        else:
            self._expect(client)

    def _refuse_rest(self, client: _Client) -> None:
        """Reject a line that is too long: a part of it might look like a whole line."""
        if client.has_ended:
            client.incoming.clear()
            self.send(client.number, ["error: the last line has no end, it is not processed"])
        elif len(client.incoming) > LONGEST_LINE:
            client.incoming.clear()
            client.has_ended = True
            self.send(client.number, [f"error: a line of more than {LONGEST_LINE} bytes"])

    def _write(self, client: _Client) -> bool:
        """Write what the socket accepts; return False if the client has disconnected or output remains."""
        try:
            written = client.connection.send(client.outgoing)
        except BlockingIOError:
            return False
        except OSError as error:
            self._close(client, f"lost: {error}")
            return False
        del client.outgoing[:written]
        return not client.outgoing

    def _expect(self, client: _Client) -> None:
        """Wait until the client reads its output if there is any, else for input."""
        wanted = selectors.EVENT_WRITE if client.outgoing else selectors.EVENT_READ
        key = self._selector.get_key(client.connection)
        if key.events != wanted:
            self._selector.modify(client.connection, wanted, key.data)

    def _close(self, client: _Client, words: str) -> None:
        del self._clients[client.number]
        self._selector.unregister(client.connection)
        client.connection.close()
        self._tell(f"client {client.number} {words}")

    def _answer(self, client: _Client, line: bytes) -> None:
        self.current = client.number
        try:
            self.send(client.number, self._replies(client, line))
        finally:
            self.current = None

    def _replies(self, client: _Client, line: bytes) -> list[str]:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            return [f"error: a line is not UTF-8: {error}"]
        if not text.strip():
            return []
        replies = [f"> {text}"] if self._echo else []
        word = text.split(",", 1)[0].strip()
        if word in self._answers.inputs or not self._obey(client, word):
            replies += self._fed(text)
        return replies

    def _obey(self, client: _Client, word: str) -> bool:
        """Run a command of the server itself; False if it is not one."""
        if word == QUIT:
            client.has_ended = True
            client.incoming.clear()
        elif word == EXIT:
            self._stop_listening()
        elif word == SHUTDOWN:
            self.stop()
        return word in (QUIT, EXIT, SHUTDOWN)

    def _fed(self, text: str) -> list[str]:
        try:
            return self._answers.feed(text)
        except Exception as error:  # noqa: BLE001 - a command of the model may raise anything
            # Only this client's line is wrong. The others continue.
            raised = error_lines(error)
        try:
            return self._answers.settle() + raised
        except Exception as error:  # noqa: BLE001 - so may what the line had queued; the rest of it is dropped
            return raised + error_lines(error)


def error_lines(error: BaseException) -> list[str]:
    """Return an error as lines that begin with ``error:``, or are indented under one."""
    text = str(error) if isinstance(error, RowtideError) else f"{type(error).__name__}: {error}"
    first, *more = text.splitlines() or [""]
    hint = error.hint if isinstance(error, RowtideError) else None
    return [
        f"error: {first}",
        *(f"  {line.strip()}" for line in more),
        *([f"  hint: {hint}"] if hint else []),
    ]
