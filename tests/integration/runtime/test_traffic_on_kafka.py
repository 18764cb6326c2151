"""The traffic example on a real broker and a real PostgreSQL, stopped and started again half-way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from real.kafka import Broker
from real.postgres import PostgresServer
from support.traffic import EXAMPLE, Packet, Table, expected, message, packets

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]


def run(sql: Path, config: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rowtide", "run", str(sql), "--config", str(config), "--until-end"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def tables(database: str) -> tuple[Table, Table]:
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        hours = connection.execute(sa.text("SELECT local_ip, remote_ip, bytes FROM hourly_traffic"))
        days = connection.execute(sa.text("SELECT local_ip, bytes FROM daily_traffic"))
        found = sorted(map(tuple, hours)), sorted(map(tuple, days))
    engine.dispose()
    return found


def test_packets_become_hourly_and_daily_rows(
    kafka: Broker, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    topic, database = kafka.create_topic(2), postgres_server.create_database()
    # The pipeline's file finds the model beside it.
    sql, config = tmp_path / "traffic.sql", tmp_path / "config.toml"
    sql.write_text(EXAMPLE.read_text().replace("topic 'packets'", f"topic '{topic}'"))
    (tmp_path / "traffic.py").write_text(EXAMPLE.with_suffix(".py").read_text())
    config.write_text(
        '[service]\nlisten = "127.0.0.1:0"\n'
        f'[servers.broker]\nbootstrap_servers = "{kafka.bootstrap_servers}"\n'
        f'[servers.db]\nurl = "{database}"\n'
    )
    sent = packets(7)
    half = len(sent) // 2

    def produce(some: list[Packet], first: int) -> None:
        for partition in (0, 1):
            mine = [each for number, each in enumerate(some, start=first) if number % 2 == partition]
            kafka.produce(
                topic,
                [message(each) for each in mine],
                partition=partition,
                timestamps=[each[0] + 1_000 for each in mine],
            )

    produce(sent[:half], 0)
    run(sql, config)
    assert tables(database) == expected(sent[:half])
    produce(sent[half:], half)
    run(sql, config)
    assert tables(database) == expected(sent)
