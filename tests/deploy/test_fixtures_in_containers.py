"""The fixtures of tests/real with containers: the broker serves transactions, the server has databases."""

from __future__ import annotations

import psycopg
import pytest
import sqlalchemy as sa

from deploy.kit import needs
from real.kafka import docker_broker
from real.parts import CONTAINERS
from real.postgres import running_server

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def in_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    needs("engine")
    monkeypatch.setenv(CONTAINERS, "1")


def test_the_broker_commits_and_aborts_transactions() -> None:
    with docker_broker() as broker:
        topic = broker.create_topic()
        for value, abort in ((b"kept", False), (b"dropped", True), (b"last", False)):
            with broker.transaction(topic, abort=abort) as producer:
                producer.produce(topic, value)
        assert [each.value() for each in broker.committed(topic)[0]] == [b"kept", b"last"]


def test_the_server_has_a_database_for_each_test() -> None:
    with running_server() as server:
        urls = [sa.make_url(server.create_database()) for _ in range(2)]
        assert urls[0].database != urls[1].database
        for url in urls:
            address = url.set(drivername="postgresql").render_as_string(hide_password=False)
            with psycopg.connect(address) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
