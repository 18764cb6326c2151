"""A PostgreSQL database that refuses for a while, or refuses the user: waited for, or the start ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from real.postgres import PostgresServer
from rowtide.app import context_of
from rowtide.config.settings import Settings
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.database import NUMBERS, refused_start
from support.waiting import wait_until

pytestmark = pytest.mark.postgres


@contextmanager
def locked(url: str, table: str) -> Iterator[None]:
    """Let nobody else use the table; the session that locks it has no time-out."""
    engine = sa.create_engine(url, connect_args={"options": "-c statement_timeout=0"})
    with engine.begin() as connection:
        connection.exec_driver_sql(f"lock table {table} in access exclusive mode")
        yield
    engine.dispose()


@pytest.mark.parametrize("setting", ["default_transaction_read_only = on", "statement_timeout = '1ms'"])
def test_a_service_goes_on_by_itself_when_a_setting_of_the_database_is_reset(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path, setting: str
) -> None:
    broker, name = memory_broker(str(tmp_path)), sa.make_url(postgres_url).database
    broker.ensure_topic("readings", 1)
    engine, stop, sent = sa.create_engine(postgres_url), threading.Event(), 0

    def send(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            broker.produce("readings", [b'{"number":%d}' % sent], timestamps=[sent])
            sent += 1

    def numbers() -> list[int]:
        with engine.begin() as connection:
            return list(connection.exec_driver_sql("select number from log order by 1").scalars())

    send(5)
    plan = plan_pipeline(NUMBERS.format(broker=tmp_path, url=postgres_url))
    with open_pipeline(plan, "p") as pipeline, capture_logs() as logged:
        made = replace(
            context_of(pipeline, Settings()), wait=True, stopping=stop.is_set, pace=Pace(0, 10, None, None)
        )
        thread = threading.Thread(target=Service(made).run)
        thread.start()
        try:
            wait_until(lambda: any(each["event"] == "running" for each in logged))
            wait_until(lambda: numbers() == list(range(5)))
            postgres_server.execute(f'alter database "{name}" set {setting}')
            postgres_server.drop_connections(postgres_url)
            # A statement that waits for a lock meets the time-out on a machine of any speed.
            with locked(postgres_url, "log") if "timeout" in setting else nullcontext():
                send(5)
                wait_until(lambda: any(each["event"] == "dependency_down" for each in logged))
            postgres_server.execute(f'alter database "{name}" reset {setting.split(maxsplit=1)[0]}')
            engine.dispose()
            wait_until(lambda: numbers() == list(range(sent)))
        finally:
            stop.set()
            thread.join(30)
    assert not thread.is_alive()
    engine.dispose()


@pytest.mark.parametrize("wrong", ["username", "database"])
def test_a_start_with_the_wrong_user_or_database_ends_with_a_hint(
    postgres_url: str, tmp_path: Path, wrong: str
) -> None:
    changed: dict[str, Any] = {wrong: "nosuch"}
    said = refused_start(
        sa.make_url(postgres_url).set(**changed).render_as_string(hide_password=False), tmp_path
    )
    assert '"nosuch" does not exist' in said
    assert "hint: C" in said
