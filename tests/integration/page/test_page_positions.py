"""How far the pipeline got, before recorded answers: a tab each for partitions, commits, snapshots and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.recorded import COMMITS, P, Recorded, progress
from support.tab import NARROW, WIDE, findings, tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

TABS = ("partitions", "commits", "snapshots", "decisions")


def cells(page: Page, name: str) -> list[str]:
    """Return what the row with this name says, without the name."""
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
    row.wait_for()
    return [each.strip() for each in row.get_by_role("cell").all_inner_texts()]


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Parts of this view").get_by_role("link", name=name).press("Enter")
    page.get_by_role("region", name=f"Table of {name}").wait_for()


def test_the_tabs_say_how_far_the_pipeline_got(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(service.url)
        page.get_by_role("link", name="Positions").press("Enter")
        behind = ["ORDERS", "2,998", "3,010", "12", "2026-01-01 09:39:59.520", "its rows", "0"]
        assert cells(page, "orders[1]") == behind
        assert page.title() == "Positions · orders · Rowtide"
        assert cells(page, "orders[0]")[5] == "idle_timeout"
        assert cells(page, "orders[2]")[4:6] == ["—", "—"]
        open_tab(page, "commits")
        assert cells(page, "1,201") == [
            "2026-01-01 09:40:01.000",
            "0.250",
            "1,998",
            "ORDERS_PER_MINUTE 3",
            "2",
            "0",
            "81,920 bytes",
            "3",
        ]
        assert cells(page, "1,200")[3] == "none"
        begun = "1,199 earlier commits are not shown: this process has run the pipeline since 2026-01-01 09:40:00.000"
        page.get_by_text(begun).wait_for()
        open_tab(page, "snapshots")
        assert cells(page, "7") == ["2026-01-01 09:40:01.000", "1,201", "81,920", "3"]
        open_tab(page, "decisions")
        assert cells(page, "5")[1:4] == ["IDLE", "orders[0]@1000", "was silent and took this bound"]
        assert cells(page, "4")[2:4] == ["ORDERS", "resubmission 1 joined"]
        assert page.url.endswith("#/positions?tab=decisions")
        page.reload()
        cells(page, "5")
        page.get_by_role("button", name="Times: UTC").click()
        page.get_by_role("button", name="Times: local").wait_for()
        page.go_back()
        cells(page, "7")


def test_new_commits_come_by_themselves_and_earlier_ones_by_pages(
    chromium: Browser, service: Recorded
) -> None:
    with tab(chromium) as page:
        page.goto(f"{service.url}#/positions?tab=commits")
        cells(page, "1,202")
        newest = {**COMMITS[0], "number": 1_203}
        service.kept["commits"] = {
            "commits": [newest, *COMMITS],
            "next": "1200",
            "begun": None,
            "not_shown": 9,
        }
        service.send("progress", progress(3))
        cells(page, "1,203")
        assert page.get_by_text("not shown").count() == 0
        with page.expect_request(lambda request: request.url.endswith("/commits?after=1200")):
            page.get_by_role("link", name="Earlier commits").click()
        with page.expect_request(lambda request: request.url.endswith("/commits")):
            page.get_by_role("link", name="Newest commits").click()


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("partitions", {"positions": []}, "reads no partition yet"),
        (
            "commits",
            {"commits": [], "next": None, "begun": None, "not_shown": 1},
            "1 earlier commit is not shown: this process does not run the pipeline yet.",
        ),
        ("snapshots", {"snapshots": []}, "No snapshot is stored yet."),
        ("decisions", {"decisions": [], "next": None}, "No decision is logged yet."),
    ],
)
def test_nothing_yet_and_a_refusal_are_said(
    chromium: Browser, service: Recorded, name: str, answer: object, said: str
) -> None:
    path = "positions" if name == "partitions" else name
    service.kept[path] = answer
    with tab(chromium, may_fail=True) as page:
        page.goto(f"{service.url}#/positions?tab={name}")
        page.get_by_text(said).wait_for()
        service.refusals[f"{P}/{path}"] = 503
        page.reload()
        page.get_by_text("this path needs read").wait_for()
        assert page.get_by_text(said).count() == 0


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", NARROW)])
def test_the_view_meets_wcag_2_2_aa(
    chromium: Browser, service: Recorded, axe: str, scheme: str, size: tuple[int, int]
) -> None:
    with tab(chromium, size, scheme=scheme) as page:
        page.goto(f"{service.url}#/positions")
        for name in TABS:
            open_tab(page, name)
            assert findings(page, axe) == []
            # A wide table scrolls by itself, and its first column stays; the page does not scroll.
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
            page.locator("section.scroll").evaluate("each => (each.scrollLeft = 10_000)")
            first = page.get_by_role("rowheader").first.bounding_box()
            assert first is not None
            assert first["x"] >= 0
