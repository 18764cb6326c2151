"""The service's pages: ``/`` status, ``/healthz`` alive, ``/readyz`` ready, ``/metrics``, and the API of version 1.

Alive and ready differ. A process whose database is down is alive (a restart
does not help) but not ready; a process whose main loop hangs is not alive.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

import msgspec
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rowtide.clock import Clock
from rowtide.metrics import Metrics
from rowtide.web import declared
from rowtide.web.access import Access, Page, no_page
from rowtide.web.aliases import alias_pages
from rowtide.web.api import api_pages
from rowtide.web.arrival import Arrival
from rowtide.web.described import openapi
from rowtide.web.handlers import NO_HANDLERS, Handlers
from rowtide.web.page import page_files, page_redirects
from rowtide.web.status import PipelineStatus, ReplicaProgress, Status
from rowtide_connectors.several import place_of

BEAT_LIMIT_S = 60.0
"""Longer than any step of a healthy main loop: the longest is a commit that waits for
a database's lock or connection time-out, commonly 30 s."""


AsyncHandler = Callable[[Request], Awaitable[Response]]


def build_app(
    status: Status,
    metrics: Metrics,
    clock: Clock,
    *,
    version: str,
    beat_limit_s: float = BEAT_LIMIT_S,
    handlers: Handlers = NO_HANDLERS,
    access: Access | None = None,
) -> Starlette:
    """Return the ASGI application; ``clock`` must be the clock of the pipeline's beats.

    ``access`` checks the callers; without it every request is allowed.
    """
    health = _Health(status, metrics, clock, beat_limit_s)
    pages = [Page(declared.STATUS, _root(status, version)), *health.pages()]
    access = access or Access()
    pages += [*alias_pages(handlers), *api_pages(status, version, handlers, access), *page_files()]
    document = openapi(version, [declared.OPENAPI, *(each.declared for each in pages)])
    pages.append(Page(declared.OPENAPI, _document(document)))
    return application(pages, access, status.status().pipeline, page_redirects())


def build_monitoring_app(
    status: Status, metrics: Metrics, clock: Clock, *, beat_limit_s: float = BEAT_LIMIT_S
) -> Starlette:
    """Return the ASGI application of the monitoring listener: health, readiness and metrics, nothing else."""
    health = _Health(status, metrics, clock, beat_limit_s)
    return application(health.pages(is_open=True), Access(), status.status().pipeline)


def application(
    pages: Sequence[Page], access: Access, pipeline: str, redirects: Sequence[Route] = ()
) -> Starlette:
    """Return the ASGI application of pages; ``pipeline`` is the one of the service. ``redirects`` come first."""
    return Starlette(
        routes=[*redirects, *(page.route(access, pipeline) for page in pages)],
        middleware=[Middleware(Arrival)],
        exception_handlers={HTTPException: no_page},
    )


def _root(status: Status, version: str) -> AsyncHandler:
    async def root(_request: Request) -> Response:
        """Return the state of the pipeline and its positions."""
        now = status.status()
        return JSONResponse(
            {
                "name": "rowtide",
                "version": version,
                "pipeline": now.pipeline,
                "phase": now.phase,
                "since_ms": now.since_ms,
                "waits_for": now.waits_for,
                "epoch": now.epoch,
                "replica": None if now.replica is None else _replica(now.replica),
                "last_commit_ms": now.last_commit_ms,
                "positions": _positions(now),
                "pending_messages": dict(now.pending),
                "this_run": None if now.summary is None else dict(now.summary.fields()),
            }
        )

    return root


class _Health:
    """Handlers for probes and Prometheus. They never block, so they run on the server's event loop."""

    def __init__(self, status: Status, metrics: Metrics, clock: Clock, beat_limit_s: float) -> None:
        self._status = status
        self._metrics = metrics
        self._clock = clock
        self._beat_limit_s = beat_limit_s

    def pages(self, *, is_open: bool = False) -> list[Page]:
        """Return the pages that both listeners have. ``is_open``: metrics require no token; probes send none."""
        metrics = replace(declared.METRICS, right=None) if is_open else declared.METRICS
        return [
            Page(declared.ALIVE, self.healthz),
            Page(declared.READY, self.readyz),
            Page(metrics, self.metrics_text),
        ]

    async def healthz(self, _request: Request) -> Response:
        """Answer 200 while the main loop beats, else 503 with the time since its last beat."""
        silent_s = self._clock.monotonic() - self._status.status().beat
        if silent_s > self._beat_limit_s:
            reason = f"the main loop has not completed a turn for {silent_s:.0f} s"
            return JSONResponse({"status": "hanging", "reason": reason}, status_code=503)
        return JSONResponse({"status": "alive"})

    async def readyz(self, _request: Request) -> Response:
        """Answer 200 when recovered and connected, else 503 with what the pipeline waits for.

        A follower that keeps up is ready: it would take over without delay.
        """
        now = self._status.status()
        if now.phase == "running":
            return JSONResponse({"status": "ready"})
        reason = now.waits_for if now.waits_for is not None else f"the pipeline is {now.phase}"
        if now.phase == "following" and (replica := now.replica) is not None:
            if replica.keeps_up:
                return JSONResponse({"status": "ready", "role": replica.role})
            reason = (
                f"the follower is {replica.lag_commits} commits and {replica.lag_s:g} s behind the leader"
            )
        return JSONResponse(
            {"status": now.phase, "reason": reason, "since_ms": now.since_ms}, status_code=503
        )

    async def metrics_text(self, request: Request) -> Response:
        """Return every metric in the format that the scraper requests."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._metrics.registry), headers={"content-type": content_type})


def _document(content: Mapping[str, object]) -> AsyncHandler:
    """Return the handler of a document that never changes: a client that has it gets 304."""
    written = msgspec.json.encode(content)
    headers = {"etag": f'"{sha256(written).hexdigest()[:32]}"', "cache-control": "no-cache"}

    async def document(request: Request) -> Response:
        if headers["etag"] in request.headers.get("if-none-match", "").split(", "):
            return Response(status_code=304, headers=headers)
        return Response(written, headers=headers, media_type=declared.JSON)

    return document


def _replica(replica: ReplicaProgress) -> dict[str, str | int | float | bool]:
    return {
        "role": replica.role,
        "takeovers": replica.takeovers,
        "lag_commits": replica.lag_commits,
        "lag_s": replica.lag_s,
        "keeps_up": replica.keeps_up,
    }


def _positions(now: PipelineStatus) -> Sequence[dict[str, str | int | None]]:
    return [
        {
            "relation": at.relation,
            "topic": at.topic,
            "partition": place_of(at.topic, at.partition)[1],
            "next_offset": at.next_offset,
            "end_offset": at.end_offset,
            "bound": at.bound,
        }
        for at in now.positions
    ]
