"""``rowtide run``: run a pipeline as a service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from rowtide.app import RunOptions, build_process, context_of, query_limits
from rowtide.cli.errors import read_text, shown_to_user
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, opened
from rowtide.cli.run.progress_lines import progress_lines, wants_lines
from rowtide.cli.run.spark_options import (
    MASTER,
    Conf,
    Master,
    Parts,
    PyFiles,
    SparkOrder,
    Staging,
    Ui,
    interval_of,
)
from rowtide.cli.version import program_version
from rowtide.errors import StatementError, TransientError
from rowtide.runtime.query.query_work import QueryLimits, QueryText
from rowtide.runtime.recovery.begin import parse_begin
from rowtide.runtime.retry import StoppedError
from rowtide.runtime.state.following import QueryProcess, StartedQuery, queries_prepared_soon, started
from rowtide.runtime.stopping import BATCH_LIMIT_S, LIMIT_S, StopSignals
from rowtide.sql.pipeline import SqlSession

if TYPE_CHECKING:
    from rowtide.config.settings import Settings
    from rowtide.runtime.inspect.why_answer import ExplanationAnswer
    from rowtide.runtime.pipeline import Pipeline
    from rowtide.runtime.requests import Requests
    from rowtide.runtime.service import Runs
    from rowtide.sql.sent_statements import SentStatements
    from rowtide.web.handlers import QueryRunner


class ServiceRunner(StrEnum):
    """What processes the messages."""

    LIVE = "live"
    SPARK = "spark"


STOP_S = {ServiceRunner.LIVE: LIMIT_S, ServiceRunner.SPARK: BATCH_LIMIT_S}
"""How long a process may take to stop."""

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
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="Run as one of several replicas: follow the one that leads, and take over when it shows no sign of "
            "life for standby.takeover_ms. Also by the setting standby.enabled.",
        ),
    ] = False,
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end", help="Stop when every partition is read to the end that it has at the start."
        ),
    ] = False,
    runner: Annotated[
        ServiceRunner,
        typer.Option(
            help="What processes the messages: this process (live), or Spark in batches, for pipelines that one "
            "process is too small for. The options of Spark are only for it."
        ),
    ] = ServiceRunner.LIVE,
    trigger: Annotated[
        str | None,
        typer.Option(
            help="On Spark: the least time from the beginning of a batch to that of the next, such as '1 SECOND'; by "
            "default commit.interval_ms.",
            metavar="INTERVAL",
        ),
    ] = None,
    batch_messages: Annotated[
        int | None,
        typer.Option(
            "--batch-messages",
            help="On Spark: the greatest number of messages of a batch; by default 1 million for each part.",
            metavar="N",
            min=1,
        ),
    ] = None,
    master: Master = MASTER,
    staging: Staging = None,
    parts: Parts = None,
    conf: Conf = None,
    py_files: PyFiles = None,
    ui: Ui = False,
) -> None:
    """Run a pipeline until it is stopped: read its topics and commit its rows exactly once.

    With --runner spark it runs in batches on Spark, and each batch is one commit. Processes of both runners take a
    pipeline over from each other.

    On a terminal, it writes a line each 10 seconds: what it has done, and what it waits for.

    Exit code 0: stopped by SIGTERM or SIGINT, or at the end. 1: an invariant broke; nothing wrong was
    committed. 2: the start is refused. 3: a dependency is down, or another process took the pipeline, unless
    this one is a standby: then it follows.
    """
    with shown_to_user(), opened(pipeline, config) as (found, settings):
        where, signals = parse_begin(begin), StopSignals(STOP_S[runner])
        on_spark = SparkOrder(
            master,
            staging,
            parts,
            tuple(conf or ()),
            tuple(py_files or ()),
            ui=ui,
            trigger_ms=interval_of("--trigger", trigger, "5 SECOND"),
            batch_messages=batch_messages,
        )
        if until_end and (standby or settings.standby.enabled):
            raise StatementError(
                "a standby does not stop at the end: another replica would take over",
                hint="Leave out --until-end, or --standby and standby.enabled.",
            )
        if runner is ServiceRunner.SPARK and (standby or settings.standby.enabled):
            raise StatementError(
                "a standby follows in one process, and the pipeline runs on Spark",
                hint="Leave out --standby and standby.enabled, and let something start the process again when it "
                "ends: it continues after its last commit.",
            )
        with _runs(runner, found, settings, on_spark) as runs:
            process = build_process(
                found,
                settings,
                RunOptions(
                    wait=not no_wait,
                    recreate_tables=recreate_tables,
                    listen=listen,
                    monitoring_listen=monitoring_listen,
                    standby=standby,
                    runs=runs,
                    statements=None if runner is ServiceRunner.SPARK else statements_of(pipeline),
                ),
                version=program_version(),
                stopping=signals.is_set,
                why=why_of(pipeline, config),
                query_of=lambda requests: query_of(pipeline, requests, query_limits(settings)),
            )
            service = process.service
            with process.serving() as urls:
                structlog.get_logger("rowtide").info("listening", pipeline=found.name, **urls)
                soon = nullcontext() if until_end else queries_prepared_soon()
                lines = progress_lines(service) if wants_lines(settings.log) else nullcontext()
                # Stopped while a dependency is down: the next start reads again what was not committed.
                with soon, lines, signals, suppress(StoppedError):
                    service.run(where, until_end=until_end)
        if (summary := service.board.status().summary) is not None:
            typer.echo("\n".join(summary.lines(str(pipeline))))


@contextmanager
def _runs(
    runner: ServiceRunner, pipeline: Pipeline, settings: Settings, on_spark: SparkOrder
) -> Iterator[Runs | None]:
    """Yield what runs the pipeline; None: this process.

    Raises:
      StatementError: options of Spark are given, and the runner is another; or it does not run the pipeline.
    """
    if runner is ServiceRunner.SPARK:
        from rowtide.cli.run.run_on_spark import runs_on_spark

        with runs_on_spark(pipeline, settings, on_spark) as runs:
            yield runs
    elif on_spark != SparkOrder():
        raise StatementError(
            "options of Spark are given, and the runner is not Spark", hint="Add --runner spark."
        )
    else:
        yield None


def why_of(file: Path, config: Path | None) -> Callable[[str, str], ExplanationAnswer]:
    """Return the function that explains a row; it opens the pipeline's log and database itself.

    The function takes a relation's catalog name and ROW. It raises StatementError if the relation or row
    does not exist or ``limits.why_s`` is over, and TransientError while another row is being explained.
    """
    busy = threading.Lock()

    def answer(relation: str, row: str) -> ExplanationAnswer:
        from rowtide.cli.run.asked_row import asked_row
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


def statements_of(file: Path) -> Callable[[str], SentStatements]:
    """Return the function that resolves statements over the tables of a pipeline file as it is now."""
    statements = read_text(file)

    @cache
    def session() -> SqlSession:
        planned = SqlSession()
        planned.feed(statements, file=str(file))
        return planned

    return lambda text: session().sent(text)


def query_of(file: Path, requests: Requests, limits: QueryLimits | None = None) -> QueryRunner:
    """Return the function that plans a query over the pipeline's relations and starts it."""
    statements = read_text(file)

    def query(text: str, once: bool) -> StartedQuery:
        process = QueryProcess(limits or QueryLimits())
        try:
            planned = process.plan(QueryText(statements, str(file), text, once))
            return started(planned, requests.follow(planned), process)
        except BaseException:
            process.close()
            raise

    return query
