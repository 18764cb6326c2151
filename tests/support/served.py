"""A pipeline that runs with its pages in threads of the test process, as ``rowtide run`` runs it; and one to run so."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from rowtide.app import resubmits
from rowtide.cli.run.run import query_of
from rowtide.clock import SystemClock
from rowtide.metrics import Metrics
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.query.query_work import QueryLimits
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide.web import Handlers, WebServer, build_app
from rowtide.web.access import Access
from rowtide.web.api.events import EventFeed
from rowtide_connectors.memory import memory_broker
from support.pipeline import process_of
from support.waiting import wait_until

_READINGS = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker '{file}');
CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite:///{file}');
CREATE FOREIGN STREAM readings (sensor VARCHAR(8), amount BIGINT)
  SERVER k OPTIONS (topic 'readings', partitions '1', format 'JSON');
CREATE TABLE "a/b" (sensor VARCHAR(8), amount BIGINT, PRIMARY KEY (sensor));
CREATE FOREIGN TABLE latest (sensor VARCHAR(8), amount BIGINT, PRIMARY KEY (sensor)) SERVER d;
CREATE PUMP p1 STARTED AS INSERT INTO "a/b" SELECT STREAM sensor, amount FROM readings WHERE amount > 0;
CREATE PUMP p2 STARTED AS INSERT INTO latest SELECT sensor, amount FROM "a/b";
"""
LARGE = 2**63 - 1
"""A BIGINT that a number of JavaScript cannot hold."""


@contextmanager
def served(file: Path, limits: QueryLimits | None = None, access: Access | None = None) -> Iterator[str]:
    """Run a pipeline file, named after its stem; give where its pages are once it has committed rows."""
    stop = threading.Event()
    clock = SystemClock()
    with open_pipeline(plan_pipeline(file.read_text()), file.stem) as pipeline:
        service = Service(
            process_of(pipeline, Pace(50, 100, None, None), clock=clock, stopping=stop.is_set, threads=True)
        )
        events = EventFeed(service.progress, service.board, clock, pipeline.ledger.pending_errors)
        pages = build_app(
            service.board,
            Metrics(),
            clock,
            version="0",
            handlers=Handlers(
                snapshot=service.requests.snapshot,
                contents=service.requests.contents,
                latest_rows=service.requests.latest_rows,
                execute=service.requests.execute,
                errors=pipeline.ledger.errors,
                why_not=service.requests.why_not,
                resubmit=resubmits(pipeline, service.requests),
                snapshots=pipeline.ledger.snapshots,
                decisions=pipeline.ledger.last_decisions,
                query=query_of(file, service.requests, limits),
                progress=service.progress,
                events=events,
            ),
            access=access,
        )
        web = WebServer(pages, "127.0.0.1:0")
        web.start()
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            # The first commit is that of where it begins: it does not answer yet.
            while (summary := service.board.status().summary) is None or not summary.fields()["read"]:
                time.sleep(0.01)
            yield web.url
        finally:
            stop.set()
            thread.join()
            events.end()
            web.stop()


class ReadingsPipeline:
    """A topic of readings, and a pipeline of them: the latest of each sensor, in an engine table and a foreign table.

    The engine table has a name that addresses must encode.
    """

    def __init__(self, folder: Path) -> None:
        self._broker = memory_broker(str(folder / "out.db"))
        self._broker.ensure_topic("readings", 1)
        self._file = folder / "readings.sql"
        self._file.write_text(_READINGS.format(file=folder / "out.db"))

    def send(self, sensor: str, amount: int, at_ms: int) -> None:
        """Append a reading."""
        self.send_bytes(b'{"sensor":"%s","amount":%d}' % (sensor.encode(), amount), at_ms)

    def send_bytes(self, value: bytes, at_ms: int) -> None:
        """Append any message."""
        self._broker.produce("readings", [value], timestamps=[at_ms], partition=0)

    @contextmanager
    def served(self, sensors: int) -> Iterator[str]:
        """Run the pipeline; give where its pages are once its table has as many ``sensors``."""
        with served(self._file) as url:
            table = f"{url}/api/v1/pipelines/readings/relations/a%2Fb/rows"
            wait_until(lambda: httpx.get(table, trust_env=False).json().get("total") == sensors)
            yield url
