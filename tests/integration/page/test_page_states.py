"""The page in a real browser, before recorded answers: what it shows, how it is used, and each of its states."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from support.recorded import IDLE, P, Recorded, large, progress, recorded
from support.tab import NARROW, WIDE, findings
from support.tab import tab as opened
from support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser


tab = partial(opened, now="2026-01-01T09:40:03.000Z")
"""The clock stands a second after the last recorded commit, so that what is shown depends on nothing else."""


def cells(page: Page, relation: str) -> list[str]:
    """Return what the table says of a relation, once it has numbers."""
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=relation))
    return [each.strip() for each in row.get_by_role("cell").all_inner_texts()]


def node(page: Page, relation: str) -> Locator:
    return page.locator("a.node").filter(has=page.locator(f'strong:text-is("{relation}")'))


def test_the_overview_has_the_numbers_of_one_commit(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(service.url)
        node(page, "ORDERS").get_by_text("1,998 rows/s").wait_for()
        assert page.title() == "Overview · orders · Rowtide"
        head = page.get_by_role("banner").inner_text().split()
        assert {"orders", "running", "09:39:29.520", "12"} <= {*head}
        assert cells(page, "ORDERS_IN_TIME") == [
            "view",
            "1,998",
            "1,998",
            "09:39:29.520",
            "32 s",
            "246",
            "2",
            "0",
        ]
        assert cells(page, "UNREAD")[:3] == ["view, not read", "—", "—"]
        assert node(page, "ORDERS").locator(".marks > span").all_inner_texts() == ["lag 12", "rejected 3"]
        assert "held 246" in node(page, "ORDERS_IN_TIME").inner_text()
        assert "no started pump reads it" in node(page, "UNREAD").inner_text()
        # Numbers change, places do not.
        before = node(page, "ORDERS").bounding_box()
        service.send("progress", progress(3, 4_998))
        node(page, "ORDERS").get_by_text("1,499 rows/s").wait_for()
        assert node(page, "ORDERS").bounding_box() == before


def test_what_keeps_rows_back_is_marked_with_why_and_what_to_do(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(service.url)
        rows_wait = page.get_by_role("region", name="Rows wait")
        rows_wait.wait_for()
        text = rows_wait.inner_text()
        assert all(str(IDLE[part]) in text for part in ("why", "released", "change"))
        assert "249 rows wait in FILL_ORDERS_PER_MINUTE" in text
        page.locator("path.edge.held").nth(1).wait_for(state="attached")
        assert page.locator("path.edge.held").count() == 2
        assert page.get_by_role("img", name="keeps others back").count() == 2
        service.send("problem", {"causes": []})
        rows_wait.wait_for(state="detached")
        page.locator("path.edge.held").first.wait_for(state="detached")
        # Another process has not looked yet.
        service.send("problem", {"causes": [IDLE]})
        rows_wait.wait_for()
        service.phase("recovering", epoch=4)
        rows_wait.wait_for(state="detached")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("view", ["#/", "#/relations/ORDERS_IN_TIME"])
def test_the_page_meets_wcag_2_2_aa(
    chromium: Browser, service: Recorded, axe: str, scheme: str, size: tuple[int, int], view: str
) -> None:
    with tab(chromium, size, scheme=scheme) as page:
        page.goto(service.url + view)
        page.get_by_text("CREATE VIEW" if "relations" in view else "249 rows").first.wait_for()
        if view == "#/":
            node(page, "ORDERS").wait_for()
        assert findings(page, axe) == []
        # A wide table scrolls by itself; the page does not.
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_everything_can_be_done_with_the_keyboard(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(service.url)
        node(page, "ORDERS").wait_for()
        page.keyboard.press("Tab")
        assert focused(page) == "Skip to the content"
        page.keyboard.press("Enter")
        tab_to(page, "ORDERS_IN_TIME")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="ORDERS_IN_TIME view").wait_for()
        page.get_by_text("CREATE VIEW orders_in_time").wait_for()
        tab_to(page, "Ask")
        page.keyboard.press("Enter")
        page.get_by_role("listitem").filter(has_text=str(IDLE["why"])).wait_for()
        page.go_back()
        node(page, "ORDERS").wait_for()
        tab_to(page, "held")
        page.keyboard.press("Enter")
        page.locator('th[aria-sort="descending"]').wait_for()
        assert page.get_by_role("rowheader").first.inner_text().startswith("FILL_ORDERS_PER_MINUTE")


def focused(page: Page) -> str:
    text: str = page.evaluate("document.activeElement.innerText ?? ''")
    return text.strip()


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the focus is on what has this name."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if focused(page).split("\n")[0] == name:
            return
    pytest.fail(f"no control {name!r} comes")


def test_filters_are_in_the_address(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(service.url)
        page.get_by_role("searchbox").fill("minute")
        page.get_by_text("2 of 5").wait_for()
        page.get_by_role("button", name="relation").click()
        assert page.url.endswith("#/?search=minute&sort=name")
        page.reload()
        page.get_by_text("2 of 5").wait_for()
        assert page.get_by_role("searchbox").input_value() == "minute"


def test_of_a_large_graph_a_part_is_drawn(chromium: Browser) -> None:
    with recorded(graph=large(400)) as service, tab(chromium) as page:
        counts = [[at, 10, 10, 0, 0, 0, 0, None] for at in range(400)]
        service.send("progress", {**progress(1, digest="large-400"), "steps": counts})
        page.goto(service.url)
        page.locator("a.node").nth(149).wait_for()
        assert page.locator("a.node").count() == 150
        assert "250 more" in page.get_by_role("heading", name="Graph").inner_text()
        page.get_by_role("searchbox").fill("_300")
        page.get_by_role("link", name="Draw the graph around RELATION_300").click()
        node(page, "RELATION_302").wait_for()
        assert page.locator("a.node").count() == 5
        page.get_by_role("link", name="Draw all").click()
        node(page, "RELATION_000").wait_for()
        page.get_by_role("searchbox").fill("")
        page.get_by_role("link", name="Next").click()
        page.get_by_role("rowheader", name="RELATION_100").wait_for()
        assert page.get_by_role("rowheader").count() == 100


def test_a_connection_that_is_lost_greys_the_numbers_and_comes_back(
    chromium: Browser, service: Recorded
) -> None:
    with tab(chromium, may_fail=True) as page:
        page.goto(service.url)
        node(page, "ORDERS").get_by_text("1,998 rows/s").wait_for()
        service.stop()
        page.get_by_role("heading", name="The connection is lost").wait_for()
        page.locator("main.old").wait_for()
        assert "numbers are" in page.get_by_role("banner").inner_text()
        assert node(page, "ORDERS").get_by_text("1,998 rows/s").is_visible()
        service.start()
        page.get_by_role("heading", name="The connection is lost").wait_for(state="detached")
        assert page.locator("main.old").count() == 0


PHASES = [
    ("starting", None, "Starting"),
    ("recovering", None, "Recovering"),
    ("following", None, "Following"),
    ("waiting", "database", "Waiting for database"),
    ("stopping", None, "Stopping"),
]


def test_each_phase_is_said(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(service.url)
        node(page, "ORDERS").wait_for()
        for phase, waits_for, title in PHASES:
            service.phase(phase, waits_for)
            page.get_by_role("heading", name=title).wait_for()
            assert page.locator("header .phase").inner_text() == phase
        service.phase("running")
        page.get_by_role("heading", name="Stopping").wait_for(state="detached")


def test_a_pipeline_without_data_says_what_to_do(chromium: Browser) -> None:
    with recorded() as service, tab(chromium) as page:
        empty: dict[str, Any] = progress(1)
        empty["steps"] = [[row[0], 0, 0, 0, 0, 0, 0, None] for row in empty["steps"]]
        service.send("progress", empty)
        page.goto(service.url)
        page.get_by_role("heading", name="No data yet").wait_for()
        assert "no message has come for ORDERS" in page.locator(".state").inner_text()


def test_a_missing_token_is_asked_for_and_a_missing_right_is_named(chromium: Browser, axe: str) -> None:
    with recorded(token="secret-token-of-a-looker") as service, tab(chromium, may_fail=True) as page:
        service.runs()
        page.goto(service.url)
        field = page.get_by_label("Token")
        field.fill("wrong")
        field.press("Enter")
        page.get_by_text("the token is invalid").wait_for()
        assert findings(page, axe) == []
        field.fill("secret-token-of-a-looker")
        field.press("Enter")
        node(page, "ORDERS").wait_for()
        assert page.evaluate("document.cookie") == ""
        service.refusals["/api/v1/pipelines"] = 403
        page.reload()
        page.get_by_role("heading", name="A right is missing").wait_for()
        assert "needs read" in page.locator(".state").inner_text()
        assert page.locator("a.node").count() == 0


def test_times_and_colours_are_chosen_and_kept(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(service.url)
        for name in ("Times: UTC", "Colours: system", "Colours: dark"):
            page.get_by_role("button", name=name).click()
        page.reload()
        page.get_by_role("button", name="Times: local").wait_for()
        page.get_by_role("button", name="Colours: light").wait_for()
        assert page.locator(":root").get_attribute("data-theme") == "light"


def test_a_hidden_tab_closes_its_stream(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(service.url)
        node(page, "ORDERS").wait_for()
        assert service.watchers == 1
        hide(page, "true")
        wait_until(lambda: service.watchers == 0)
        hide(page, "false")
        wait_until(lambda: service.watchers == 1)


def hide(page: Page, is_hidden: str) -> None:
    page.evaluate(
        f"Object.defineProperty(document, 'hidden', {{value: {is_hidden}, configurable: true}});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )


def test_names_in_paths_are_encoded(chromium: Browser, service: Recorded) -> None:
    with tab(chromium, may_fail=True) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{service.url}#/relations/a%2Fb%3F")
        page.get_by_text("the service answers 404").wait_for()
        assert any(each.endswith(f"{P}/relations/a%2Fb%3F") for each in asked)
