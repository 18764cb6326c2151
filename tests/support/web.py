"""The pages of a service that does nothing, and a clock that stands still, for tests of the API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from starlette.applications import Starlette

from rowtide.checkpoint.ledger import PendingErrors
from rowtide.errors import StatementError
from rowtide.metrics import Metrics
from rowtide.runtime.ingest.bound_origins import BoundOrigin
from rowtide.runtime.progress.board import ProgressBoard
from rowtide.runtime.query.contents import LatestRows, TableContents
from rowtide.runtime.resubmitting.resubmit import ResubmittedRows
from rowtide.runtime.state.status import Phase, ReplicaStatus, StatusBoard
from rowtide.sql.pipeline import plan_pipeline
from rowtide.web import Handlers, PositionStatus, build_app
from rowtide.web.access import Access
from rowtide.web.api.events import EventFeed
from rowtide.web.status import Summary


@dataclass(frozen=True)
class AtPartition:
    relation: str = "ORDERS"
    topic: str = "orders"
    partition: int = 0
    next_offset: int = 42
    start_offset: int = 2
    end_offset: int | None = 50
    bound: int | None = 1_000
    bound_from: BoundOrigin | None = "row"


@dataclass(frozen=True)
class Now:
    pipeline: str = "orders_per_minute"
    phase: Phase = "running"
    since_ms: int = 5_000
    waits_for: str | None = None
    epoch: int | None = 3
    commits: int | None = 12
    last_commit_ms: int | None = 9_000
    positions: Sequence[PositionStatus] = (AtPartition(),)
    pending: Sequence[tuple[str, int]] = (("ALERTS", 7),)
    summary: Summary | None = None
    replica: ReplicaStatus | None = None
    beat: float = 100.0


class Pipeline:
    def __init__(self) -> None:
        self.now = Now()

    def status(self) -> Now:
        return self.now


class StoppedClock:
    def __init__(self) -> None:
        self.at = 100.0

    def now_ms(self) -> int:
        return 10_000

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


class Answer:
    """Any answer of a page."""

    def to_json(self) -> Mapping[str, object]:
        return {}


class Executed:
    """The answer to a statement that was applied."""

    def to_json(self) -> Mapping[str, object]:
        return {"outcome": "applied"}


ORDERS = """
CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'b');
CREATE FOREIGN STREAM orders (product VARCHAR(8)) SERVER k OPTIONS (topic 'orders');
"""


def progress_of_orders() -> ProgressBoard:
    """Return the progress of a pipeline that does not run yet."""
    clock = StoppedClock()
    board = StatusBoard(Now().pipeline, clock, lambda _phase: None)
    return ProgressBoard(plan_pipeline(ORDERS), board, clock)


def ended_events() -> EventFeed:
    """Return events whose streams end when everything has been sent."""
    feed = EventFeed(progress_of_orders(), Pipeline(), StoppedClock(), lambda: PendingErrors({}, None))
    feed.end()
    return feed


def whole_app(access: Access) -> Starlette:
    """Return the application with every page that there is."""

    def query(_sql: str, _once: bool) -> Any:
        raise StatementError("planned")

    return build_app(
        Pipeline(),
        Metrics(),
        StoppedClock(),
        version="1",
        handlers=Handlers(
            why_not=lambda _: Answer(),
            why=lambda _relation, _row: Answer(),
            snapshot=Answer,
            contents=lambda relation, _limit, _after: TableContents(relation, (), (), (), 0),
            latest_rows=lambda _relation, _limit: LatestRows((), (), (), 0, 0),
            query=query,
            execute=lambda _sql, _wait: Executed(),
            progress=progress_of_orders(),
            events=ended_events(),
            errors=lambda _wanted, _limit: (),
            resubmit=lambda _wanted, _dry_run, _most: ResubmittedRows((), {}, {}),
            snapshots=tuple,
            decisions=lambda _limit, _before: (),
        ),
        access=access,
    )


def address(path: str, **names: str) -> str:
    """Return the address of a declared path, with names for those in braces."""
    given = {"pipeline": Now().pipeline, "relation": "ORDERS", "query": "1", "number": "17"}
    given |= {"asset": "none.js", **names}
    return path.format_map({name: quote(value, safe="") for name, value in given.items()})


def asked(
    app: Starlette, method: str, path: str, token: str | None = None, body: object = None, **more: str
) -> httpx.Response:
    """Ask a page as a client of this machine does; ``body`` is sent as JSON, ``more`` are headers."""
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            return await client.request(method, path, headers=headers, json=body)

    return asyncio.run(ask())
