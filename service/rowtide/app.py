"""The composition root: puts a pipeline's context, its service and its pages together from the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rowtide.checkpoint.error_stream import ErrorFilter
from rowtide.clock import Clock, SystemClock
from rowtide.config.settings import Settings
from rowtide.errors import StatementError
from rowtide.metrics import Metrics
from rowtide.plan.nodes import Model, nodes_below
from rowtide.plan.plan import Plan
from rowtide.runtime.crashpoints import crash_points_from_environment
from rowtide.runtime.ingest.intake import POLL_MESSAGES
from rowtide.runtime.leadership.watch import Standby
from rowtide.runtime.live.observing import MetricsObserver
from rowtide.runtime.pace import Pace
from rowtide.runtime.pipeline import Pipeline
from rowtide.runtime.query.query_work import QueryLimits
from rowtide.runtime.requests import Requests
from rowtide.runtime.resubmitting.resubmit import ResubmittedRows, resubmit
from rowtide.runtime.runnable import parts_store
from rowtide.runtime.service import Runs, Service
from rowtide.runtime.state.context import PipelineContext
from rowtide.sql.sent_statements import SentStatements
from rowtide.startup import leave_pandas_out
from rowtide.web import Handlers, WebServer, build_app, build_monitoring_app
from rowtide.web.access import access_of
from rowtide.web.api.events import EventFeed
from rowtide.web.handlers import QueryRunner
from rowtide.web.tls import tls_of

if TYPE_CHECKING:
    from rowtide.runtime.inspect.why_answer import ExplanationAnswer
    from rowtide.web.oidc import OidcProvider


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What ``rowtide run`` says beside the settings."""

    wait: bool = True
    recreate_tables: bool = False
    listen: str | None = None
    monitoring_listen: str | None = None
    standby: bool = False
    runs: Runs | None = None
    """What runs the pipeline; None: this process."""
    statements: Callable[[str], SentStatements] | None = None
    """Resolves the names of statements that are sent to the pipeline."""


@dataclass(frozen=True, slots=True)
class PipelineProcess:
    """A service, the server of its API with its events, and that of its monitoring, if it has one.

    Nothing is started.
    """

    service: Service
    web: WebServer
    monitoring: WebServer | None
    events: EventFeed

    @contextmanager
    def serving(self) -> Iterator[dict[str, str]]:
        """Answer requests inside the block; yields the URLs, for the log.

        Raises:
          StatementError: an address cannot be bound; nothing is left open.
        """
        with ExitStack() as started:
            urls = {}
            for name, server in (("url", self.web), ("monitoring_url", self.monitoring)):
                if server is not None:
                    server.start()
                    started.callback(server.stop)
                    urls[name] = server.url
            # First of all at the end: the servers wait for open requests.
            started.callback(self.events.end)
            yield urls


def context_of(pipeline: Pipeline, settings: Settings) -> PipelineContext:
    """Return the context of a command that processes a pipeline once and then ends.

    Raises:
      StatementError: the store of state in parts that the settings name cannot be used.
    """
    url = settings.checkpoint.url
    return PipelineContext(
        name=pipeline.name,
        plan=pipeline.plan,
        sources=pipeline.sources,
        sinks=pipeline.sinks,
        database=pipeline.database,
        ledger=pipeline.ledger,
        text=pipeline.text,
        clock=SystemClock(),
        pace=Pace(0, 0, None, None),
        stopping=lambda: False,
        wait=False,
        crash_points=crash_points_from_environment(),
        max_held_rows=settings.limits.held_rows,
        max_held_bytes=settings.limits.held_bytes,
        standby=Standby(settings.standby.takeover_ms / 1000),
        parts=parts_store(pipeline.plan, settings.checkpoint.parts, None if url is None else url.reveal()),
    )


def build_process(
    pipeline: Pipeline,
    settings: Settings,
    options: RunOptions,
    *,
    version: str,
    stopping: Callable[[], bool],
    why: Callable[[str, str], ExplanationAnswer],
    query_of: Callable[[Requests], QueryRunner],
) -> PipelineProcess:
    """Build what ``rowtide run`` runs.

    ``stopping`` returns true once the process must stop. ``why`` explains a row; it opens the pipeline by itself.
    ``query_of`` returns the function that plans and starts a query of the API.

    Raises:
      StatementError: others can reach the API and there are no tokens, or the token file, the certificate
        or its key is invalid.
    """
    listen = settings.service.listen if options.listen is None else options.listen
    clock, metrics = SystemClock(), Metrics()
    access = access_of(
        listen,
        settings.service.tokens_file,
        allow_anonymous=settings.service.allow_anonymous,
        allowed_hosts=settings.service.allowed_hosts,
        oidc=_provider(settings, clock),
        clock=clock,
    )
    tls = tls_of(settings.service.tls_cert_file, settings.service.tls_key_file)
    if not _has_models(pipeline.plan):
        leave_pandas_out()
    service = Service(
        _running(context_of(pipeline, settings), settings, options, clock, metrics, version, stopping),
        options.runs,
    )
    events = EventFeed(service.progress, service.board, clock, pipeline.ledger.pending_errors)
    pages = build_app(
        service.board,
        metrics,
        clock,
        version=version,
        handlers=Handlers(
            why_not=service.requests.why_not,
            why=why,
            snapshot=service.requests.snapshot,
            contents=service.requests.contents,
            latest_rows=service.requests.latest_rows,
            query=query_of(service.requests),
            execute=service.requests.execute,
            progress=service.progress,
            events=events,
            errors=pipeline.ledger.errors,
            resubmit=resubmits(pipeline, service.requests),
            snapshots=pipeline.ledger.snapshots,
            decisions=pipeline.ledger.last_decisions,
            allow_export=settings.service.allow_export,
        ),
        access=access,
    )
    return PipelineProcess(
        service,
        WebServer(pages, listen, tls=tls),
        _monitoring(service, metrics, clock, settings, options),
        events,
    )


def resubmits(pipeline: Pipeline, requests: Requests) -> Callable[[ErrorFilter, bool, int], ResubmittedRows]:
    """Return the function of the API that resubmits error rows, see ``Handlers``."""

    def resubmitted(wanted: ErrorFilter, dry_run: bool, most: int) -> ResubmittedRows:
        requests.refuse_resubmission()
        return resubmit(pipeline, wanted, dry_run=dry_run, most=most)

    return resubmitted


def _provider(settings: Settings, clock: Clock) -> OidcProvider | None:
    """Return the OpenID Connect provider, if the settings name one.

    Raises:
      StatementError: its settings are incomplete or invalid, or PyJWT is not installed.
    """
    oidc = settings.oidc
    if oidc.issuer is None and oidc.audience is None:
        return None
    try:
        from rowtide.web.oidc import OidcProvider
    except ModuleNotFoundError as error:
        if error.name != "jwt":
            raise
        raise StatementError(
            "OpenID Connect requires the package PyJWT", hint="Run pip install 'rowtide[oidc]'."
        ) from error
    return OidcProvider(oidc, clock)


def _monitoring(
    service: Service, metrics: Metrics, clock: Clock, settings: Settings, options: RunOptions
) -> WebServer | None:
    """Return the server of the monitoring listener, if one is wanted."""
    listen = options.monitoring_listen or settings.service.monitoring_listen
    if listen is None:
        return None
    pages = build_monitoring_app(service.board, metrics, clock)
    return WebServer(pages, listen, setting="service.monitoring_listen")


def _running(
    context: PipelineContext,
    settings: Settings,
    options: RunOptions,
    clock: Clock,
    metrics: Metrics,
    version: str,
    stopping: Callable[[], bool],
) -> PipelineContext:
    """Return the context of a running service."""
    return replace(
        context,
        clock=clock,
        pace=_pace(settings),
        stopping=stopping,
        wait=options.wait,
        recreate_tables=options.recreate_tables,
        observer=MetricsObserver(metrics, clock, version),
        poll_messages=min(POLL_MESSAGES, settings.commit.max_rows),
        queue_messages=settings.limits.queue_messages,
        queue_bytes=settings.limits.queue_bytes,
        statements=options.statements,
        is_replica=_is_replica(settings, options),
    )


def _is_replica(settings: Settings, options: RunOptions) -> bool:
    """Return whether a process follows and takes over.

    Raises:
      StatementError: commits of a healthy leader would come too late to be signs of life.
    """
    if not (options.standby or settings.standby.enabled):
        return False
    least = 2 * settings.commit.interval_ms
    if settings.standby.takeover_ms < least:
        raise StatementError(
            f"standby.takeover_ms is {settings.standby.takeover_ms}, which is less than two commit intervals",
            hint=f"Set it to {least} or more, or set commit.interval_ms lower.",
        )
    return True


def query_limits(settings: Settings) -> QueryLimits:
    """Return what a query of the API may take."""
    limits = settings.limits
    return QueryLimits(limits.query_s, limits.query_bytes, limits.query_rows)


def _has_models(plan: Plan) -> bool:
    """Return whether the process runs code of others."""
    return any(isinstance(each, Model) for pump in plan.pumps for each in nodes_below(pump.node))


def _pace(settings: Settings) -> Pace:
    return Pace(
        commit_interval_ms=settings.commit.interval_ms,
        commit_max_rows=settings.commit.max_rows,
        snapshot_rows=settings.checkpoint.snapshot_rows or None,
        snapshot_interval_s=settings.checkpoint.snapshot_interval_s or None,
        snapshot_part_bytes=settings.checkpoint.snapshot_commit_kbytes * 1024,
        commit_max_bytes=settings.commit.max_bytes,
        first_rows_at_once=True,
    )
