"""recovery: kill -9, then from the start of ``rowtide run`` to its first new commit, by size of state.

The topic has one partition. The state has groups by a text of 100 letters, one per message; its size
is that of the stored snapshot, ``state_mb``. The service is a separate process, killed once its
snapshot holds everything. The messages of the first new commit are sent before it restarts.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import uuid
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rowtide.bench.processes import compile_modules, started, wait_until
from rowtide.bench.servers import BROKER, DATABASE, committed_messages, create_topic, flushed, given, send
from rowtide.bench.suite import Benchmark, Outcome
from rowtide.clock import Clock

if TYPE_CHECKING:
    import sqlalchemy as sa

SHOWN = 1_000
"""Groups that are written to the table; they get one more message after the kill."""
BYTES_OF_A_GROUP = 110
"""Its size in a snapshot."""
_SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{database}');
CREATE FOREIGN STREAM events (key VARCHAR(100), amount INTEGER)
  SERVER k OPTIONS (topic '{topic}', format 'JSON');
CREATE FOREIGN TABLE {table} (key VARCHAR(100) PRIMARY KEY, cnt BIGINT, total BIGINT) SERVER d;
CREATE VIEW totals OPTIONS (RETENTION 'UNBOUNDED') AS
  SELECT STREAM key, COUNT(*) AS cnt, SUM(amount) AS total, MIN(amount) AS lo, MAX(amount) AS hi
  FROM events GROUP BY key EMIT CHANGES;
CREATE PUMP p STARTED AS
  INSERT INTO {table} SELECT STREAM key, cnt, total FROM totals WHERE lo < 0;
"""
_CONFIG = """
[service]
listen = "127.0.0.1:0"
[commit]
interval_ms = 20
[checkpoint]
snapshot_rows = {rows}
snapshot_interval_s = 0
"""


def recovery(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run one size; ``count`` is the number of groups.

    Raises:
      StatementError: broker or database is not set.
      TransientError: the service did not get far enough within a quarter of an hour.
    """
    import sqlalchemy as sa

    broker, database = given(BROKER), given(DATABASE)
    compile_modules()
    run = uuid.uuid4().hex[:12]
    topic, table = f"recovery-{run}", f'"recovery_{run}"'
    create_topic(broker, topic, 1, {})
    engine = sa.create_engine(database, isolation_level="AUTOCOMMIT")
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        file = Path(folder) / f"recovery_{run}.sql"
        file.write_text(_SQL.format(broker=broker, database=database, topic=topic, table=table))
        config = Path(folder) / "config.toml"
        config.write_text(_CONFIG.format(rows=count))
        command = ["run", str(file), "--config", str(config)]
        _fill(broker, topic, range(count))
        with engine.connect() as connection, (Path(folder) / "log").open("wb") as log:
            committed = partial(committed_messages, connection, file.stem)
            process = started(command, log)
            try:
                wait_until(lambda: committed() >= count, process, clock)
                wait_until(lambda: _snapshot(connection, file.stem)[0] >= count, process, clock)
            finally:
                process.kill()
                process.wait()
            _fill(broker, topic, range(SHOWN))
            began = clock.monotonic()
            process = started(command, log)
            try:
                wait_until(lambda: committed() > count, process, clock)
                seconds = clock.monotonic() - began
                wait_until(lambda: committed() >= count + SHOWN, process, clock)
            finally:
                process.kill()
                process.wait()
            _, size = _snapshot(connection, file.stem)
            rows, messages = connection.execute(sa.text(f"SELECT count(*), sum(cnt) FROM {table}")).one()
            connection.execute(sa.text(f"DROP TABLE {table}"))
    engine.dispose()
    shown = min(SHOWN, count)
    wanted = (SHOWN, shown + SHOWN)
    check = "ok" if (rows, messages) == wanted else f"{rows} groups of {messages} messages, not {wanted}"
    return Outcome(seconds, rows, check, {"state_mb": size / 1e6})


def _message(number: int) -> bytes:
    # Letters that a snapshot can hardly compress.
    key = hashlib.sha512(str(number).encode()).hexdigest()[:100]
    return f'{{"key":"{key}","amount":{-1 if number < SHOWN else number % 1000}}}'.encode()


def _fill(broker: str, topic: str, numbers: Iterable[int]) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": broker,
            "linger.ms": 50,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for number in numbers:
        send(producer, topic, _message(number), 0)
    flushed(producer)


def _snapshot(connection: sa.Connection, pipeline: str) -> tuple[int, int]:
    """Return the number of messages in the newest snapshot, and its size in bytes."""
    import sqlalchemy as sa

    text = (
        "SELECT manifest, bytes FROM rowtide.snapshots WHERE pipeline = :pipeline AND manifest <> '' "
        "ORDER BY snapshot_id DESC LIMIT 1"
    )
    try:
        found = connection.execute(sa.text(text), {"pipeline": pipeline}).one_or_none()
    except sa.exc.ProgrammingError:
        return 0, 0
    if found is None:
        return 0, 0
    return sum(at for _, _, at in json.loads(found[0])["positions"]), found[1]


BENCHMARKS = tuple(
    Benchmark(
        f"recovery-{name}",
        f"kill -9 with {name.upper()} of state, then from the start to the first new commit",
        megabytes * 1_000_000 // BYTES_OF_A_GROUP,
        recovery,
        warm=False,
    )
    for name, megabytes in (("10mb", 10), ("100mb", 100), ("1gb", 1_000))
)
