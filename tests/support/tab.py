"""A tab of the browser that notes what a page must not do: messages of the console, errors, reports of its policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PATIENCE_MS = 30_000
WIDE, NARROW = (1280, 900), (390, 844)
NOT_LOADED = "Failed to load resource"
"""What the browser itself writes for each request that fails or is refused."""
IMAGES = Path(__file__).parents[2] / "docs/images"
_REPORTS = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));"""
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@contextmanager
def tab(
    browser: Browser,
    size: tuple[int, int] = WIDE,
    *,
    scheme: Any = "light",
    may_fail: bool = False,
    now: str | None = None,
) -> Iterator[Page]:
    """Open a tab. Only with ``may_fail`` a request may fail; nothing else is logged. ``now`` stops the clock."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    noted: list[str] = []
    page.on("console", lambda message: noted.append(message.text))
    page.on("pageerror", lambda error: noted.append(str(error)))
    page.add_init_script(_REPORTS)
    if now is not None:
        page.clock.set_fixed_time(now)
    yield page
    context.close()
    assert [each for each in noted if not (may_fail and each.startswith(NOT_LOADED))] == []


def findings(page: Page, axe: str) -> list[str]:
    """Return what axe-core finds in the page against WCAG 2.2 A and AA."""
    page.evaluate(axe)
    found = page.evaluate("rules => axe.run(document, {runOnly: rules})", _RULES)
    return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]


def picture(page: Page, name: str, config: pytest.Config, size: tuple[int, int]) -> None:
    """Write a picture for the documentation, if the test run is asked to."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    if config.getoption("--pictures"):
        page.screenshot(path=IMAGES / f"{name}.png")
