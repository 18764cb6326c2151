"""The page before `rowtide run` on real Kafka and PostgreSQL: the orders pipeline of the compose file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from house.machine import ROOT
from rowtide.testing.processes import free_port
from support.service import service
from support.tab import NARROW, picture, tab
from support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from real.kafka import Broker
    from real.postgres import PostgresServer

pytestmark = [pytest.mark.browser, pytest.mark.kafka, pytest.mark.postgres]

PIPELINE = (ROOT / "docker/orders/pipeline.sql").read_text()
CONFIG = """
[pipeline]
name = "orders"
[servers.broker]
bootstrap_servers = "{broker}"
[servers.warehouse]
url = "{database}"
[streams.orders]
topic = "{topic}"
[service]
listen = "127.0.0.1:{port}"
"""
FIRST_MS = 1_767_258_000_000
"""2026-01-01 09:00."""
EACH_MS, WITHIN_MS, MINUTE_MS = 120, 30_000, 60_000
PARTITIONS = 4
PRODUCTS = ("anchor", "buoy", "rope")
PICTURE = (1320, 620)
"""The size that has the whole graph and table, and no more."""
BAD = (b"{", b'{"order_id": "x"}')


@dataclass
class Orders:
    """Orders in their order of time, one after the other to each partition."""

    kafka: Broker
    topic: str
    numbers: list[int] = field(default_factory=list)
    """The numbers of those that were sent."""
    number: int = 0

    def send(self, count: int, *, silent: int | None = None) -> None:
        """Send the next orders; those of the partition that is ``silent`` are lost."""
        numbers = range(self.number, self.number + count)
        self.number += count
        for partition in range(PARTITIONS):
            own = [each for each in numbers if each % PARTITIONS == partition != silent]
            self.kafka.produce(self.topic, [order(each) for each in own], partition=partition)
            self.numbers += own

    def minutes(self) -> int:
        """Return the minutes that have ended on every partition, if all have been sent their last order."""
        return ((self.number - PARTITIONS) * EACH_MS - WITHIN_MS) // MINUTE_MS

    def rows(self) -> int:
        """Return the rows of these minutes."""
        return self.minutes() * len(PRODUCTS)

    def counted(self) -> int:
        """Return the orders of these minutes."""
        return sum(each * EACH_MS < self.minutes() * MINUTE_MS for each in self.numbers)


def order(number: int) -> bytes:
    fields = {
        "order_id": number,
        "product": PRODUCTS[number % 3],
        "quantity": 1 + number % 5,
        "price": "7.25",
        "ordered_at": FIRST_MS + number * EACH_MS,
    }
    return json.dumps(fields).encode()


def node(page: Page, relation: str) -> Locator:
    return page.locator("a.node").filter(has=page.locator(f'strong:text-is("{relation}")'))


def fact(page: Page, term: str) -> str:
    """Return what the line at the top, or a relation, says under a term."""
    said = page.locator("dl div").filter(has=page.locator(f'dt:text-is("{term}")')).locator("dd")
    return said.inner_text() if said.count() == 1 else ""


def listed(page: Page, tab: str) -> list[list[str]]:
    """Return the rows of a tab that says how far the pipeline got."""
    tabs = page.get_by_role("navigation", name="Parts of this view")
    tabs.get_by_role("link", name=tab).click()
    table = page.get_by_role("region", name=f"Table of {tab}")
    table.wait_for()
    rows: list[list[str]] = table.evaluate(
        "each => [...each.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.innerText))"
    )
    return rows


def read(page: Page) -> int:
    """Return how many messages of all partitions are committed."""
    return sum(int(next_offset.replace(",", "")) for _, _, next_offset, *_ in listed(page, "partitions"))


def test_the_page_shows_what_happens_also_after_the_service_was_killed(
    chromium: Browser,
    kafka: Broker,
    postgres_server: PostgresServer,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    topic = kafka.create_topic(PARTITIONS, "orders" if request.config.getoption("--pictures") else None)
    orders, database, port = Orders(kafka, topic), postgres_server.create_database(), free_port()
    config = CONFIG.format(broker=kafka.bootstrap_servers, database=database, topic=topic, port=port)
    with service(tmp_path, config, PIPELINE) as made, tab(chromium, may_fail=True) as page:
        made.start()
        made.wait_for_log("running")
        page.goto(f"http://127.0.0.1:{port}/")
        assert page.url == f"http://127.0.0.1:{port}/ui/"
        page.get_by_role("heading", name="No data yet").wait_for()
        orders.send(3_500)
        kafka.produce(topic, BAD, partition=1)
        written = orders.rows()
        node(page, "ORDERS_PER_MINUTE").get_by_text(f"written {written}").wait_for()
        node(page, "ORDERS").get_by_text(f"rejected {len(BAD)}").wait_for()
        page.get_by_role("heading", name="No data yet").wait_for(state="detached")

        # One partition becomes silent while the others go on.
        why = page.get_by_role("region", name="Rows wait").get_by_role("listitem")

        def is_explained() -> bool:
            orders.send(40, silent=0)
            named = [f'Partition 0 of topic "{topic}"' in each for each in why.all_inner_texts()]
            return named == [True] and fact(page, "errors pending") == str(len(BAD))

        wait_until(is_explained, lambda: page.locator("main").inner_text(), every_s=0.2)
        picture(page, "page", request.config, PICTURE)
        page.emulate_media(color_scheme="dark")
        picture(page, "page-dark", request.config, PICTURE)
        picture(page, "page-narrow", request.config, NARROW)
        assert "declare idle_timeout on ORDERS" in why.first.inner_text()
        page.locator("path.edge.held").first.wait_for(state="attached")
        assert node(page, "ORDERS_PER_MINUTE").get_by_text(f"written {written}").is_visible()
        assert "held" in node(page, "FILL_ORDERS_PER_MINUTE").inner_text()

        # The count of error rows leads to them.
        page.get_by_role("banner").get_by_role("link", name=str(len(BAD)), exact=True).click()
        rows = page.get_by_role("link", name="Error row")
        rows.nth(len(BAD) - 1).wait_for()
        rows.first.click()
        message = page.get_by_role("region", name="Message as text")
        message.wait_for()
        assert message.inner_text().strip().encode() in BAD

        # How far it got.
        page.get_by_role("link", name="Positions").click()
        wait_until(lambda: read(page) == len(orders.numbers) + len(BAD))
        assert [row[6] for row in listed(page, "partitions")] == ["its rows"] * PARTITIONS
        assert any("ORDERS_PER_MINUTE" in row[4] for row in listed(page, "commits"))
        page.get_by_text("1 earlier commit is not shown").wait_for()
        page.emulate_media(color_scheme="light")
        picture(page, "page-commits", request.config, PICTURE)
        page.get_by_role("link", name="decisions").click()
        page.get_by_text("No decision is logged yet.").wait_for()
        page.get_by_role("banner").get_by_role("link", name="orders").click()

        # It dies, orders come, and it starts again: nobody touches the tab.
        node(page, "ORDERS").click()
        page.get_by_text("CREATE FOREIGN STREAM orders").wait_for()
        made.stop_all()
        page.get_by_role("heading", name="The connection is lost").wait_for()
        orders.send(1_500)
        made.start()
        page.get_by_role("heading", name="The connection is lost").wait_for(state="detached")
        wait_until(lambda: fact(page, "rows in").startswith(f"{len(orders.numbers) + len(BAD):,} "))
        page.go_back()
        node(page, "ORDERS_PER_MINUTE").get_by_text(f"written {orders.rows()}").wait_for()
        page.get_by_role("link", name="Positions").click()
        assert listed(page, "commits")
        page.get_by_text("earlier commits are not shown").wait_for()

        # An order comes too late. It is resubmitted, and counts in the minute that is open.
        kafka.produce(topic, [order(0)], partition=1)
        page.goto(f"http://127.0.0.1:{port}/ui/#/errors?kind=LATE")
        rows.click()
        page.get_by_role("button", name="Resubmit…").click()
        outcome = page.get_by_role("group", name="Resubmission")
        outcome.get_by_text("1 row would be resubmitted: 1 of ORDERS_IN_TIME.").wait_for()
        assert "in the window of FILL_ORDERS_PER_MINUTE that ends at" in outcome.inner_text()
        outcome.get_by_role("button", name="Resubmit 1 row").click()
        outcome.get_by_text("1 row resubmitted").wait_for()
        page.get_by_text("as 1, ").wait_for()
        wait_until(lambda: fact(page, "errors pending") == str(len(BAD)))
        made.wait_for_log("errors_resubmitted")
        orders.send(1_000)
        page.get_by_role("banner").get_by_role("link", name="orders").click()
        node(page, "ORDERS_PER_MINUTE").get_by_text(f"written {orders.rows()}").wait_for()
        page.get_by_role("link", name="Positions").click()
        assert {row[4] for row in listed(page, "decisions")} == {"resubmission 1 joined"}
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.connect() as connection:
        found = connection.execute(sa.text("select count(*), sum(orders) from orders_per_minute")).one()
        assert tuple(found) == (orders.rows(), orders.counted() + 1)
