"""The demo's course: fill the broker, run the service as a child, kill it half way, restart it, compare.

This process holds the broker. The service is a child process: ``rowtide run`` on the demo's pipeline
file, without anything special to the demo. The demo reads its progress from the positions that it
commits.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rowtide.clock import Clock
from rowtide.demo.broker import EmbeddedBroker
from rowtide.demo.flights import FLIGHTS, PARTITIONS, WEATHER, messages
from rowtide.errors import FaultError
from rowtide.testing.processes import ENDS_WITH_PARENT, LOCAL, answers, free_port

PIPELINE = Path(__file__).with_name("pipeline.sql")
TABLE = "hourly_departures"
USUAL_PORT = 8080
"""The default port at which commands find the service."""
KILL_AT = 0.4
"""The share of messages after whose commit the service is killed."""
LOOK_EVERY_S = 0.05
SILENCE_S = 120.0
"""A child that commits nothing for so long has failed."""
HOUR_MS = 3_600_000
_CONFIG = """\
[pipeline]
name = "demo"

[service]
listen = "127.0.0.1:{port}"

[servers.broker]
bootstrap_servers = "{broker}"
"fetch.wait.max.ms" = "50"

[servers.results]
url = "sqlite:///{database}"

[commit]
interval_ms = 200
"""


class Display(Protocol):
    """Shows the course of the demo."""

    def stage(self, text: str, total: int | None = None) -> None:
        """Start a stage of ``total`` messages."""

    def advance(self, done: int) -> None:
        """Report the number of processed messages of the stage."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of the demo.

    ``columns`` and ``rows`` are the result table; ``late`` counts error rows; ``killed_at`` is the
    number of messages that were committed when the service was killed; times are seconds from the
    demo's start. ``differences`` is empty where the killed and the straight run are identical.
    """

    messages: int
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    late: int
    killed_at: int
    first_result_s: float
    seconds: float
    differences: tuple[str, ...]

    @property
    def identical(self) -> bool:
        """Return whether the kill changed nothing."""
        return not self.differences


class Demo:
    """One run of the demo in its own folder."""

    def __init__(self, folder: Path, clock: Clock, display: Display, port: int) -> None:
        self._folder = folder
        self._clock = clock
        self._display = display
        self._port = port
        self._broker: EmbeddedBroker | None = None

    def run(self) -> DemoResult:
        """Run it all.

        Raises:
          FaultError: the service ended with an error; names its log.
        """
        began = self._clock.monotonic()
        broker = self._broker = EmbeddedBroker()
        for topic in (FLIGHTS, WEATHER):
            broker.create(topic)
        killed = self._folder / "killed.db"
        # The child starts while the data is read; it writes rows as soon as messages arrive.
        child = self._start(killed, until_end=False)
        try:
            total = self._fill(broker)
        except BaseException:
            child.kill()
            child.wait()
            raise
        self._display.stage("the service runs; it will be killed half way", total)
        first: float | None = None

        def first_seen() -> None:
            nonlocal first
            first = first or self._clock.monotonic() - began

        killed_at = self._follow(killed, child, first_seen, kill_at=int(total * KILL_AT))
        self._display.stage(f"killed with SIGKILL after {killed_at:,} messages; started again", total)
        self._follow(killed, self._start(killed), first_seen)
        straight = self._folder / "straight.db"
        self._display.stage("the same once more, without a kill, to compare", total)
        self._follow(straight, self._start(straight), first_seen)
        columns, rows = _read(killed, f"SELECT * FROM {TABLE} ORDER BY 1, 2")
        _, errors = _read(killed, "SELECT count(*) FROM rowtide_errors")
        return DemoResult(
            messages=total,
            columns=columns,
            rows=rows,
            late=int(str(errors[0][0])),
            killed_at=killed_at,
            first_result_s=round(first or 0.0, 1),
            seconds=round(self._clock.monotonic() - began, 1),
            differences=tuple(_differences(killed, straight)),
        )

    def serve(self, on_start: Callable[[str, Path], None]) -> None:
        """Keep a service on the demo's result running until interrupted.

        Args:
          on_start: called once the service responds, with its address and its configuration.
        """
        self._port = self._port or free_port(USUAL_PORT)
        database = self._folder / "killed.db"
        child = self._start(database, until_end=False)
        try:
            while child.poll() is None and not answers(self._port):
                self._clock.sleep(LOOK_EVERY_S)
            if child.poll() is None:
                on_start(f"http://{LOCAL}:{self._port}", database.with_suffix(".toml"))
            child.wait()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGTERM)
            child.wait()

    def _fill(self, broker: EmbeddedBroker) -> int:
        """Write all messages and final bounds to the broker; return the number of messages."""
        self._display.stage("a year of flights and weather goes into the embedded broker")
        given = messages()
        self._display.stage("a year of flights and weather goes into the embedded broker", len(given))
        sent = 0

        def progress(more: int) -> None:
            nonlocal sent
            sent += more
            self._display.advance(sent)

        for partition in range(PARTITIONS):
            # Weather has three airports and four partitions, so the last partition has no messages.
            if not any(each.topic == WEATHER and each.partition == partition for each in given):
                broker.send_bound(WEATHER, partition, given[-1].timestamp + HOUR_MS)
        broker.send(given, progress)
        for topic in (FLIGHTS, WEATHER):
            for partition in range(PARTITIONS):
                broker.send_bound(topic, partition, given[-1].timestamp + HOUR_MS)
        return len(given)

    def _start(self, database: Path, *, until_end: bool = True) -> subprocess.Popen[bytes]:
        if self._broker is None:
            raise FaultError("the demo's broker has not been started")
        config = database.with_suffix(".toml")
        servers = self._broker.bootstrap_servers
        config.write_text(_CONFIG.format(broker=servers, database=database, port=self._port))
        command = [*ENDS_WITH_PARENT, sys.executable, "-m", "rowtide", "run", str(PIPELINE)]
        command += ["--config", str(config)]
        if until_end:
            command.append("--until-end")
        with database.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=_environment()
            )

    def _follow(
        self,
        database: Path,
        child: subprocess.Popen[bytes],
        first_seen: Callable[[], None],
        kill_at: int | None = None,
    ) -> int:
        """Watch a child until it ends, or kill it at ``kill_at`` committed messages; return their number."""
        done = 0
        moved = self._clock.monotonic()
        try:
            while child.poll() is None:
                self._clock.sleep(LOOK_EVERY_S)
                committed = _committed(database)
                if committed > done:
                    moved = self._clock.monotonic()
                    done = committed
                    self._display.advance(done)
                    if _has_rows(database):
                        first_seen()
                if kill_at is not None and done >= kill_at:
                    child.kill()
                    child.wait()
                    return _committed(database)
                if self._clock.monotonic() - moved > SILENCE_S:
                    raise FaultError(f"the service commits nothing: {database.with_suffix('.log')}")
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        if child.returncode:
            log = database.with_suffix(".log")
            raise FaultError(f"the service ended with exit code {child.returncode}: {log}")
        if kill_at is not None:
            raise FaultError("the service was done before it could be killed")
        return done


def _environment() -> dict[str, str]:
    """Return the child's environment, in which it finds this package, installed or not."""
    path = os.pathsep.join(each for each in sys.path if each)
    return os.environ | {"PYTHONPATH": path}


def _read(database: Path, query: str) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Run a query and return the names of its columns and its rows."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as connection:
        found = connection.execute(query)
        return tuple(column[0] for column in found.description), found.fetchall()


def _number(database: Path, query: str) -> int:
    """Return the number that a query returns; 0 while the database or its table does not exist."""
    try:
        _, rows = _read(database, query)
    except sqlite3.OperationalError:
        return 0
    return int(str(rows[0][0] or 0))


def _committed(database: Path) -> int:
    """Count the messages whose effects are committed: this broker's offsets have no holes."""
    return _number(database, "SELECT sum(next_offset) FROM rowtide_positions")


def _has_rows(database: Path) -> bool:
    return _number(database, f"SELECT count(*) FROM {TABLE}") > 0


def _differences(left: Path, right: Path) -> list[str]:
    """Return the differences between two databases: the result table and the error stream, row by row."""
    found = []
    queries = {
        TABLE: f"SELECT * FROM {TABLE} ORDER BY 1, 2",
        "rowtide_errors": """
            SELECT kind, relation, reason, topic, partition, message_offset, rowtime, bound, raw
            FROM rowtide_errors ORDER BY relation, partition, message_offset""",
        "rowtide_positions": """
            SELECT relation, partition, next_offset, bound FROM rowtide_positions ORDER BY 1, 2""",
    }
    for name, query in queries.items():
        (_, one), (_, other) = _read(left, query), _read(right, query)
        if one != other:
            first = next((pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), None)
            found.append(f"{name}: {len(one)} and {len(other)} rows; first difference {first}")
    return found
