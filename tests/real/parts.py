"""What a test does when a real part is missing: in CI it fails, elsewhere it is skipped and says why."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(part: str, why: object) -> NoReturn:
    """Give up on a test that needs ``part``."""
    message = f"{part} is missing: {why}"
    if hint := getattr(why, "hint", None):
        message += f" {hint}"
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


CONTAINERS = "ROWTIDE_TEST_CONTAINERS"
"""Set to 1, Kafka and PostgreSQL run in containers of their own projects' images; else in processes."""


def uses_containers() -> bool:
    """Return whether containers are asked for; that an engine happens to run says nothing of its images."""
    asked = os.environ.get(CONTAINERS, "").lower()
    if asked not in ("", "0", "1", "false", "true"):
        pytest.fail(f'{CONTAINERS} is "{asked}": it is 1 or 0', pytrace=False)
    return asked in ("1", "true")
