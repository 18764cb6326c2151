"""``rowtide run``: run a pipeline as a service."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from rowtide.app import RunOptions, build_process, context_of, query_limits
from rowtide.cli.errors import read_text, shown_to_user
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, opened
from rowtide.cli.version import program_version
from rowtide.errors import TransientError
from rowtide.runtime.commit.retry import StoppedError
from rowtide.runtime.live.stopping import StopSignals
from rowtide.runtime.query.following import Follower, QueryProcess
from rowtide.runtime.query.query_work import QueryLimits, QueryText
from rowtide.runtime.recovery.begin import parse_begin

if TYPE_CHECKING:
    from rowtide.runtime.inspect.requests import Requests
    from rowtide.runtime.inspect.why_answer import RowExplanation
    from rowtide.web.query import QueryRunner

EXAMPLE = "Example: rowtide run pipeline.sql --config config.toml --from '2026-01-31 12:00:00'"


def run(
    pipeline: PipelineFile,
    config: ConfigFile = None,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            help="Where to start reading while nothing is committed: earliest, or a message timestamp (UTC). "
            "With watermark, continue from the committed positions, or from the earliest messages if there "
            "are none.",
            metavar="watermark|earliest|TIME",
        ),
    ] = "watermark",
    listen: Annotated[
        str | None,
        typer.Option(
            help="Host and port of the health, metrics and status pages, instead of service.listen. Port 0 takes "
            "a free port, which the log names.",
            metavar="HOST:PORT",
        ),
    ] = None,
    monitoring_listen: Annotated[
        str | None,
        typer.Option(
            help="Host and port of a second listener for /healthz, /readyz and /metrics alone, instead of "
            "service.monitoring_listen.",
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
            help="Create missing output tables although positions are committed. They are empty: they do not have "
            "the rows that were committed before.",
        ),
    ] = False,
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end", help="Stop when every partition is read to the end that it has at the start."
        ),
    ] = False,
) -> None:
    """Run a pipeline until it is stopped: read its topics and commit its rows exactly once.

    Exit code 0: stopped by SIGTERM or SIGINT, or at the end. 1: an invariant broke; nothing wrong was
    committed. 2: the start is refused. 3: a dependency is down, or another process took the pipeline.
    """
    with shown_to_user(), opened(pipeline, config) as (found, settings):
        where, signals = parse_begin(begin), StopSignals()
        process = build_process(
            found,
            settings,
            RunOptions(
                wait=not no_wait,
                recreate_tables=recreate_tables,
                listen=listen,
                monitoring_listen=monitoring_listen,
            ),
            version=program_version(),
            stopping=signals.is_set,
            why=why_of(pipeline, config),
            query_of=lambda requests: query_of(pipeline, requests, query_limits(settings)),
        )
        service = process.service
        with process.serving() as urls:
            structlog.get_logger("rowtide").info("listening", pipeline=found.name, **urls)
            # Stopped while a dependency is down: the next start reads again what was not committed.
            with signals, suppress(StoppedError):
                service.run(where, until_end=until_end)
        if (summary := service.board.status().summary) is not None:
            typer.echo("\n".join(summary.lines(str(pipeline))))


def why_of(file: Path, config: Path | None) -> Callable[[str, str], RowExplanation]:
    """Return the function that explains a row; it opens the pipeline's log and database itself.

    The function takes a relation's catalog name and ROW. It raises StatementError if the relation or row
    does not exist or ``limits.why_s`` is over, and TransientError while another row is being explained.
    """
    busy = threading.Lock()

    def answer(relation: str, row: str) -> RowExplanation:
        from rowtide.cli.asked_row import asked_row
        from rowtide.runtime.inspect.why import why

        if not busy.acquire(blocking=False):
            raise TransientError("another row is being explained", hint="Try again when it is done.")
        try:
            with opened(file, config) as (pipeline, settings):
                wanted = asked_row(pipeline.plan, relation, row)
                limit_s = settings.limits.why_s
                return why(context_of(pipeline, settings), relation, wanted, limit_s=limit_s)
        finally:
            busy.release()

    return answer


def query_of(file: Path, requests: Requests, limits: QueryLimits | None = None) -> QueryRunner:
    """Return the function that plans a query over the pipeline's relations and starts it."""
    statements = read_text(file)

    def query(text: str, once: bool) -> tuple[Follower, QueryProcess]:
        process = QueryProcess(limits or QueryLimits())
        try:
            planned = process.plan(QueryText(statements, str(file), text, once))
            return requests.follow(planned), process
        except BaseException:
            process.close()
            raise

    return query
