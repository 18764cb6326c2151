"""Queries in a real browser, before a pipeline that runs: rows as they come, those of now, the place of a fault."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from rowtide.runtime.state.following import QUERIES_AT_MOST
from support.served import LARGE, ReadingsPipeline
from support.tab import NARROW, WIDE, findings, tab
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Locator, Page

    Send = Callable[[str, int], None]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Send]]:
    """The address of a pipeline that runs, and what sends a reading, each a second after the one before."""
    readings = ReadingsPipeline(tmp_path_factory.mktemp("served"))
    seconds = count()

    def send(sensor: str, amount: int) -> None:
        readings.send(sensor, amount, 1_000 * next(seconds))

    send("s1", LARGE)
    send("s2", 2)
    with readings.served(2) as url:
        yield f"{url}/ui/", send


def rows(page: Page) -> list[list[str]]:
    """Return the rows that are shown, with their numbers."""
    found: list[list[str]] = page.get_by_role("region", name="Rows", exact=True).evaluate(
        "each => [...each.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.innerText))"
    )
    return found


def editor(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Query")


def test_contents_are_read_once_by_keyboard_and_keep_their_digits(
    chromium: Browser, sent: tuple[str, Send]
) -> None:
    with tab(chromium) as page:
        page.goto(sent[0])
        page.get_by_role("link", name="SQL").press("Enter")
        page.get_by_label("Start from").select_option(label="a/b (table)")
        assert editor(page).input_value() == 'SELECT * FROM "a/b"'
        editor(page).press_sequentially(" WHERE amount > 0 ORDER BY sensor")
        editor(page).press("Control+Enter")
        page.get_by_text("All rows: ").wait_for()
        found = rows(page)
        assert found[0] == ["1", "s1", str(LARGE)]
        assert found[1][:2] == ["2", "s2"]
        assert page.title() == "SQL · readings · Rowtide"
        # What was asked can be sent to others; it is not asked by the address alone.
        page.reload()
        assert editor(page).input_value() == 'SELECT * FROM "a/b" WHERE amount > 0 ORDER BY sensor'
        assert page.get_by_role("region", name="Rows", exact=True).count() == 0
        editor(page).fill("SELECT * FROM latest WHERE sensor = 'no one'")
        page.get_by_role("button", name="Read once").press("Enter")
        page.get_by_text("There are no rows.").wait_for()


def test_rows_of_a_stream_are_followed_and_stay_once_stopped(
    chromium: Browser, sent: tuple[str, Send]
) -> None:
    url, send = sent
    with tab(chromium, may_fail=True) as page:
        page.goto(f"{url}#/relations/READINGS")
        page.get_by_role("link", name="Look at its rows").click()
        assert editor(page).input_value() == "SELECT STREAM * FROM READINGS"
        editor(page).fill("SELECT STREAM sensor, 10 / amount AS share FROM readings")
        page.get_by_role("button", name="Follow").click()
        page.get_by_text("No row has come yet.").wait_for()
        send("s3", 2)
        send("s4", 5)
        send("s5", 0)
        page.get_by_text("1 rejected by the query").wait_for()
        page.get_by_text("2 rows came so far.").wait_for()
        assert [[number, *values] for number, _, *values in rows(page)] == [
            ["2", "s4", "2"],
            ["1", "s3", "5"],
        ]
        page.get_by_role("button", name="Stop").click()
        page.get_by_text("2 rows came, until it was stopped.").wait_for()
        send("s6", 1)
        assert len(rows(page)) == 2
        assert page.get_by_role("button", name="Stop").is_disabled()
        # Changes of a table say which rows come and go.
        editor(page).fill("SELECT sensor, amount FROM \"a/b\" WHERE sensor = 's6'")
        editor(page).press("Control+Shift+Enter")
        page.get_by_role("cell", name="+ comes").wait_for()
        send("s6", 4)
        page.get_by_role("cell", name="- goes").wait_for()
        wait_until(lambda: len(rows(page)) == 3)
        assert [(row[1], row[-1]) for row in rows(page)] == [
            ("+ comes", "4"),
            ("- goes", "1"),
            ("+ comes", "1"),
        ]


def test_the_place_of_a_fault_is_marked_and_selected(chromium: Browser, sent: tuple[str, Send]) -> None:
    with tab(chromium, may_fail=True) as page:
        page.goto(f"{sent[0]}#/sql")
        editor(page).fill("SELECT '😀',\n  nothing FROM latest")
        editor(page).press("Control+Enter")
        fault = page.get_by_role("alert")
        fault.wait_for()
        assert fault.locator("mark").inner_text() == "nothing"
        assert "2:3" in fault.inner_text()
        assert (
            editor(page).evaluate("each => each.value.slice(each.selectionStart, each.selectionEnd)")
            == "nothing"
        )
        assert editor(page).evaluate("each => each === document.activeElement")
        assert editor(page).get_attribute("aria-invalid") == "true"
        editor(page).press_sequentially("sensor")
        editor(page).press("Control+Enter")
        page.get_by_text("All rows: ").wait_for()
        assert fault.count() == 0
        assert editor(page).get_attribute("aria-invalid") == "false"


def test_a_query_ends_with_its_view(chromium: Browser, sent: tuple[str, Send]) -> None:
    """More are begun, one after the other, than may run at once."""
    with tab(chromium, may_fail=True) as page:
        for _ in range(QUERIES_AT_MOST + 1):
            page.goto(f"{sent[0]}#/sql?q=SELECT+STREAM+*+FROM+readings")
            page.get_by_role("button", name="Follow").click()
            page.get_by_text("No row has come yet.").wait_for()
            page.get_by_role("link", name="Overview").click()
            editor(page).wait_for(state="detached")


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", NARROW)])
def test_the_view_meets_wcag_2_2_aa(
    chromium: Browser, sent: tuple[str, Send], axe: str, scheme: str, size: tuple[int, int]
) -> None:
    with tab(chromium, size, scheme=scheme, may_fail=True) as page:
        page.goto(f"{sent[0]}#/sql")
        for query, shown in [
            ('SELECT *, CAST(NULL AS INTEGER) AS unknown FROM "a/b"', "All rows: "),
            ("SELECT nothing FROM latest", "nothing"),
        ]:
            editor(page).fill(query)
            editor(page).press("Control+Enter")
            page.locator("main").get_by_text(shown).first.wait_for()
            assert findings(page, axe) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
