"""latency: 10,000 messages per second for a minute, from Kafka's append to the committed row.

The topic has one partition and stamps messages when it appends them, to the
millisecond, so each latency may be up to one too much. Messages of the first seconds do not count,
because the kernels are loaded then. ``latency-pass`` writes every message to a table,
``latency-changes`` upserts W2's groups as they change (EMIT CHANGES). ``p50_ms`` and ``p99_ms`` are
over all messages.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rowtide.bench.servers import BROKER, DATABASE, create_topic, given, service_of
from rowtide.bench.suite import Benchmark, Outcome
from rowtide.clock import Clock
from rowtide.runtime.pace import Pace
from rowtide.runtime.state.observer import Unobserved
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.processes import ENDS_WITH_PARENT

if TYPE_CHECKING:
    from rowtide.checkpoint.ledger import ErrorRow
    from rowtide.runtime.ingest.intake import Delivery
    from rowtide.runtime.state.pipeline_state import CommitBatch, PipelineState

RATE = 10_000
EVENTS = 60 * RATE
BEFORE = 5 * RATE
"""Number of first messages that do not count."""
COMMIT_MS = 1
"""Longest time between commits; a commit begins when the one before has ended."""
_SQL = """
CREATE SERVER k FOREIGN DATA WRAPPER KAFKA OPTIONS (bootstrap_servers '{broker}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url '{database}');
CREATE FOREIGN STREAM events (key VARCHAR(8), price DOUBLE, qty INTEGER)
  SERVER k OPTIONS (topic '{topic}', format 'JSON');
"""
_PASS = """
CREATE FOREIGN TABLE {table} (key VARCHAR(8), price DOUBLE, qty INTEGER) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO {table} SELECT STREAM key, price, qty FROM events;
"""
_CHANGES = """
CREATE FOREIGN TABLE {table} (window_start TIMESTAMP, key VARCHAR(8), cnt BIGINT, total BIGINT, lo DOUBLE,
  hi DOUBLE, PRIMARY KEY (window_start, key)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO {table}
  SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS window_start, key, COUNT(*), SUM(qty), MIN(price), MAX(price)
  FROM events GROUP BY FLOOR(ROWTIME TO MINUTE), key EMIT CHANGES;
"""
_COUNT_PASS, _COUNT_CHANGES = "count(*)", "sum(cnt)"


class _Watch(Unobserved):
    """Starts the sender once the service is ready, and records when messages arrived and were committed."""

    def __init__(self, clock: Clock, sender: Sequence[str], count: int) -> None:
        self.done = False
        self._clock = clock
        self._sender = sender
        self._count = count
        self._appended: list[NDArray[np.int64]] = []
        self._commits: list[tuple[int, int]] = []
        self.process: subprocess.Popen[bytes] | None = None

    def recovered(self, state: PipelineState, seconds: float) -> None:
        self.process = subprocess.Popen([*ENDS_WITH_PARENT, *self._sender])

    def entered(self, delivery: Delivery) -> None:
        self._appended.append(np.asarray(delivery.messages.timestamps))

    def committed(
        self, state: PipelineState, batch: CommitBatch, errors: Sequence[ErrorRow], seconds: float
    ) -> None:
        reached = max((position.next_offset for position in batch.partition_positions), default=0)
        self._commits.append((reached, self._clock.now_ms()))
        self.done = self.done or reached >= self._count

    def latencies(self) -> tuple[NDArray[np.int64], float]:
        """Return the latency of each message that counts, in ms, and how many seconds they took."""
        appended = np.concatenate(self._appended)
        reached, at = (np.array(each, dtype=np.int64) for each in zip(*self._commits, strict=True))
        commit = np.searchsorted(reached, np.arange(len(appended)), side="right")
        found = (at[commit] - appended)[BEFORE:]
        return found, float(at[commit[-1]] - appended[BEFORE]) / 1000


def latency(sql: str, counted: str, count: int, cache: Path, clock: Clock) -> Outcome:
    """Run one of the two.

    Raises:
      StatementError: broker or database is not set.
    """
    import sqlalchemy as sa

    from rowtide.runtime.pipeline import open_pipeline

    broker, database = given(BROKER), given(DATABASE)
    run = uuid.uuid4().hex[:12]
    topic, table = f"latency-{run}", f'"latency_{run}"'
    create_topic(broker, topic, 1, {"message.timestamp.type": "LogAppendTime"})
    total = BEFORE + count
    sender = (sys.executable, "-m", "rowtide.bench.feed", broker, topic, str(total), str(RATE))
    watch = _Watch(clock, sender, total)
    plan = plan_pipeline((_SQL + sql).format(broker=broker, database=database, topic=topic, table=table))
    with open_pipeline(plan, f"latency-{run}") as pipeline:
        pace = Pace(COMMIT_MS, total, None, None)
        service = service_of(pipeline, clock, pace, lambda: watch.done, watch)
        try:
            service.run()
        finally:
            if watch.process is not None:
                watch.process.terminate()
                watch.process.wait()
    engine = sa.create_engine(database)
    with engine.begin() as connection:
        (rows,) = connection.execute(sa.text(f"SELECT {counted} FROM {table}")).one()
        connection.execute(sa.text(f"DROP TABLE {table}"))
    engine.dispose()
    found, seconds = watch.latencies()
    percentiles = {f"p{each}_ms": float(np.percentile(found, each)) for each in (50, 99)}
    check = "ok" if rows == total else f"{rows} of {total} messages are in the table"
    return Outcome(seconds, int(rows), check, percentiles)


BENCHMARKS = (
    Benchmark(
        "latency-pass",
        "10,000 messages/s from Kafka to PostgreSQL as they are: append to commit",
        EVENTS,
        partial(latency, _PASS, _COUNT_PASS),
        warm=False,
    ),
    Benchmark(
        "latency-changes",
        "W2 with EMIT CHANGES at 10,000 messages/s: append to commit",
        EVENTS,
        partial(latency, _CHANGES, _COUNT_CHANGES),
        warm=False,
    ),
)
