"""A pipeline on real parts under faults: what happens to it, and what must hold whenever its tables are read."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from chaos.brokers import Cluster
from chaos.postgres import Replicated
from chaos.wire import Wire
from support.service import (
    Reading,
    Sample,
    Service,
    assert_equal,
    config_for,
    positions_in,
    recomputed,
    sample,
)

PARTITIONS = 4
BATCH = 250
"""Readings that are sent at a time: some commits of the pipeline."""
PROGRESS_S = 120
"""A commit that takes longer is an outage that does not end. A loaded machine needs the half of it for a start."""

SETTINGS = {
    "commit": {"interval_ms": 20, "max_rows": 200},
    "checkpoint": {"snapshot_rows": 2_000, "snapshot_interval_s": 0},
}


class Violation(AssertionError):
    """What must hold does not."""


class Readings:
    """Logs that grow: 5 % out of order, some beyond WITHIN; crowds on one millisecond; a few that are not JSON."""

    def __init__(self, rng: random.Random) -> None:
        self.logs: list[list[Reading]] = [[] for _ in range(PARTITIONS)]
        self._rng = rng
        self._clock = 1_700_000_000_000
        self._numbers = itertools.count()

    def more(self, count: int) -> list[list[Reading]]:
        """Add readings to the logs; return them by partition."""
        rng = self._rng
        fresh: list[list[Reading]] = [[] for _ in range(PARTITIONS)]
        is_crowd = rng.random() < 0.1
        for number in itertools.islice(self._numbers, count):
            self._clock += 0 if is_crowd else rng.choice((0, 1, 20, 500))
            timestamp = self._clock
            if rng.random() < 0.05:
                timestamp -= rng.randrange(1, 2_600)
            is_bad = rng.random() < 0.005
            reading = Reading(
                timestamp, None if is_bad else number, f"s{rng.randrange(100)}", rng.randrange(10**6)
            )
            fresh[rng.randrange(PARTITIONS)].append(reading)
        for log, added in zip(self.logs, fresh, strict=True):
            log.extend(added)
        return fresh


class Process:
    """One of the two processes that may run the pipeline, and its own way to the database."""

    def __init__(self, folder: Path, brokers: str, topic: str, database: Replicated, name: str) -> None:
        self.wire = Wire(database.primary.port)
        url = f"postgresql+psycopg://postgres@127.0.0.1:{self.wire.port}/{name}"
        self._made = Service(folder, config_for(brokers, topic, url, **SETTINGS))
        self.running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        self.running = self._made.start()

    def send(self, what: signal.Signals) -> None:
        """Send it a signal."""
        assert self.running is not None
        self.running.send_signal(what)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.send(signal.SIGKILL)
        assert self.running is not None
        self.running.wait()
        self.running = None

    def ended(self, timeout: float | None = None) -> int | None:
        """Return its exit code if it has ended, within a time-out if one is given."""
        if self.running is None:
            return None
        if timeout is not None:
            try:
                return self.running.wait(timeout)
            except subprocess.TimeoutExpired:
                return None
        return self.running.poll()

    def log(self) -> str:
        """Return the end of its log."""
        return self._made.log.read_text()[-3_000:] if self._made.log.exists() else ""

    def count(self, event: str) -> int:
        """Return how often its log has an event."""
        if not self._made.log.exists():
            return 0
        lines = self._made.log.read_text().splitlines()
        return sum(f'"event": "{event}"' in line for line in lines if line.startswith("{"))

    def reasons(self) -> list[str]:
        """Return the errors that its log has."""
        lines = (line for line in self._made.log.read_text().splitlines() if line.startswith("{"))
        found = [json.loads(line) for line in lines]
        return [
            each.get("reason") or each["event"]
            for each in found
            if each.get("level") in ("error", "critical")
        ]

    def close(self) -> None:
        """End it, and its way to the database."""
        self._made.stop_all()
        self.wire.close()


class World:
    """A topic, a database and two processes; the parts below them live longer."""

    def __init__(self, cluster: Cluster, database: Replicated, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster, self.database = cluster, database
        self._name = f"chaos_{seed}_{time.monotonic_ns()}"
        database.primary.ask(f'create database "{self._name}"')
        self.topic = cluster.create_topic(PARTITIONS)
        self._readings = Readings(self.rng)
        self.first, self.second = (
            Process(folder / name, cluster.bootstrap_servers, self.topic, database, self._name)
            for name in ("first", "second")
        )
        self.commits_seen: set[tuple[tuple[int, int], ...]] = set()
        """The positions at which the tables were compared."""
        self.exits: Counter[int] = Counter()
        """How often a process has ended by itself, by exit code."""
        self._before: dict[int, int] = {}
        self.first.start()

    @property
    def url(self) -> str:
        """The database, without a proxy."""
        return self.database.primary.url(self._name)

    def flow(self, seconds: float) -> None:
        """Let readings come for some time."""
        until = time.monotonic() + seconds
        while True:
            for partition, fresh in enumerate(self._readings.more(BATCH)):
                self.cluster.produce(
                    self.topic,
                    [each.value() for each in fresh],
                    partition=partition,
                    timestamps=[each.timestamp for each in fresh],
                )
            if time.monotonic() >= until:
                return

    def ask(self, statement: str) -> None:
        """Run a statement in the pipeline's database."""
        self.database.primary.ask(statement, self._name)

    def swap(self) -> None:
        """Let the other process be the first one."""
        self.first, self.second = self.second, self.first

    def lead_to_primary(self) -> None:
        """Let connections lead to the server that is the primary now, and lose the others."""
        for each in (self.first, self.second):
            each.wire.target = self.database.primary.port
            each.wire.cut()

    def forget_positions(self) -> None:
        """Let positions go back: the database has lost commits."""
        self._before = {}

    def check(self) -> None:
        """Compare the tables with a recomputation at the committed positions.

        Raises:
          Violation: they differ, or a position has gone back.
        """
        found = sample(self.url)
        if found is None:
            return
        self._check_positions(found)
        places = tuple(sorted(found.positions.items()))
        if places in self.commits_seen:
            return
        try:
            assert_equal(found, recomputed(self._readings.logs, found.positions))
        except AssertionError as error:
            raise Violation(str(error)) from error
        self.commits_seen.add(places)

    def _check_positions(self, found: Sample) -> None:
        for partition, position in found.positions.items():
            if position < self._before.get(partition, 0):
                raise Violation(
                    f"partition {partition} went back from {self._before[partition]} to {position}"
                )
        self._before = found.positions

    def must_move_on(self) -> None:
        """Wait until rows that come now are committed; starts the process again if it has ended.

        Raises:
          Violation: nothing is committed, or the process has ended with an exit code other than 3.
        """
        before = positions_in(self.url) or {}
        self.flow(0)
        deadline = time.monotonic() + PROGRESS_S
        while (positions_in(self.url) or {}) == before:
            self.restart_if_ended()
            if time.monotonic() > deadline:
                raise Violation(f"nothing is committed for {PROGRESS_S} s: {self.first.log()}")
            time.sleep(0.02)

    def restart_if_ended(self) -> None:
        """Start the process again if it has ended by itself, as what runs it would do.

        Raises:
          Violation: its exit code is not 3, that of a dependency that is down.
        """
        code = self.first.ended()
        if self.first.running is not None and code is None:
            return
        if code is not None:
            self.exits[code] += 1
            if code != 3:
                raise Violation(f"the process has ended with exit code {code}: {self.first.log()}")
        self.first.start()

    def finish(self) -> None:
        """Let everything be committed, and check it.

        Raises:
          Violation.
        """
        ends = {partition: len(log) for partition, log in enumerate(self._readings.logs)}
        deadline = time.monotonic() + PROGRESS_S
        while positions_in(self.url) != ends:
            self.restart_if_ended()
            if time.monotonic() > deadline:
                raise Violation(f"{positions_in(self.url)} are committed of {ends}: {self.first.log()}")
            time.sleep(0.05)
        self.check()

    def close(self) -> None:
        """End its processes and drop its database."""
        self.first.close()
        self.second.close()
        self.database.primary.ask(f'drop database "{self._name}" with (force)')
