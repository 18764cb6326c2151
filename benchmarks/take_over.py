"""Time without commits after the process that commits was killed, or suspended within a commit.

    python benchmarks/with_servers.py python benchmarks/take_over.py --messages 500000 --times 3

A follower takes over, or a new process starts at once. To the server, a process that is suspended is one whose
network is gone: it says nothing, and its connection stays open. Messages arrive all the time. The log before them is
read again by a new process, because there are no snapshots.
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
SUSPENDED_AT = "commit.after_tables:6"
"""The sixth commit of each process, of which the history takes some."""


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


def gap_s(made: Service, record: Record, *, warm: bool, suspended: bool) -> float:
    """Kill the process that leads, or wait until it is suspended; return the seconds until the next commit."""
    number = record.read("select split_part(holder, ' process ', 2) from rowtide.pipelines")
    leader = next(each for each in made.processes if each.pid == number)
    if suspended:
        while Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)
    else:
        leader.kill()
        leader.wait()
    began, before = time.monotonic(), record.commits()
    if not warm:
        start(made, suspended=suspended)
    while record.commits() == before:
        time.sleep(0.01)
    gap = time.monotonic() - began
    if suspended:
        leader.kill()
        leader.wait()
    if warm:
        start(made, "--standby", suspended=suspended)
        wait_until_ready(made)
    return gap


def start(made: Service, *arguments: str, suspended: bool) -> None:
    """Start a process, which suspends itself if it leads for long enough."""
    if suspended:
        made.start_to_suspend(SUSPENDED_AT, *arguments)
    else:
        made.start(*arguments)


def wait_until_ready(made: Service) -> None:
    """Wait until the last process that was started is ready: a follower has processed the history."""
    made.wait_for_log("listening", times=len(made.processes))
    url = [json.loads(line)["url"] for line in made.log.read_text().splitlines() if '"listening"' in line][-1]
    while True:
        with suppress(urllib.error.URLError), urllib.request.urlopen(f"{url}/readyz") as answer:
            if answer.status == HTTPStatus.OK:
                return
        time.sleep(0.2)


def measured(messages: int, times: int, *, warm: bool, suspended: bool) -> list[float]:
    """Return some gaps."""
    broker, url = os.environ["ROWTIDE_BENCH_BROKER"], os.environ["ROWTIDE_BENCH_DATABASE"]
    record = Record(url)
    record.drop()
    topic = f"take-over-{warm}-{suspended}"
    feed = Feed(broker, topic)
    feed.produce(messages)
    config = config_for(
        broker,
        topic,
        url,
        commit={"interval_ms": COMMIT_MS, "max_rows": max(messages // 3, 1)},
        checkpoint={"snapshot_rows": 0, "snapshot_interval_s": 0},
        standby={"takeover_ms": TAKEOVER_MS},
    )
    arguments = ("--standby",) if warm else ()
    with tempfile.TemporaryDirectory() as folder, service(Path(folder), config) as made:
        start(made, *arguments, suspended=suspended)
        made.wait_for_log("running")
        if warm:
            start(made, *arguments, suspended=suspended)
            made.wait_for_log("following")
        feed.start()
        time.sleep(5)
        gaps = []
        for _ in range(times):
            gaps.append(gap_s(made, record, warm=warm, suspended=suspended))
            time.sleep(5)
        feed.stop()
        return gaps


def main() -> None:
    """Measure both, and write the gaps."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--messages", type=int, default=500_000)
    arguments.add_argument("--times", type=int, default=3)
    given = arguments.parse_args()
    for warm in (True, False):
        for suspended in (False, True):
            gaps = measured(given.messages, given.times, warm=warm, suspended=suspended)
            name = "follower" if warm else "new process"
            how = "suspended within a commit" if suspended else "killed"
            shown = ", ".join(f"{each:.1f}" for each in gaps)
            sys.stdout.write(f"{name}, {how}: median {statistics.median(gaps):.1f} s of {shown}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
