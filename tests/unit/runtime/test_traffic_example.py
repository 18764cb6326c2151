"""The traffic example as a service: packets as JSON in a broker, hourly and daily rows in a database."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path

import pytest

from rowtide.runtime.crashpoints import CrashAt, CrashPoints, SimulatedCrash, raise_crash
from rowtide.runtime.pace import Pace
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from support.pipeline import PipelineFiles, work_off
from support.traffic import EXAMPLE, Table, expected, message, packets


class World:
    """Three days of packets in two partitions, a little out of order."""

    def __init__(self, file: Path) -> None:
        self.file = file
        broker = memory_broker(str(file))
        broker.ensure_topic("packets", 2)
        rng = random.Random(6)
        self.packets = packets(5)
        for number, packet in enumerate(self.packets):
            stamp = packet[0] + rng.randrange(9_000)
            broker.produce("packets", [message(packet)], timestamps=[stamp], partition=number % 2)
        text = EXAMPLE.read_text().replace("DATA WRAPPER KAFKA", "DATA WRAPPER MEMORY")
        text = text.replace("bootstrap_servers 'localhost:9092'", f"broker '{file}'")
        text = text.replace("'packets', format", "'packets', partitions '2', format")
        self.plan = plan_pipeline(
            text.replace("sqlite:///traffic.db", f"sqlite:///{file}"), file=str(EXAMPLE)
        )

    def run(self, pace: Pace, crash_points: CrashPoints | None = None) -> None:
        work_off(self.plan, "traffic", pace, crash_points)

    def tables(self) -> tuple[Table, Table, Table]:
        connection = sqlite3.connect(self.file)
        try:
            hours = connection.execute("select local_ip, remote_ip, bytes from hourly_traffic").fetchall()
            days = connection.execute("select local_ip, bytes from daily_traffic").fetchall()
            errors = connection.execute("select relation, reason from rowtide_errors").fetchall()
        finally:
            connection.close()
        return sorted(hours), sorted(days), errors


ONE_COMMIT = Pace(10**9, 10**9, None, None)


def test_packets_become_hourly_and_daily_rows(tmp_path: Path) -> None:
    world = World(tmp_path / "traffic.db")
    world.run(ONE_COMMIT)
    hours, days, errors = world.tables()
    assert (hours, days) == expected(world.packets)
    assert len(days) > 6
    assert errors == []


@pytest.mark.parametrize("point", ["commit.after_commit", "commit.before_begin"])
def test_a_death_on_the_way_changes_nothing(tmp_path: Path, point: str) -> None:
    world = World(tmp_path / "traffic.db")
    pace = Pace(0, 40, 80, None)
    for attempt in range(1, 5):
        try:
            world.run(pace, CrashAt(point, attempt, raise_crash))
        except SimulatedCrash:
            continue
    world.run(pace)
    assert world.tables()[:2] == expected(world.packets)


def test_the_table_inside_a_model_is_shown_from_the_snapshot(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("DATA WRAPPER KAFKA", "DATA WRAPPER MEMORY")
    text = text.replace("bootstrap_servers 'localhost:9092'", "broker '{file}'")
    text = text.replace("sqlite:///traffic.db", "sqlite:///{file}")
    config = '[service]\nlisten = "127.0.0.1:0"\n[checkpoint]\nsnapshot_rows = 20\n'
    files = PipelineFiles(tmp_path, text, config, name="traffic")
    (tmp_path / "traffic.py").write_text(EXAMPLE.with_suffix(".py").read_text())
    files.broker.ensure_topic("packets", 1)
    sent = packets(5)[:100]
    for each in sent:
        files.broker.produce("packets", [message(each)], timestamps=[each[0]])
    files.run()
    answer = json.loads(files.call("state show", "traffic.today", "--json", "--limit", "1000"))
    assert answer["columns"] == ["HOUR", "LOCAL_IP", "REMOTE_IP", "BYTES"]
    assert answer["total"] == len(answer["rows"]) > 1
    shown = {tuple(row[1:]) for row in answer["rows"]}
    # What the model holds of today has come out too.
    hourly = {(local, remote, count) for _, local, remote, count in files.rows("hourly_traffic")}
    assert shown <= hourly
    assert "is not an engine table" in files.call("state show", "traffic.tomorrow", code=2)
    assert "is not an engine table" in files.call("state show", "traffic.daily", code=2)
