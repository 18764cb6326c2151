"""``rowtide run``: run a pipeline as a service."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.pipeline_file import ConfigFile, PipelineFile

if TYPE_CHECKING:
    from rowtide.config import Settings
    from rowtide.plan.plan import Plan
    from rowtide.runtime.inspect.requests import Requests
    from rowtide.runtime.live.following import Follower
    from rowtide.runtime.live.live import Pace
    from rowtide.sql.pipeline import SqlSession
    from rowtide.web.query import QueryRunner

EXAMPLE = "Example: rowtide run pipeline.sql --config config.toml --from '2026-01-31 12:00:00'"


def run(
    pipeline: PipelineFile,
    config: ConfigFile = None,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            help="Where to begin while nothing is committed: earliest, or a message timestamp, UTC. "
            "watermark goes on from the committed positions, and from the earliest messages where there "
            "are none.",
            metavar="watermark|earliest|TIME",
        ),
    ] = "watermark",
    listen: Annotated[
        str | None,
        typer.Option(
            help="Host and port of health, metrics and status pages, in place of service.listen; with port 0 "
            "the log names the port that was free.",
            metavar="HOST:PORT",
        ),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Stop with exit code 3 when a broker or database is down.")
    ] = False,
    recreate_tables: Annotated[
        bool,
        typer.Option(
            "--recreate-tables",
            help="Create output tables that are missing although positions are committed: empty, without the "
            "rows that were committed before.",
        ),
    ] = False,
    until_end: Annotated[
        bool,
        typer.Option("--until-end", help="Stop when every partition is read to the end it has at the start."),
    ] = False,
) -> None:
    """Run a pipeline: read its topics, and commit its rows exactly once until told to stop.

    Exit code 0: stopped by SIGTERM or SIGINT, or at the end. 1: an invariant broke; nothing wrong was
    committed. 2: the start is refused. 3: a dependency is down, or another process took the pipeline.
    """
    import structlog

    from rowtide.cli.asked_row import why_of
    from rowtide.cli.errors import shown_to_user
    from rowtide.cli.pipeline_file import context_of, opened
    from rowtide.cli.version import program_version
    from rowtide.clock import SystemClock
    from rowtide.metrics import Metrics
    from rowtide.runtime.arrow_alone import leave_pandas_out
    from rowtide.runtime.commit.retry import StoppedError
    from rowtide.runtime.ingest.intake import POLL_MESSAGES
    from rowtide.runtime.live.observing import MetricsObserver
    from rowtide.runtime.live.stopping import StopSignals
    from rowtide.runtime.recovery.begin import parse_begin
    from rowtide.runtime.service import Service
    from rowtide.web import WebServer, build_app

    with shown_to_user(), opened(pipeline, config) as (found, settings):
        where = parse_begin(begin)
        if not _has_models(found.plan):
            leave_pandas_out()
        clock, metrics, signals = SystemClock(), Metrics(), StopSignals()
        service = Service(
            replace(
                context_of(found, settings),
                clock=clock,
                pace=_pace(settings),
                stopping=signals.is_set,
                wait=not no_wait,
                recreate_tables=recreate_tables,
                observer=MetricsObserver(metrics, clock, program_version()),
                poll_messages=min(POLL_MESSAGES, settings.commit.max_rows),
                queue_messages=settings.limits.queue_messages,
                queue_bytes=settings.limits.queue_bytes,
            )
        )
        pages = build_app(
            service.board,
            metrics,
            clock,
            version=program_version(),
            why_not=service.requests.why_not,
            why=why_of(pipeline, config),
            snapshot=service.requests.snapshot,
            contents=service.requests.contents,
            query=query_of(pipeline, service.requests),
        )
        web = WebServer(pages, settings.service.listen if listen is None else listen)
        web.start()
        structlog.get_logger("rowtide").info("listening", pipeline=found.name, url=web.url)
        try:
            # Told to stop while something is down: what was not committed is read again.
            with signals, suppress(StoppedError):
                service.run(where, until_end=until_end)
        finally:
            web.stop()
        if (summary := service.board.status().summary) is not None:
            typer.echo("\n".join(summary.lines(str(pipeline))))


def query_of(file: Path, requests: Requests) -> QueryRunner:
    """Return what plans a query over the pipeline's relations, as they are now, and lets it look on."""
    from rowtide.cli.errors import read_text

    statements = read_text(file)

    @cache
    def session() -> SqlSession:
        from rowtide.sql.pipeline import SqlSession

        made = SqlSession()
        made.feed(statements, file=str(file))
        return made

    def query(text: str, once: bool) -> tuple[Follower, bool, tuple[bool, ...]]:
        listing = session().listing(text)
        if not once:
            listing = replace(listing, node=session().query(text), order=())
        return requests.follow(listing.node, once=once and listing.changes), listing.changes, listing.order

    return query


def _has_models(plan: Plan) -> bool:
    """Return whether the process runs code of others."""
    from rowtide.plan.nodes import Model, nodes_below

    return any(isinstance(each, Model) for pump in plan.pumps for each in nodes_below(pump.node))


def _pace(settings: Settings) -> Pace:
    from rowtide.runtime.live.live import Pace

    return Pace(
        commit_interval_ms=settings.commit.interval_ms,
        commit_max_rows=settings.commit.max_rows,
        snapshot_rows=settings.checkpoint.snapshot_rows or None,
        snapshot_interval_s=settings.checkpoint.snapshot_interval_s or None,
        commit_max_bytes=settings.commit.max_bytes,
        first_rows_at_once=True,
    )
