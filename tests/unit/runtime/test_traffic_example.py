"""The traffic example as a service: packets as JSON in a broker, hourly and daily rows in a database."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from rowtide.runtime.crashpoints import CrashAt, CrashPoints, NoCrash, SimulatedCrash, raise_crash
from rowtide.runtime.live import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.service import Equipment, Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.memory import memory_broker
from runtime_kit import VirtualClock

EXAMPLE = Path(__file__).parents[3] / "examples" / "traffic" / "traffic.sql"
HOUR_MS = 3_600_000
DAY = 19_800
LEAST_BYTES = 100
Table = list[tuple[object, ...]]


class World:
    """Three days of packets in two partitions, a little out of order, and what they must come to."""

    def __init__(self, file: Path) -> None:
        self.file = file
        broker = memory_broker(str(file))
        broker.ensure_topic("packets", 2)
        rng = random.Random(5)
        at, packets = DAY * 24 * HOUR_MS, []
        while at < (DAY + 3) * 24 * HOUR_MS:
            at += rng.randrange(1, HOUR_MS // 3)
            packets.append((at, f"10.0.0.{rng.randrange(4)}", f"8.8.8.{rng.randrange(2)}", rng.randrange(90)))
        self.packets = packets
        for number, (stamp, local, remote, count) in enumerate(packets):
            sent = {"at": stamp, "local_ip": local, "remote_ip": remote, "bytes": count}
            late_by = rng.randrange(9_000)
            broker.produce(
                "packets", [json.dumps(sent).encode()], timestamps=[stamp + late_by], partition=number % 2
            )
        text = EXAMPLE.read_text().replace("DATA WRAPPER KAFKA", "DATA WRAPPER MEMORY")
        text = text.replace("bootstrap_servers 'localhost:9092'", f"broker '{file}'")
        text = text.replace("'packets', format", "'packets', partitions '2', format")
        self.plan = plan_pipeline(
            text.replace("sqlite:///traffic.db", f"sqlite:///{file}"), file=str(EXAMPLE)
        )

    def run(self, pace: Pace, crash_points: CrashPoints | None = None) -> None:
        with open_pipeline(self.plan, "traffic") as pipeline:
            Service(
                Equipment(
                    name=pipeline.name,
                    plan=pipeline.plan,
                    sources=pipeline.sources,
                    database=pipeline.database,
                    ledger=pipeline.ledger,
                    clock=VirtualClock(),
                    pace=pace,
                    stopping=lambda: False,
                    rng=random.Random(1),
                    threads=False,
                    poll_messages=17,
                    crash_points=crash_points or NoCrash(),
                )
            ).run(until_end=True)

    def tables(self) -> tuple[Table, Table, Table]:
        connection = sqlite3.connect(self.file)
        try:
            hours = connection.execute("select local_ip, remote_ip, bytes from hourly_traffic").fetchall()
            days = connection.execute("select local_ip, bytes from daily_traffic").fetchall()
            errors = connection.execute("select relation, reason from rowtide_errors").fetchall()
        finally:
            connection.close()
        return sorted(hours), sorted(days), errors

    def expected(self) -> tuple[Table, Table]:
        # What is within ten seconds of the end waits in the t-sort of its partition.
        ends = [max(at for at, *_ in self.packets[part::2]) - 10_000 for part in (0, 1)]
        hours: Counter[tuple[int, str, str]] = Counter()
        days: Counter[tuple[int, str]] = Counter()
        for at, local, remote, count in self.packets:
            if at <= min(ends):
                hours[at // HOUR_MS, local, remote] += count
                if at // HOUR_MS // 24 < DAY + 3 and (at // HOUR_MS // 24 + 1) * 24 * HOUR_MS <= min(ends):
                    days[at // HOUR_MS // 24, local] += count
        hourly: Table = [(local, remote, total) for (_, local, remote), total in hours.items()]
        daily: Table = [(local, total) for (_, local), total in days.items() if total >= LEAST_BYTES]
        return sorted(hourly), sorted(daily)  # type: ignore[type-var]


ONE_COMMIT = Pace(10**9, 10**9, None, None)


def test_packets_become_hourly_and_daily_rows(tmp_path: Path) -> None:
    world = World(tmp_path / "traffic.db")
    world.run(ONE_COMMIT)
    hours, days, errors = world.tables()
    assert (hours, days) == world.expected()
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
    assert world.tables()[:2] == world.expected()
