"""Time without commits after the process that commits was killed, or suspended between two commits or within one.

    python benchmarks/with_servers.py python benchmarks/take_over.py --messages 200000 --times 3
    python benchmarks/with_servers.py --mariadb python benchmarks/take_over.py --messages 200000 --times 3

A follower takes over, or a new process starts at once. To the server, a process that is suspended is one whose
network is gone: it says nothing, and its connection stays open. Messages arrive all the time. The log before them is
read again by a new process, because there are no snapshots.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from http import HTTPStatus
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import sqlalchemy as sa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from rowtide.checkpoint.leadership import DatabaseLeadership
from rowtide_connectors.registry import find_sink
from support.service import TABLES, Reading, Service, config_for, service

PARTITIONS = 4
A_SECOND = 1_000
COMMIT_MS, TAKEOVER_MS = 1_000, 2_000
SETTLED_S = 5
"""The process that commits has done so for this time, before it is struck."""
PIPELINE = "readings"
CAUGHT_S = 0.1
"""A process that is suspended within a commit still holds the record after this time."""


class Fate(Enum):
    """What happens to the process that commits."""

    KILLED = "killed (SIGKILL)"
    BETWEEN = "suspended between two commits (SIGSTOP)"
    WITHIN = "suspended within a commit (SIGSTOP)"


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
        address = sa.make_url(url)
        on_postgres = address.get_backend_name() == "postgresql"
        driver, self._prefix = (
            ("postgresql+psycopg", "rowtide.") if on_postgres else ("mysql+pymysql", "rowtide_")
        )
        self._engine = sa.create_engine(address.set(drivername=driver), isolation_level="AUTOCOMMIT")
        self._database = find_sink("rdbms").open({"url": url})
        self._leadership = DatabaseLeadership(self._database, PIPELINE)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()
        self._engine.dispose()

    def read(self) -> tuple[int, int]:
        """Return the number of commits, and of the process that commits; zeros before there is one."""
        with self._engine.connect() as connection:
            try:
                row = connection.execute(
                    sa.text(f"select commits, holder from {self._prefix}pipelines")
                ).first()
            except sa.exc.ProgrammingError:
                row = None
        return (0, 0) if row is None else (row.commits, int(row.holder.rpartition(" ")[2]))

    def commits(self) -> int:
        """Return the number of commits."""
        return self.read()[0]

    def is_held(self) -> bool:
        """Return whether a commit is under way."""
        return self._leadership.writer() is not None

    def drop(self) -> None:
        """Remove everything of the pipeline."""
        found = sa.inspect(self._engine)
        own = [f"rowtide.{name}" for name in found.get_table_names("rowtide")] if "." in self._prefix else []
        own += [name for name in found.get_table_names() if name in TABLES or name.startswith("rowtide_")]
        with self._engine.connect() as connection:
            for name in own:
                connection.execute(sa.text(f"drop table {name}"))


def strike(leader: subprocess.Popen[bytes], record: Record, fate: Fate) -> float:
    """Let a process meet its fate, and return the time of it."""
    if fate is Fate.KILLED:
        leader.kill()
        return time.monotonic()
    is_within = fate is Fate.WITHIN
    while True:
        while record.is_held() != is_within:
            time.sleep(0.001)
        leader.send_signal(signal.SIGSTOP)
        struck = time.monotonic()
        time.sleep(CAUGHT_S)
        if record.is_held() == is_within:
            return struck
        leader.send_signal(signal.SIGCONT)
        time.sleep(CAUGHT_S)


def gap_s(made: Service, record: Record, fate: Fate, *, warm: bool) -> float:
    """Strike the process that leads, and return the seconds until the next commit."""
    _, number = record.read()
    leader = next(each for each in made.processes if each.pid == number)
    began, before = strike(leader, record, fate), record.commits()
    if not warm:
        made.start()
    while record.commits() == before:
        time.sleep(0.01)
    gap = time.monotonic() - began
    # A suspended one, too, ends only now.
    leader.kill()
    leader.wait()
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


@contextmanager
def running(messages: int, *, warm: bool) -> Iterator[tuple[Service, Record]]:
    """Start a process, and a follower that has processed the history; messages arrive."""
    broker, url = os.environ["ROWTIDE_BENCH_BROKER"], os.environ["ROWTIDE_BENCH_DATABASE"]
    record = Record(url)
    record.drop()
    topic = f"take-over-{time.time_ns()}"
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
        made.start(*arguments)
        made.wait_for_log("running")
        if warm:
            made.start(*arguments)
            made.wait_for_log("following")
            wait_until_ready(made)
        feed.start()
        try:
            yield made, record
        finally:
            feed.stop()
            record.close()


def main() -> None:
    """Measure each fate, and write the gaps."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--messages", type=int, default=200_000)
    arguments.add_argument("--times", type=int, default=3)
    given = arguments.parse_args()
    for warm in (True, False):
        with running(given.messages, warm=warm) as (made, record):
            for fate in Fate:
                gaps = []
                for _ in range(given.times):
                    time.sleep(SETTLED_S)
                    gaps.append(gap_s(made, record, fate, warm=warm))
                name = "a follower" if warm else "a new process"
                shown = ", ".join(f"{each:.1f}" for each in gaps)
                load = os.getloadavg()[0]
                sys.stdout.write(
                    f"{name}, {fate.value}: {shown}; median {statistics.median(gaps):.1f} s, load {load:.0f}\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
