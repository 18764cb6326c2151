"""Error rows on the page, before recorded answers: the list, its filters, and one row with its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.recorded import BROKEN, RESUBMISSIONS, P, Recorded
from support.tab import NARROW, WIDE, findings, tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser


READER = ("read",)


def wait_for_rows(page: Page, *numbers: int) -> None:
    """Wait until the table has exactly these rows."""
    for number in numbers:
        page.get_by_role("link", name=f"Error row {number}").wait_for()
    links = page.get_by_role("link", name="Error row")
    links.nth(len(numbers)).wait_for(state="detached")


def test_a_count_leads_to_its_rows_and_filters_are_in_the_address(
    chromium: Browser, service: Recorded
) -> None:
    service.rights = READER
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
        show(page, service, "#/")
        page.get_by_role("row").filter(has_text="ORDERS_IN_TIME").get_by_role(
            "link", name="2", exact=True
        ).click()
        wait_for_rows(page, 17)


def test_what_is_typed_stays_when_more_rows_come(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        show(page, service, "#/errors")
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
    service.rights = READER
    with tab(chromium) as page:
        show(page, service, "#/errors")
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
        show(page, service, "#/errors")
        page.get_by_text("the database is down").wait_for()
        assert page.get_by_text("No error row matches.").count() == 0
        show(page, service, "#/errors/18")
        page.get_by_text("the service answers 404").wait_for()


OUTLOOK = (
    "1 row would be resubmitted: 1 of ORDERS_IN_TIME.",
    "Row 17 will count at 2026-01-01 09:39:29.520 or later, in the window of ORDERS_PER_MINUTE that ends at "
    "2026-01-01 09:40:00.000 or later.",
)


def show(page: Page, service: Recorded, view: str) -> None:
    """Open a view once everything has come: what comes between the two halves of a click moves the button away."""
    page.goto(service.url + view)
    page.get_by_role("banner").get_by_role("link", name="12").wait_for()


def outcome(page: Page) -> Locator:
    return page.get_by_role("group", name="Resubmission")


def test_rows_that_match_are_resubmitted_once_they_are_confirmed(
    chromium: Browser, service: Recorded
) -> None:
    with tab(chromium) as page:
        show(page, service, "#/errors?pending=true")
        page.get_by_role("button", name="Resubmit all that match…").click()
        outcome(page).get_by_text(OUTLOOK[0]).wait_for()
        outcome(page).get_by_text("After this the pipeline may have 998 more resubmissions.").wait_for()
        assert outcome(page).get_by_role("listitem").all_inner_texts() == [
            OUTLOOK[1],
            f"Row 16 cannot be resubmitted: {BROKEN}.",
        ]
        of_all = {"kind": "", "relation": "", "reason": "", "pending": True, "after": 0, "dry_run": True}
        assert service.asked == [of_all]
        outcome(page).get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Resubmit all that match…").click()
        confirm = outcome(page).get_by_role("button", name="Resubmit 1 row")
        confirm.wait_for()
        # Another row comes after the dry run: it is not what was confirmed.
        service.errors.append({**service.errors[2], "number": 18})
        confirm.click()
        outcome(page).get_by_text("1 row resubmitted: 1 of ORDERS_IN_TIME.").wait_for()
        assert service.asked == [of_all, of_all, {"numbers": [17]}]
        wait_for_rows(page, 16, 18)
        outcome(page).get_by_role("button", name="Close").click()
        page.get_by_label("Kind").select_option("REJECTED")
        page.get_by_role("button", name="Resubmit all that match…").click()
        outcome(page).get_by_text("No row would be resubmitted.").wait_for()
        assert outcome(page).get_by_role("button").all_inner_texts() == ["Close"]


def test_one_row_is_resubmitted_with_the_keyboard_alone(chromium: Browser, service: Recorded) -> None:
    with tab(chromium, NARROW) as page:
        show(page, service, "#/errors/17")
        page.get_by_role("button", name="Resubmit…").focus()
        page.keyboard.press("Enter")
        for each in OUTLOOK:
            outcome(page).get_by_text(each).wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        # Cancelled: the button has the focus again.
        page.get_by_role("button", name="Resubmit…").wait_for()
        page.keyboard.press("Enter")
        outcome(page).get_by_text(OUTLOOK[0]).wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        outcome(page).get_by_text("1 row resubmitted").wait_for()
        page.get_by_text("as 2, 2026-01-01 09:40:03.000").wait_for()
        dry = {"numbers": [17], "after": 0, "dry_run": True}
        assert service.asked == [dry, dry, {"numbers": [17]}]
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        outcome(page).wait_for(state="detached")
        assert page.get_by_role("button", name="Resubmit…").count() == 0


def test_what_is_asked_of_one_row_is_not_shown_of_another(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        show(page, service, "#/errors/17")
        page.get_by_role("button", name="Resubmit…").click()
        outcome(page).get_by_role("button", name="Resubmit 1 row").wait_for()
        page.evaluate("location.hash = '#/errors/16'")
        page.get_by_role("heading", name="Error row 16 rejected").wait_for()
        page.get_by_role("button", name="Resubmit…").wait_for()
        assert outcome(page).count() == 0


def test_what_matches_beyond_the_limit_of_a_request_is_resubmitted_by_the_next_ones(
    chromium: Browser, service: Recorded
) -> None:
    service.most = 1
    service.errors.append({**service.errors[2], "number": 18})
    with tab(chromium) as page:
        show(page, service, "#/errors")
        page.get_by_role("button", name="Resubmit all that match…").click()
        outcome(page).get_by_text("No row would be resubmitted.").wait_for()
        outcome(page).get_by_role("button", name="Next rows…").click()
        outcome(page).get_by_text("Row 17 will count").wait_for()
        outcome(page).get_by_role("button", name="Resubmit 1 row").click()
        outcome(page).get_by_text("1 row resubmitted").wait_for()
        outcome(page).get_by_role("button", name="Next rows…").click()
        outcome(page).get_by_text("Row 18 will count").wait_for()
        assert outcome(page).get_by_text("More rows match").count() == 0
        outcome(page).get_by_role("button", name="Resubmit 1 row").click()
        outcome(page).get_by_text("1 row resubmitted").wait_for()
        assert outcome(page).get_by_role("button").all_inner_texts() == ["Close"]
    assert [each.get("numbers", each.get("after")) for each in service.asked] == [0, 16, [17], 17, [18]]


def test_why_rows_are_not_resubmitted_is_shown(chromium: Browser, service: Recorded) -> None:
    with tab(chromium, may_fail=True) as page:
        service.refusals[RESUBMISSIONS] = 409
        show(page, service, "#/errors/17")
        page.get_by_role("button", name="Resubmit…").click()
        outcome(page).get_by_text("1000 is the limit").wait_for()
        assert outcome(page).get_by_role("button").all_inner_texts() == ["Close"]


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", NARROW)])
@pytest.mark.parametrize("view", ["#/errors", "#/errors/17"])
@pytest.mark.parametrize("rights", [READER, ("read", "operate")], ids=len)
def test_the_views_meet_wcag_2_2_aa(
    chromium: Browser,
    service: Recorded,
    axe: str,
    scheme: str,
    size: tuple[int, int],
    view: str,
    rights: tuple[str, ...],
) -> None:
    service.rights = rights
    with tab(chromium, size, scheme=scheme) as page:
        show(page, service, view)
        if rights == READER:
            page.get_by_role("region", name="Command").wait_for()
            assert page.get_by_role("button", name="Resubmit").count() == 0
        else:
            page.get_by_role("button", name="Resubmit").click()
            outcome(page).get_by_role("button", name="Resubmit 1 row").wait_for()
        assert findings(page, axe) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
