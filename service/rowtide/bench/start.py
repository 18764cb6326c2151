"""start: how long a user waits for ``rowtide check``, and for the first row of ``rowtide run``.

Both are separate processes on W2's pipeline. The time is from the start of the process to its end, or
to the first row that another connection reads in the database. The cache has the kernels, which an
earlier run compiled, and the byte code of modules, as after an installation.
"""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from rowtide.bench.kafka import PIPELINE, fill_topic
from rowtide.bench.processes import compile_modules, started, wait_until
from rowtide.bench.servers import BROKER, DATABASE, given
from rowtide.bench.suite import Benchmark, Outcome
from rowtide.clock import Clock

if TYPE_CHECKING:
    import sqlalchemy as sa

EVENTS = 20_000


def check(_count: int, _cache: Path, clock: Clock) -> Outcome:
    """Run ``rowtide check``, which has no output rows."""
    compile_modules()
    sql = PIPELINE.format(broker="localhost:9092", database="sqlite:///none.db", topic="events", table="w2")
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder:
        file = Path(folder) / "w2.sql"
        file.write_text(sql)
        with (Path(folder) / "log").open("wb") as log:
            began = clock.monotonic()
            code = started(["check", str(file)], log).wait()
            seconds = clock.monotonic() - began
    return Outcome(seconds, 0, "ok" if code == 0 else f"exit code {code}")


def first_row(count: int, cache: Path, clock: Clock) -> Outcome:
    """Run ``rowtide run`` on ``count`` existing messages until the first row exists.

    Raises:
      StatementError: broker or database is not set.
      TransientError: no row appears.
    """
    import sqlalchemy as sa

    compile_modules()
    broker, database = given(BROKER), given(DATABASE)
    name = f"start_{uuid.uuid4().hex[:12]}"
    fill_topic(broker, name, count, cache)
    engine = sa.create_engine(database, isolation_level="AUTOCOMMIT")
    with (
        tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder,
        (Path(folder) / "log").open("wb") as log,
        engine.connect() as connection,
    ):
        file = Path(folder) / f"{name}.sql"
        file.write_text(PIPELINE.format(broker=broker, database=database, topic=name, table=name))
        config = Path(folder) / "config.toml"
        config.write_text('[service]\nlisten = "127.0.0.1:0"\n')
        began = clock.monotonic()
        process = started(["run", str(file), "--config", str(config)], log)
        try:
            wait_until(lambda: _rows(connection, name) > 0, process, clock)
            seconds = clock.monotonic() - began
        finally:
            process.kill()
            process.wait()
        rows = _rows(connection, name)
        connection.execute(sa.text(f"DROP TABLE {name}"))
    engine.dispose()
    return Outcome(seconds, rows, "ok")


def _rows(connection: sa.Connection, table: str) -> int:
    import sqlalchemy as sa

    try:
        return int(connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar() or 0)
    except sa.exc.ProgrammingError:
        # The service has not created its tables yet.
        return 0


BENCHMARKS = (
    Benchmark("start-check", "rowtide check of W2's pipeline, from start to end", 1, check),
    Benchmark("start-first-row", "rowtide run of W2's pipeline, from start to first row", EVENTS, first_row),
)
