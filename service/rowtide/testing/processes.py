"""Child processes that are servers: their ports, and their end when the parent process ends."""

from __future__ import annotations

import shutil
import socket

LOCAL = "127.0.0.1"

ENDS_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM", "--") if shutil.which("setpriv") else ()
"""Prefix of a command that ends the child when this process ends for any reason (Linux only)."""


def free_port(wanted: int = 0) -> int:
    """Return a free TCP port: ``wanted``, if it is free."""
    with socket.socket() as probe:
        try:
            probe.bind((LOCAL, wanted))
        except OSError:
            if not wanted:
                raise
            probe.bind((LOCAL, 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Return whether something listens on a TCP port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex((LOCAL, port)) == 0
