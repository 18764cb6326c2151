"""The last rows in the view of a relation, before recorded answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.recorded import LATEST, LATEST_PATH, P, Recorded
from support.tab import NARROW, WIDE, findings, tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

VIEW = "#/relations/ORDERS_IN_TIME"


def rows(page: Page) -> list[list[str]]:
    """Return what the table of the last rows says, with its head."""
    table = page.get_by_role("region", name="Last rows")
    table.wait_for()
    found = table.get_by_role("row").all()
    return [[each.strip() for each in row.locator("th, td").all_inner_texts()] for row in found]


def test_the_last_rows_are_shown_the_newest_first(chromium: Browser, service: Recorded) -> None:
    with tab(chromium) as page:
        page.goto(f"{service.url}{VIEW}")
        assert rows(page) == [
            ["rowtime", "change", "PRODUCT", "ORDER_ID"],
            ["2026-01-01 09:39:31.520", "+ comes", "NULL", str(2**53 + 2)],
            ["2026-01-01 09:39:30.520", "- goes", "rope", str(2**53 + 1)],
            ["2026-01-01 09:39:29.520", "+ comes", "rope", str(2**53)],
        ]
        began = "since 2026-01-01 09:40:00.000, when this process began to compute it"
        page.get_by_text(f"The last 3 of 12,431 rows {began}, the newest first.").wait_for()


def only(*answer: dict[str, Any], total: int) -> dict[str, Any]:
    return {**LATEST, "rows": list(answer), "total": total}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (only(total=0), "It has given no row since"),
        (only({"op": "+", "rowtime": None, "row": ["rope", "1"]}, total=1), "1 row since"),
    ],
)
def test_they_are_read_again_by_a_button(
    chromium: Browser, service: Recorded, answer: dict[str, Any], said: str
) -> None:
    with tab(chromium) as page:
        page.goto(f"{service.url}{VIEW}")
        assert len(rows(page)) == 4
        service.kept[LATEST_PATH] = answer
        page.get_by_role("button", name="Read again").press("Enter")
        page.get_by_text(said).wait_for()
        if answer["rows"]:
            # Without a row that goes there is no column for it.
            assert rows(page) == [["rowtime", "PRODUCT", "ORDER_ID"], ["—", "rope", "1"]]
        else:
            page.get_by_role("region", name="Last rows").wait_for(state="detached")


def test_a_refusal_is_said(chromium: Browser, service: Recorded) -> None:
    service.refusals[f"{P}/{LATEST_PATH}"] = 409
    with tab(chromium, may_fail=True) as page:
        page.goto(f"{service.url}{VIEW}")
        page.get_by_text("this path needs read").wait_for()
        assert page.get_by_role("region", name="Last rows").count() == 0


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", NARROW)])
def test_the_view_meets_wcag_2_2_aa(
    chromium: Browser, service: Recorded, axe: str, scheme: str, size: tuple[int, int]
) -> None:
    with tab(chromium, size, scheme=scheme) as page:
        page.goto(f"{service.url}{VIEW}")
        rows(page)
        assert findings(page, axe) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
