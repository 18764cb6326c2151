"""Time without commits after the SIGKILL of the process that commits: a follower takes over, or a new process starts.

    python benchmarks/with_servers.py python benchmarks/take_over.py --messages 500000 --kills 3

Messages arrive all the time. The log before them is read again by a new process, because there are no snapshots.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import sqlalchemy as sa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.service import Reading, Service, config_for, service

PARTITIONS = 4
A_SECOND = 1_000
COMMIT_MS, TAKEOVER_MS = 1_000, 2_000


class Feed:
    """Produces readings: a history at once, then some each second."""

    def __init__(self, broker: str, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": broker})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1"})])[topic].result()
        self._producer = Producer(
            {"bootstrap.servers": broker, "linger.ms": 20, "queue.buffering.max.messages": 10**6}
        )
        self._topic = topic
        self._rng = random.Random(1)
        self._number = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def produce(self, messages: int) -> None:
        """Append messages, a millisecond apart."""
        for _ in range(messages):
            self._number += 1
            stamp = 1_700_000_000_000 + self._number
            reading = Reading(stamp, self._number, f"s{self._rng.randrange(5_000)}", self._number % 10**6)
            self._producer.produce(
                self._topic, reading.value(), partition=self._number % PARTITIONS, timestamp=stamp
            )
            if self._number % 10_000 == 0:
                self._producer.flush()
        self._producer.flush()

    def start(self) -> None:
        """Produce from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Produce no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            self.produce(A_SECOND // 10)


class Record:
    """What the checkpoint says."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"))

    def read(self, query: str) -> int:
        """Return a number; 0 before there is one."""
        with self._engine.connect() as connection:
            try:
                return int(connection.execute(sa.text(query)).scalar() or 0)
            except sa.exc.ProgrammingError:
                return 0

    def commits(self) -> int:
        """Return the number of commits."""
        return self.read("select commits from rowtide.pipelines")

    def drop(self) -> None:
        """Remove everything of the pipeline."""
        with self._engine.begin() as connection:
            connection.execute(sa.text("drop schema if exists rowtide cascade"))
            connection.execute(sa.text("drop table if exists minutes, latest, readings_log"))


def gap_s(made: Service, record: Record, *, warm: bool) -> float:
    """Kill the process that leads; return the seconds until the next commit."""
    number = record.read("select split_part(holder, ' process ', 2) from rowtide.pipelines")
    leader = next(each for each in made.processes if each.pid == number)
    leader.kill()
    leader.wait()
    began, before = time.monotonic(), record.commits()
    if not warm:
        made.start()
    while record.commits() == before:
        time.sleep(0.01)
    gap = time.monotonic() - began
    if warm:
        made.start("--standby")
        wait_until_ready(made)
    return gap


def wait_until_ready(made: Service) -> None:
    """Wait until the last process that was started is ready: a follower has processed the history."""
    made.wait_for_log("listening", times=len(made.processes))
    url = [json.loads(line)["url"] for line in made.log.read_text().splitlines() if '"listening"' in line][-1]
    while True:
        with suppress(urllib.error.URLError), urllib.request.urlopen(f"{url}/readyz") as answer:
            if answer.status == HTTPStatus.OK:
                return
        time.sleep(0.2)


def measured(messages: int, kills: int, *, warm: bool) -> list[float]:
    """Return the gaps of some kills."""
    broker, url = os.environ["ROWTIDE_BENCH_BROKER"], os.environ["ROWTIDE_BENCH_DATABASE"]
    record = Record(url)
    record.drop()
    topic = f"take-over-{warm}"
    feed = Feed(broker, topic)
    feed.produce(messages)
    config = config_for(
        broker,
        topic,
        url,
        commit={"interval_ms": COMMIT_MS},
        checkpoint={"snapshot_rows": 0, "snapshot_interval_s": 0},
        standby={"takeover_ms": TAKEOVER_MS},
    )
    arguments = ("--standby",) if warm else ()
    with tempfile.TemporaryDirectory() as folder, service(Path(folder), config) as made:
        made.start(*arguments)
        if warm:
            made.wait_for_log("running")
            made.start(*arguments)
        while record.read("select sum(next_offset) from rowtide.positions") < messages:
            time.sleep(0.2)
        if warm:
            wait_until_ready(made)
        feed.start()
        time.sleep(5)
        gaps = []
        for _ in range(kills):
            gaps.append(gap_s(made, record, warm=warm))
            time.sleep(5)
        feed.stop()
        return gaps


def main() -> None:
    """Measure both, and write the gaps."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--messages", type=int, default=500_000)
    arguments.add_argument("--kills", type=int, default=3)
    given = arguments.parse_args()
    for name, warm in (("follower", True), ("new process", False)):
        gaps = measured(given.messages, given.kills, warm=warm)
        shown = ", ".join(f"{each:.1f}" for each in gaps)
        sys.stdout.write(f"{name}: median {statistics.median(gaps):.1f} s of {shown}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
