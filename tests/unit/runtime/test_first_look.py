"""The first start of a pipeline says what ``connectors check --sample`` says, and a later start does not repeat it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rowtide.runtime.pace import Pace
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.pipeline import work_off

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM orders (price INTEGER, at TIMESTAMP) SERVER k OPTIONS (topic 'orders', format 'JSON');
CREATE FOREIGN TABLE prices (price INTEGER, at TIMESTAMP) SERVER d;
CREATE PUMP p AS INSERT INTO prices SELECT STREAM price, at FROM orders;
"""
MISNAMED = 'column "PRICE" is in none of {} messages: it is always NULL'
SECONDS = 'column "AT" has numbers that look like seconds since 1970'


@pytest.mark.parametrize("count", [1, 12, 250])
def test_the_first_start_says_what_does_not_fit_once(tmp_path: Path, count: int) -> None:
    file = tmp_path / "out.db"
    broker = memory_broker(str(file))
    broker.ensure_topic("orders", 1)

    def run() -> list[tuple[str, object]]:
        for _ in range(count):
            broker.produce("orders", [b'{"prise":3,"at":1795804533}'], timestamps=[1_000])
        with capture_logs() as logged:
            work_off(plan_pipeline(SQL.format(file=file)), "p", Pace(0, 1_000, None, None))
        return [
            (str(each["reason"]), each["hint"])
            for each in logged
            if each["event"] == "declaration_does_not_fit"
        ]

    found = run()
    looked_at = int(re.findall(r"none of (\d+) messages", found[0][0])[0])
    assert min(count, 10) <= looked_at <= 100
    assert found[0] == (MISNAMED.format(looked_at), 'Did you mean "prise"?')
    assert found[1][0].startswith(SECONDS)
    assert found[1][1] == "Declare it as: AT TIMESTAMP OPTIONS (time_unit 's')."
    assert len(found) == 2
    assert run() == []


def test_messages_that_fit_are_not_mentioned(tmp_path: Path) -> None:
    file = tmp_path / "out.db"
    broker = memory_broker(str(file))
    broker.ensure_topic("orders", 2)
    for partition in (0, 1):
        broker.produce("orders", [b'{"price":3,"at":1795804533000}'], timestamps=[1_000], partition=partition)
    with capture_logs() as logged:
        work_off(plan_pipeline(SQL.format(file=file)), "p", Pace(0, 10, None, None))
    assert [each for each in logged if each["log_level"] == "warning"] == []
