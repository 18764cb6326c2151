"""The HTTP server: uvicorn in a separate thread, beside the pipeline's main loop.

The socket is bound before the thread starts, so the user sees at once that a port is
taken, and the server answers when ``start`` returns.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
import threading
from contextlib import suppress

import uvicorn
from starlette.applications import Starlette

from rowtide.errors import FaultError, StatementError
from rowtide.web.connections import BoundedConnection

STOP_LIMIT_S = 3
"""Time for open requests to finish: a SIGTERM has 10 s in all, most of it for the last commit."""

START_LIMIT_S = 10.0
"""uvicorn answers within milliseconds of its start; this limit only prevents an endless wait."""

START_STEP_S = 0.01

HIGHEST_PORT = 65_535
NEAR = 20
"""How far above a port that is taken a free one is looked for."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host to listen on; localhost is the only such name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def parse_listen(listen: str) -> tuple[str, int]:
    """Split ``host:port``; an IPv6 host is in brackets, an empty host means every interface.

    Raises:
      StatementError: if the text is invalid; the message has the allowed forms.
    """
    host, colon, port = listen.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if (
        not colon
        or not port.isascii()
        or not port.isdigit()
        or int(port) > HIGHEST_PORT
        or (":" in host) != bracketed
    ):
        raise StatementError(
            f'address "{listen}" is not a host and port',
            hint="Write host:port, the port being 0 to 65535: 127.0.0.1:8080, 0.0.0.0:8080, [::1]:8080.",
        )
    return host.strip("[]"), int(port)


class WebServer:
    """Serves ``app`` at ``listen`` from ``start`` to ``stop``; each is called once, in this order.

    ``setting`` is the setting that ``listen`` comes from, for errors. With ``tls`` it accepts only HTTPS.
    """

    def __init__(
        self,
        app: Starlette,
        listen: str,
        *,
        setting: str = "service.listen",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listen = listen
        self._scheme = "http" if tls is None else "https"
        self._setting = setting
        self._host, self._port = parse_listen(listen)
        # The pipeline has its own log; uvicorn must neither configure logging nor write access lines.
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            http=BoundedConnection,
            ws="none",
            # The log names the connected client, not an address from a header.
            proxy_headers=False,
            timeout_graceful_shutdown=STOP_LIMIT_S,
        )
        config.load()
        config.ssl = tls
        self._server = uvicorn.Server(config)
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Return the address of the server, with the real port if port 0 was requested."""
        if self._socket is None:
            raise FaultError("the web server has not been started")
        host, port = self._socket.getsockname()[:2]
        return f"{self._scheme}://[{host}]:{port}" if ":" in host else f"{self._scheme}://{host}:{port}"

    def start(self) -> None:
        """Bind, and serve in a daemon thread; returns when the server answers requests.

        Raises:
          StatementError: if the address cannot be bound; nothing is left open.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            self._socket = socket.create_server((self._host, self._port), family=family, backlog=128)
        except OSError as error:
            raise _cannot_listen(self._listen, self._setting, error) from error
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="rowtide-web", daemon=True
        )
        self._thread.start()
        waited_s = 0.0
        while not self._server.started:
            if waited_s > START_LIMIT_S or not self._thread.is_alive():
                self.stop()
                raise FaultError(f'the web server at "{self._listen}" did not start')
            self._thread.join(START_STEP_S)
            waited_s += START_STEP_S

    def stop(self) -> None:
        """Refuse new requests, let open ones finish for ``STOP_LIMIT_S``, and release the port."""
        if self._thread is None or self._socket is None:
            return
        self._server.should_exit = True
        self._thread.join(STOP_LIMIT_S + 1)
        self._socket.close()


def _cannot_listen(listen: str, setting: str, error: OSError) -> StatementError:
    """Return why an address cannot be bound and what to do."""
    flag = f"--{setting.removeprefix('service.').replace('_', '-')}"
    hint = f"Set {setting}, or {flag}, to an address of this machine."
    if error.errno == errno.EADDRINUSE:
        free = _free_beside(listen)
        hint = (
            f"Another program listens there. Stop it, or choose another port with {flag} or {setting}; "
            + ("0 takes a free one." if free is None else f"{flag} {free} is free.")
        )
    elif error.errno == errno.EACCES:
        hint = f"Ports below 1024 need a privilege. Set {setting} to a higher port."
    return StatementError(f'cannot listen at "{listen}": {(error.strerror or str(error)).lower()}', hint=hint)


def _free_beside(listen: str) -> str | None:
    """Return the address of a free port a little above the one that is taken; None: there is none."""
    host, port = parse_listen(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for beside in range(port + 1, min(port + NEAR, HIGHEST_PORT) + 1):
        with suppress(OSError), socket.create_server((host, beside), family=family):
            return f"{listen.rpartition(':')[0]}:{beside}"
    return None
