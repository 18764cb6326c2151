"""Error rows on the page, before recorded answers: the list, its filters, and one row with its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.recorded import P, Recorded
from support.tab import NARROW, WIDE, findings, tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


def wait_for_rows(page: Page, *numbers: int) -> None:
    """Wait until the table has exactly these rows."""
    for number in numbers:
        page.get_by_role("link", name=f"Error row {number}").wait_for()
    links = page.get_by_role("link", name="Error row")
    links.nth(len(numbers)).wait_for(state="detached")


def test_a_count_leads_to_its_rows_and_filters_are_in_the_address(
    chromium: Browser, service: Recorded
) -> None:
    with tab(chromium) as page:
        page.goto(service.url)
        page.get_by_role("banner").get_by_role("link", name="12").click()
        wait_for_rows(page, 16, 17)
        assert page.title() == "Error rows · orders · Rowtide"
        page.get_by_label("pending only").uncheck()
        wait_for_rows(page, 15, 16)
        page.get_by_role("link", name="Next rows").click()
        wait_for_rows(page, 17)
        page.get_by_role("link", name="First rows").click()
        page.get_by_label("Kind").select_option("LATE")
        wait_for_rows(page, 17)
        page.get_by_label("Kind").select_option("all")
        page.get_by_label("Relation").select_option("ORDERS")
        page.get_by_label("Reason").fill("decode")
        page.get_by_label("Reason").press("Enter")
        wait_for_rows(page, 15, 16)
        assert page.url.endswith("#/errors?relation=ORDERS&reason=DECODE")
        command = "rowtide errors resubmit PIPELINE.sql --relation ORDERS --reason DECODE --dry-run"
        assert page.get_by_role("region", name="Command").inner_text().strip() == command
        page.reload()
        wait_for_rows(page, 15, 16)
        page.get_by_label("Reason").fill("cast")
        page.get_by_label("Reason").press("Enter")
        page.get_by_text("No error row matches.").wait_for()
        page.goto(f"{service.url}#/")
        page.get_by_role("row").filter(has_text="ORDERS_IN_TIME").get_by_role(
            "link", name="2", exact=True
        ).click()
        wait_for_rows(page, 17)


def test_what_is_typed_stays_when_more_rows_come(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(f"{service.url}#/errors")
        reason = page.get_by_label("Reason")
        for seen, typed in enumerate(["late", "LATE", "decode"], 13):
            reason.fill(typed)
            service.send("errors", {"pending": {"ORDERS": seen}, "newest": 17})
            page.get_by_role("banner").get_by_role("link", name=str(seen)).wait_for()
            assert reason.input_value() == typed
            reason.press("Enter")
            wait_for_rows(page, *([17] if typed.upper() == "LATE" else [15, 16]))
            assert reason.input_value() == typed.upper()


def test_a_row_has_its_bytes_with_the_place_of_the_fault(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(f"{service.url}#/errors")
        page.get_by_role("link", name="Error row 16").click()
        text = page.get_by_role("region", name="Message as text")
        text.wait_for()
        assert page.title() == "Error row 16 · orders · Rowtide"
        assert text.inner_text().strip() == '{"order_id": 16!'
        assert text.locator("mark").inner_text() == "!"
        hexadecimal = page.get_by_role("region", name="Message in hexadecimal")
        assert hexadecimal.locator("mark").inner_text() == "21"
        assert "00000000 7b 22 6f" in hexadecimal.inner_text()
        said = page.get_by_role("main").inner_text()
        assert all(
            each in said for each in ("orders[1]@816", "DECODE", "invalid character", "origin", "shop")
        )
        assert "resubmit PIPELINE.sql 16 --dry-run" in said


def test_a_failed_query_does_not_look_like_an_empty_one(chromium: Browser, service: Recorded) -> None:
    with tab(chromium, may_fail=True) as page:
        service.refusals[f"{P}/errors"] = 503
        page.goto(f"{service.url}#/errors")
        page.get_by_text("the database is down").wait_for()
        assert page.get_by_text("No error row matches.").count() == 0
        page.goto(f"{service.url}#/errors/18")
        page.get_by_text("the service answers 404").wait_for()


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", NARROW)])
@pytest.mark.parametrize("view", ["#/errors", "#/errors/16"])
def test_the_views_meet_wcag_2_2_aa(
    chromium: Browser, service: Recorded, axe: str, scheme: str, size: tuple[int, int], view: str
) -> None:
    with tab(chromium, size, scheme=scheme) as page:
        page.goto(service.url + view)
        page.get_by_role("region", name="Command").wait_for()
        assert findings(page, axe) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
