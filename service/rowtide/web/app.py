"""The service's pages: ``/`` status, ``/healthz`` alive, ``/readyz`` ready, ``/metrics``, ``/why-not``.

``POST /snapshot`` commits with a snapshot; ``/table?relation=NAME&limit=N`` gives rows of an engine table;
``/query?sql=..`` gives rows of a query as they come (``web.query``).

``/why-not?relation=NAME`` (a catalog name) says as JSON why a relation is silent.
``/why?relation=NAME&row=ROW`` says what led to a row that came out; it reads the log again. Answers are 400
where a parameter is missing or invalid, 404 where there is no such relation, 503 while the main loop has no
time to answer.

Alive and ready are two questions. A process whose database is down is alive (a
restart would not help) and not ready; one whose loop hangs is not alive.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rowtide.clock import Clock
from rowtide.errors import RowtideError, StatementError, TransientError
from rowtide.metrics import Metrics
from rowtide.web.access import Access, Page
from rowtide.web.query import QueryRunner, query_handler
from rowtide.web.status import JsonAnswer, PipelineStatus, Status, WhyNot
from rowtide.web.tokens import Role

TABLE_ROWS = 100
"""Rows of a table that are given unless more are asked for."""
MOST_TABLE_ROWS = 1_000_000
"""Rows that may be asked for: the answer is one text in memory."""

BEAT_LIMIT_S = 60.0
"""Longer than any single step of the loop that is still well: the longest is a commit that waits for
a database's lock or connection time-out, commonly 30 s."""


AsyncHandler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Handlers:
    """What answers the pages that ask the pipeline itself; a page without a handler does not exist."""

    why_not: WhyNot | None = None
    why: Callable[[str, str], JsonAnswer] | None = None
    snapshot: Callable[[], JsonAnswer] | None = None
    contents: Callable[[str, int], JsonAnswer] | None = None
    query: QueryRunner | None = None


NO_HANDLERS = Handlers()


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
    """Return the ASGI application; ``clock`` must be the one that the pipeline beats by.

    ``access`` says who may ask; without it everyone may.
    """
    health = _Health(status, metrics, clock, beat_limit_s)
    pages = [Page("/", Role.READ, _root(status, version)), *health.pages(metrics_role=Role.READ)]
    if (why_not := handlers.why_not) is not None:
        pages.append(Page("/why-not", Role.READ, _answering(lambda request: why_not(_relation(request)))))
    if (why := handlers.why) is not None:
        pages.append(
            Page(
                "/why",
                Role.READ,
                _answering(lambda request: why(_relation(request), _given(request, "row"))),
            )
        )
    if (snapshot := handlers.snapshot) is not None:
        pages.append(Page("/snapshot", Role.OPERATE, _answering(lambda _request: snapshot()), "POST"))
    if (contents := handlers.contents) is not None:
        pages.append(
            Page(
                "/table",
                Role.READ,
                _answering(lambda request: contents(_relation(request), _limit(request))),
            )
        )
    if handlers.query is not None:
        pages.append(Page("/query", Role.READ, query_handler(handlers.query)))
    return _application(pages, access or Access())


def build_monitoring_app(
    status: Status, metrics: Metrics, clock: Clock, *, beat_limit_s: float = BEAT_LIMIT_S
) -> Starlette:
    """Return the ASGI application of the monitoring listener: health, readiness and metrics, nothing else."""
    health = _Health(status, metrics, clock, beat_limit_s)
    return _application(health.pages(metrics_role=None), Access())


def _application(pages: Sequence[Page], access: Access) -> Starlette:
    return Starlette(routes=[page.route(access) for page in pages])


def _root(status: Status, version: str) -> AsyncHandler:
    async def root(_request: Request) -> Response:
        """Return what runs here and its positions."""
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
                "last_commit_ms": now.last_commit_ms,
                "positions": _positions(now),
                "this_run": None if now.summary is None else dict(now.summary.fields()),
            }
        )

    return root


class _Health:
    """Handlers for probes and Prometheus. All are quick and never wait, so they run on the server's own loop."""

    def __init__(self, status: Status, metrics: Metrics, clock: Clock, beat_limit_s: float) -> None:
        self._status = status
        self._metrics = metrics
        self._clock = clock
        self._beat_limit_s = beat_limit_s

    def pages(self, *, metrics_role: Role | None) -> list[Page]:
        """Return the pages that both listeners have: probes carry no token."""
        return [
            Page("/healthz", None, self.healthz),
            Page("/readyz", None, self.readyz),
            Page("/metrics", metrics_role, self.metrics_text),
        ]

    async def healthz(self, _request: Request) -> Response:
        """Answer 200 while the main loop beats, else 503 with how long it has not."""
        silent_s = self._clock.monotonic() - self._status.status().beat
        if silent_s > self._beat_limit_s:
            reason = f"the main loop has not completed a turn for {silent_s:.0f} s"
            return JSONResponse({"status": "hanging", "reason": reason}, status_code=503)
        return JSONResponse({"status": "alive"})

    async def readyz(self, _request: Request) -> Response:
        """Answer 200 when recovered and connected, else 503 with what is still awaited."""
        now = self._status.status()
        if now.phase == "running":
            return JSONResponse({"status": "ready"})
        reason = now.waits_for if now.waits_for is not None else f"the pipeline is {now.phase}"
        return JSONResponse(
            {"status": now.phase, "reason": reason, "since_ms": now.since_ms}, status_code=503
        )

    async def metrics_text(self, request: Request) -> Response:
        """Return every metric in the format that the scraper asks for."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._metrics.registry), headers={"content-type": content_type})


class ParameterError(StatementError):
    """A parameter of a request is missing or invalid."""


def _given(request: Request, name: str) -> str:
    text = request.query_params.get(name, "")
    if not text:
        raise ParameterError(f'parameter "{name}" is missing', hint=f"Add {name}=.. to the address.")
    return text


def _relation(request: Request) -> str:
    return _given(request, "relation")


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(TABLE_ROWS))
    # The length first: Python refuses to read thousands of digits.
    if (
        not (text.isascii() and text.isdigit())
        or len(text) > len(str(MOST_TABLE_ROWS))
        or int(text) > MOST_TABLE_ROWS
    ):
        raise ParameterError(
            f'invalid number of rows in parameter "limit": "{text[:40]}"',
            hint=f"It is a whole number of 0 to {MOST_TABLE_ROWS}.",
        )
    return int(text)


def _answering(question: Callable[[Request], JsonAnswer]) -> Callable[[Request], Response]:
    """Return the handler of a question. It waits for the main loop, so it runs in a thread of its own."""

    def handler(request: Request) -> Response:
        try:
            return JSONResponse(question(request).to_json())
        except ParameterError as error:
            return _refused(error, 400)
        except StatementError as error:
            return _refused(error, 404)
        except TransientError as error:
            return _refused(error, 503)

    return handler


def _refused(error: RowtideError, code: int) -> Response:
    return JSONResponse({"error": error.message, "hint": error.hint}, status_code=code)


def _positions(now: PipelineStatus) -> Sequence[dict[str, str | int | None]]:
    return [
        {
            "relation": at.relation,
            "topic": at.topic,
            "partition": at.partition,
            "next_offset": at.next_offset,
            "end_offset": at.end_offset,
            "bound": at.bound,
        }
        for at in now.positions
    ]
