"""A real browser: Debian's Chromium without a window, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from real.parts import missing
from real.unpacked import Unpacked

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COMMAND = "chromium-headless-shell"
FILE = f"usr/lib/chromium/{COMMAND}"
# It runs as root in CI, where its sandbox does not start, and opens only pages of this machine. Grey text makes small
# pictures.
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-lcd-text")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A running browser. While it runs this thread has an event loop, so no longer than a module."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        missing("Playwright", f'{error}; install it with: pip install "rowtide[dev]"')
    package = Unpacked(COMMAND, FILE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=package.command, args=OPTIONS, env={**package.environment}
        )
        yield browser
        browser.close()
