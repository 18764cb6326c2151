"""A pipeline that runs with its pages in threads of the test process, as ``rowtide run`` runs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
from support.pipeline import process_of


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
