"""What a test does when a real part is missing: in CI it fails, elsewhere it is skipped and says why."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import pytest


def missing(part: str, why: object) -> NoReturn:
    """Give up on a test that needs ``part``."""
    message = f"{part} is missing: {why}"
    if hint := getattr(why, "hint", None):
        message += f" {hint}"
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def has_docker() -> bool:
    """Tell whether a Docker engine answers."""
    host = os.environ.get("DOCKER_HOST")
    address = urlsplit(host) if host else urlsplit("unix:///var/run/docker.sock")
    try:
        if address.scheme == "unix":
            if not Path(address.path).exists():
                return False
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(2)
                probe.connect(address.path)
        else:
            socket.create_connection((address.hostname or "", address.port or 2375), timeout=2).close()
    except OSError:
        return False
    return True
