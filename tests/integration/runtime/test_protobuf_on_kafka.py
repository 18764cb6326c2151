"""Protobuf on a real broker: a stream of a registry, a table of descriptors, and a topic that is written.

The registry is a fake over HTTP.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from real.kafka import Broker
from support.protobuf import FILE, headed, read, register, written
from support.registry import FakeRegistry
from support.service import service

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{kafka}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM orders (id BIGINT, city VARCHAR(9) OPTIONS (path '$.user.address.city'), items JSON)
  SERVER k OPTIONS (topic '{orders}', format 'PROTOBUF', message 'shop.Order', registry_url '{registry}');
CREATE TABLE lots (sku VARCHAR(9) PRIMARY KEY, qty INTEGER)
  SERVER k OPTIONS (topic '{lots}', format 'PROTOBUF', descriptor '{descriptors}', message 'shop.Order.Item');
CREATE FOREIGN STREAM seen (id BIGINT NOT NULL, city VARCHAR(9))
  SERVER k OPTIONS (topic '{seen}', format 'PROTOBUF', message 'shop.Seen', registry_url '{registry}');
CREATE FOREIGN TABLE ordered (id BIGINT, city VARCHAR(9), first_sku VARCHAR(9)) SERVER d;
CREATE FOREIGN TABLE lots_now (sku VARCHAR(9) PRIMARY KEY, qty INTEGER) SERVER d;
CREATE PUMP p AS INSERT INTO ordered SELECT STREAM id, city, JSON_VALUE(items, '$[0].sku') FROM orders;
CREATE PUMP q AS INSERT INTO seen SELECT STREAM id, city FROM orders WHERE id < 3;
CREATE PUMP r AS INSERT INTO lots_now SELECT * FROM lots;
"""
CONFIG = """
[service]
listen = "127.0.0.1:0"
"""
START = 1_767_225_600_000


def test_protobuf_is_read_and_written(kafka: Broker, tmp_path: Path) -> None:
    orders, lots, seen = (kafka.create_topic(1) for _ in range(3))
    file = tmp_path / "protobuf.db"
    with FakeRegistry() as registry:
        number = register(registry, f"{orders}-value")
        values: list[bytes | None] = [
            headed(
                number,
                written("shop.Order", id=at, user={"address": {"city": "Rome"}}, items=[{"sku": f"s{at}"}]),
            )
            for at in range(30)
        ]
        values.insert(7, headed(number, b"\x1a\x04\x12\x02\x0a\x09"))
        kafka.produce(orders, values, timestamps=[START + at for at in range(31)])
        changes = [("a", 1), ("b", 2), ("a", 3), ("b", None)]
        bound = ("rowtide.bound", str(START + 100_000).encode())
        producer = kafka.producer()
        for at, (sku, qty) in enumerate(changes):
            row = None if qty is None else written("shop.Order.Item", sku=sku, qty=qty)
            producer.produce(lots, row, key=f'"{sku}"', partition=0, timestamp=START + at)
        for topic in (orders, lots):
            producer.produce(topic, None, partition=0, timestamp=START + 1000, headers=[bound])
        producer.flush(30)
        text = SQL.format(
            kafka=kafka.bootstrap_servers,
            file=file,
            orders=orders,
            lots=lots,
            seen=seen,
            registry=registry.url,
            descriptors=FILE,
        )
        registry.failures_left = 2
        with service(tmp_path, CONFIG, sql=text) as made:
            made.finish()
        sent = [read(registry, each.value() or b"") for each in kafka.committed(seen)[0]]
    assert sent == [{"id": str(at), "city": "Rome"} if at else {"city": "Rome"} for at in range(3)]
    connection = sqlite3.connect(file)
    try:
        assert connection.execute("select id, city, first_sku from ordered order by id").fetchall() == [
            (at, "Rome", f"s{at}") for at in range(30)
        ]
        assert connection.execute("select sku, qty from lots_now").fetchall() == [("a", 3)]
        ((relation, reason),) = connection.execute("select relation, reason from rowtide_errors").fetchall()
        assert relation == "ORDERS"
        assert "$.user.address.city at byte 5: 9 bytes are announced, and 0 are left" in reason
    finally:
        connection.close()
    assert registry.failures_left == 0
