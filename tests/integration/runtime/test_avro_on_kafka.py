"""Avro of a registry on a real broker: a stream, a table of upserts, and a registry that is down at first.

The registry is a fake over HTTP.
"""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest

from real.kafka import Broker
from rowtide.clock import SystemClock
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.pipeline import plan_pipeline
from support.registry import FakeRegistry, written

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "sku", "type": "string"}],
}
PRICE = {
    "type": "record",
    "name": "Price",
    "fields": [
        {"name": "sku", "type": "string"},
        {"name": "euros", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    ],
}
SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{kafka}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM orders (id BIGINT, sku VARCHAR(9))
  SERVER k OPTIONS (topic '{orders}', format 'AVRO', registry_url '{registry}');
CREATE TABLE prices (sku VARCHAR(9) PRIMARY KEY, euros DECIMAL(6, 2))
  SERVER k OPTIONS (topic '{prices}', format 'AVRO', registry_url '{registry}');
CREATE FOREIGN TABLE ordered (id BIGINT, sku VARCHAR(9)) SERVER d;
CREATE FOREIGN TABLE prices_now (sku VARCHAR(9) PRIMARY KEY, euros DECIMAL(6, 2)) SERVER d;
CREATE PUMP p AS INSERT INTO ordered SELECT STREAM id, sku FROM orders;
CREATE PUMP q AS INSERT INTO prices_now SELECT * FROM prices;
"""


def test_avro_is_read_once_its_registry_answers(kafka: Broker, tmp_path: Path) -> None:
    orders, prices = kafka.create_topic(1), kafka.create_topic(1)
    with FakeRegistry() as registry:
        order, price = (
            registry.register(f"{orders}-value", ORDER),
            registry.register(f"{prices}-value", PRICE),
        )
        key = registry.register(f"{prices}-key", "string")
        start = 1_767_225_600_000
        values: list[bytes | None] = [
            written(ORDER, {"id": at, "sku": f"s{at % 3}"}, order) for at in range(50)
        ]
        values.insert(7, b"not avro")
        bound = ("rowtide.bound", str(start + 100_000).encode())
        kafka.produce(orders, values, timestamps=[start + at for at in range(51)])
        changes = [("a", Decimal("1.50")), ("b", Decimal("2.00")), ("a", Decimal("1.75")), ("b", None)]
        for at, (sku, euros) in enumerate(changes):
            row = None if euros is None else written(PRICE, {"sku": sku, "euros": euros}, price)
            producer = kafka.producer()
            producer.produce(prices, row, key=written("string", sku, key), partition=0, timestamp=start + at)
            producer.flush(30)
        for topic in (orders, prices):
            producer = kafka.producer()
            producer.produce(topic, None, partition=0, timestamp=start + 1000, headers=[bound])
            producer.flush(30)
        file = tmp_path / "avro.db"
        text = SQL.format(
            kafka=kafka.bootstrap_servers, file=file, orders=orders, prices=prices, registry=registry.url
        )
        registry.failures_left = 3
        with open_pipeline(plan_pipeline(text), "avro") as pipeline:
            context = PipelineContext(
                name="avro",
                plan=pipeline.plan,
                sources=pipeline.sources,
                database=pipeline.database,
                ledger=pipeline.ledger,
                clock=SystemClock(),
                pace=Pace(0, 10, None, None),
                stopping=lambda: False,
            )
            Service(context).run(until_end=True)
    connection = sqlite3.connect(file)
    try:
        assert connection.execute("select id, sku from ordered order by id").fetchall() == [
            (at, f"s{at % 3}") for at in range(50)
        ]
        found = connection.execute("select sku, euros from prices_now").fetchall()
        assert [(sku, Decimal(str(euros))) for sku, euros in found] == [("a", Decimal("1.75"))]
        errors = connection.execute("select relation, reason from rowtide_errors").fetchall()
        assert [(relation, reason.split(":")[0]) for relation, reason in errors] == [("ORDERS", "DECODE")]
    finally:
        connection.close()
    assert registry.failures_left == 0
    # Three schemas are asked for once each, and again as often as it failed.
    assert len(registry.asked) == 6
