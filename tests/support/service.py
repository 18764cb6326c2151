"""``rowtide run`` as a child process on real parts, and what its tables must hold at given positions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa
from typer.testing import CliRunner, Result

from rowtide.cli.main import app
from rowtide.testing.processes import ENDS_WITH_PARENT
from support.waiting import wait_until

PERIOD_MS = 60_000
WITHIN_MS = 2_000
TABLES = ("minutes", "latest", "readings_log")

SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers 'set by the configuration:1');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'set by the configuration');
CREATE FOREIGN STREAM readings (number BIGINT NOT NULL, sensor VARCHAR(16), amount DECIMAL(12, 2))
  SERVER k OPTIONS (topic 'set by the configuration', format 'JSON');
CREATE VIEW ordered AS
  SELECT STREAM number, sensor, amount FROM readings ORDER BY ROWTIME WITHIN INTERVAL '2' SECOND;
CREATE TABLE latest_of (sensor VARCHAR(16), number BIGINT, amount DECIMAL(12, 2), PRIMARY KEY (sensor));
CREATE FOREIGN TABLE latest (sensor VARCHAR(16), number BIGINT, amount DECIMAL(12, 2),
  PRIMARY KEY (sensor)) SERVER d;
CREATE FOREIGN TABLE minutes (period TIMESTAMP, sensor VARCHAR(16), n BIGINT, total DECIMAL(38, 2),
  least DECIMAL(12, 2), greatest DECIMAL(12, 2), PRIMARY KEY (period, sensor)) SERVER d;
CREATE FOREIGN TABLE readings_log (at TIMESTAMP, number BIGINT) SERVER d;
CREATE PUMP to_latest_of STARTED AS INSERT INTO latest_of SELECT STREAM sensor, number, amount FROM ordered;
CREATE PUMP to_latest STARTED AS INSERT INTO latest SELECT sensor, number, amount FROM latest_of;
CREATE PUMP to_minutes STARTED AS INSERT INTO minutes
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS period, sensor, COUNT(*) AS n, SUM(amount) AS total,
    MIN(amount) AS least, MAX(amount) AS greatest
  FROM ordered GROUP BY FLOOR(ROWTIME TO MINUTE), sensor;
CREATE PUMP to_log STARTED AS INSERT INTO readings_log SELECT STREAM ROWTIME AS at, number FROM ordered;
"""


_SUSPENDS_ITSELF = (
    "import os, signal; os._exit = lambda _code: os.kill(os.getpid(), signal.SIGSTOP); "
    "from rowtide.cli.main import app; app()"
)


@dataclass(frozen=True)
class Reading:
    """One message: its timestamp, and what is in it; cents instead of an amount. Bad ones have no number."""

    timestamp: int
    number: int | None
    sensor: str
    cents: int

    def value(self) -> bytes:
        if self.number is None:
            return b'{"number": "?"'
        whole, cents = divmod(self.cents, 100)
        return b'{"number":%d,"sensor":"%s","amount":%d.%02d}' % (
            self.number,
            self.sensor.encode(),
            whole,
            cents,
        )


@dataclass
class Service:
    """A pipeline's files, and processes that run it one after the other."""

    folder: Path
    config: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    sql: str = SQL

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "readings.sql").write_text(self.sql)
        (self.folder / "config.toml").write_text(self.config)

    @property
    def log(self) -> Path:
        return self.folder / "service.log"

    def command(self, name: str, *arguments: str) -> list[str]:
        files = [str(self.folder / "readings.sql"), "--config", str(self.folder / "config.toml")]
        return [sys.executable, "-m", "rowtide", *name.split(), *files, *arguments]

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(each for each in sys.path if each)
        return os.environ | {"PYTHONPATH": path, "ROWTIDE_LOG__FORMAT": "json"}

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*ENDS_WITH_PARENT, *self.command("run", *arguments)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment() | environment,
            )
        self.processes.append(process)
        return process

    def start_to_suspend(self, point: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a process that is suspended, and not dead, at a crash point such as ``commit.after_tables:8``."""
        program = [sys.executable, "-c", _SUSPENDS_ITSELF, *self.command("run", *arguments)[3:]]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*ENDS_WITH_PARENT, *program],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment() | {"ROWTIDE_CRASH_AT": point},
            )
        self.processes.append(process)
        return process

    def run(self, name: str, *arguments: str) -> Result:
        """Run a command in this process: one of its own would take seconds to start."""
        command = self.command(name, *arguments)[3:]
        return CliRunner().invoke(app, command, env={"ROWTIDE_LOG__FORMAT": "json"}, catch_exceptions=False)

    def finish(self) -> None:
        """Let this process read to the end, as the next one that runs the pipeline."""
        done = self.run("run", "--until-end")
        with self.log.open("a") as log:
            log.write(done.output)
        assert done.exit_code == 0, self.log.read_text()[-3_000:]

    def stop_all(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()

    def wait_for_log(self, event: str, times: int = 1) -> None:
        wait_until(
            lambda: self.log.read_text().count(f'"event": "{event}"') >= times,
            lambda: f"no {event}: {self.log.read_text()[-3_000:]}",
        )


@contextmanager
def service(folder: Path, config: str, sql: str = SQL) -> Iterator[Service]:
    made = Service(folder, config, sql=sql)
    try:
        yield made
    finally:
        made.stop_all()


def config_for(broker: str, topic: str, database: str, **sections: Mapping[str, object]) -> str:
    """Return the configuration; ``sections`` are further ones."""
    lines = [
        f'[servers.k]\nbootstrap_servers = "{broker}"',
        f'[servers.d]\nurl = "{database}"',
        f'[streams.readings]\ntopic = "{topic}"',
        '[service]\nlisten = "127.0.0.1:0"',
    ]
    for section, settings in sections.items():
        lines.append("\n".join([f"[{section}]", *(f"{name} = {value}" for name, value in settings.items())]))
    return "\n".join(lines) + "\n"


@dataclass
class Sample:
    """What a reader of the database sees in one REPEATABLE READ transaction."""

    positions: dict[int, int]
    minutes: Counter[tuple[object, ...]]
    latest: Counter[tuple[object, ...]]
    log: Counter[tuple[object, ...]]
    errors: Counter[tuple[object, ...]]


def sample(url: str) -> Sample | None:
    """Look at tables, errors and positions at one moment; None while there are no tables."""
    with _reading(url) as reading:
        positions = reading.positions()
        if positions is None:
            return None
        rows, millis, cents = reading.rows, reading.millis, reading.cents
        return Sample(
            positions,
            rows(
                f"select {millis.format('period')}, sensor, n, {cents.format('total')}, {cents.format('least')},"
                f" {cents.format('greatest')} from minutes"
            ),
            rows(f"select sensor, number, {cents.format('amount')} from latest"),
            rows(f"select {millis.format('at')}, number from readings_log"),
            rows(f'select kind, "partition", message_offset, raw from {reading.prefix}errors'),
        )


def positions_in(url: str) -> dict[int, int] | None:
    """Look at the positions only; None while there are no tables."""
    with _reading(url) as reading:
        return reading.positions()


@dataclass
class _Reading:
    """One transaction of a reader, and what differs between databases."""

    connection: sa.Connection
    millis: str = "(extract(epoch from {}) * 1000)::int8"
    cents: str = "({} * 100)::int8"
    prefix: str = "rowtide."

    def rows(self, query: str) -> Counter[tuple[object, ...]]:
        return Counter(tuple(row) for row in self.connection.execute(sa.text(query)))

    def positions(self) -> dict[int, int] | None:
        query = f'select "partition", next_offset from {self.prefix}positions'
        try:
            return dict(self.connection.execute(sa.text(query)).all())
        except sa.exc.ProgrammingError as error:
            if "exist" not in str(error.orig):
                raise
            return None


@contextmanager
def _reading(url: str) -> Iterator[_Reading]:
    address = sa.make_url(url)
    on_mysql = address.get_backend_name() in ("mysql", "mariadb")
    driver, options = "postgresql+psycopg", {}
    if on_mysql:
        driver, options = "mysql+pymysql", {"sql_mode": "ANSI_QUOTES"}
    engine = sa.create_engine(
        address.set(drivername=driver),
        isolation_level="REPEATABLE READ",
        poolclass=sa.NullPool,
        connect_args=options,
    )
    with engine.connect() as connection:
        if on_mysql:
            millis = "timestampdiff(microsecond, '1970-01-01', {}) div 1000"
            yield _Reading(connection, millis, "cast({} * 100 as signed)", "rowtide_")
        else:
            yield _Reading(connection)


def recomputed(logs: Sequence[Sequence[Reading]], positions: Mapping[int, int]) -> Sample:
    """Compute in one go what the database must hold when ``positions`` are committed.

    A plain reading of docs/sql/semantics.md#late-rows, #t-sort, #merge-order: per partition the high-water
    mark judges lateness; a row leaves when every earlier partition has promised past it and every other has
    reached it.
    """
    bounds: dict[int, int] = {}
    kept: list[tuple[int, int, int, Reading]] = []
    errors: Counter[tuple[object, ...]] = Counter()
    for partition, log in enumerate(logs):
        highest = -(2**63)
        for offset, reading in enumerate(log[: positions.get(partition, 0)]):
            if reading.number is None:
                errors["REJECTED", partition, offset, reading.value()] += 1
            elif reading.timestamp + WITHIN_MS < highest:
                errors["LATE", partition, offset, reading.value()] += 1
            else:
                highest = max(highest, reading.timestamp)
                kept.append((reading.timestamp, partition, offset, reading))
        bounds[partition] = highest - WITHIN_MS
    # What each partition's rows must not be later than.
    until = {
        partition: min(bound - (earlier < partition) for earlier, bound in bounds.items())
        for partition in bounds
    }
    # No two have the same timestamp, partition and offset, so readings are never compared.
    given = sorted(each for each in kept if each[0] <= until[each[1]])
    latest = {each.sensor: (each.sensor, each.number, each.cents) for *_, each in given}
    groups: dict[tuple[int, str], list[int]] = {}
    for timestamp, _, _, reading in given:
        groups.setdefault((timestamp // PERIOD_MS * PERIOD_MS, reading.sensor), []).append(reading.cents)
    closed = min(bounds.values())
    return Sample(
        dict(positions),
        Counter(
            (period, sensor, len(cents), sum(cents), min(cents), max(cents))
            for (period, sensor), cents in groups.items()
            if period + PERIOD_MS <= closed
        ),
        Counter(latest.values()),
        Counter((timestamp, reading.number) for timestamp, _, _, reading in given),
        errors,
    )


def assert_equal(found: Sample, wanted: Sample) -> None:
    """Compare, and say only a few of what differs."""
    for name in ("minutes", "latest", "log", "errors"):
        one, other = getattr(found, name), getattr(wanted, name)
        # Compared as plain dictionaries first: that is many times faster.
        if dict(one) == dict(other):
            continue
        extra, lacking = one - other, other - one
        assert not extra and not lacking, (
            f"{name} at {found.positions}: {extra.total()} too many, such as {list(extra)[:3]}; "
            f"{lacking.total()} missing, such as {list(lacking)[:3]}"
        )
