"""``rowtide execute``: change rows of engine tables of a running pipeline."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.checkpoint.statement_log import StatementOutcome
from rowtide.cli.errors import FAILED, USAGE, read_text, shown_to_user
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, opened
from rowtide.clock import SystemClock
from rowtide.errors import StatementError
from rowtide.rowtime.text import time_text
from rowtide.runtime.inspect.sending import StatementAnswer, outcome_of
from rowtide.runtime.recovery.begin import refuse_another_plan
from rowtide.runtime.recovery.digest import plan_digests
from rowtide.sql.pipeline import SqlSession

if TYPE_CHECKING:
    from rowtide.checkpoint.statement_log import SentText
    from rowtide.runtime.pipeline import Pipeline

EXAMPLE = """Example: rowtide execute pipeline.sql "UPDATE rates SET rate = 2 WHERE currency = 'EUR'\""""
PATIENCE_S = 30.0
MOST_LISTED = 100
SHOWN_TEXT = 80


def execute(
    pipeline: PipelineFile,
    statements: Annotated[
        str | None,
        typer.Argument(
            help="INSERT .. VALUES, UPDATE, DELETE, TRUNCATE and MERGE, separated by semicolons; by default read "
            "from the standard input.",
            metavar="[STATEMENTS]",
            show_default=False,
        ),
    ] = None,
    config: ConfigFile = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="File with the statements.", metavar="FILE")
    ] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", help="Seconds to wait until the service has executed them.", min=0)
    ] = PATIENCE_S,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Queue the statements and return at once.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List the last statements with their outcomes; send nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON.")] = False,
) -> None:
    """Change rows of engine tables while the pipeline runs, exactly once.

    The statements are queued in the pipeline's database, and the running service executes them, or the next one
    that starts. They apply together, or not at all. Tables that pumps or topics fill cannot be changed.

    Exit code 0: executed, or queued with --no-wait. 1: not executed within --wait; they stay queued. 2: they
    are refused, and nothing has changed. 3: the database is down.
    """
    with shown_to_user(), opened(pipeline, config) as (found, _):
        if listed:
            _list(found, as_json)
            return
        text = _text(statements, file)
        session = SqlSession()
        session.feed(read_text(pipeline), file=str(pipeline))
        session.sent(text)
        record = found.ledger.read()
        if record is not None and record.has_begun:
            refuse_another_plan(found.name, record, plan_digests(found.plan))
        log = found.ledger.statements()
        statement = log.send(text)
        sent = outcome_of(log, statement, SystemClock(), 0.0 if no_wait else wait_s)
        if as_json:
            typer.echo(json.dumps(StatementAnswer(sent).to_json(), indent=2))
        else:
            _show(sent, no_wait=no_wait)
    if sent.outcome is StatementOutcome.REFUSED:
        raise typer.Exit(USAGE)
    if sent.outcome is StatementOutcome.QUEUED and not no_wait:
        raise typer.Exit(FAILED)


def _text(given: str | None, file: Path | None) -> str:
    """Return the statements, from one of the places that they can come from."""
    if given is not None and file is not None:
        raise StatementError(
            "statements are given both as an argument and by --file", hint="Leave out one of them."
        )
    if file is not None:
        return read_text(file)
    return sys.stdin.read() if given is None else given


def _show(sent: SentText, *, no_wait: bool) -> None:
    if sent.outcome is StatementOutcome.REFUSED:
        typer.echo(sent.error, err=True)
        return
    if sent.outcome is StatementOutcome.QUEUED:
        typer.echo(f"Statement {sent.statement_id} is queued.")
        if not no_wait:
            typer.echo(
                "No service has executed it yet. The running service, or the next one, does; "
                "`rowtide execute PIPELINE.sql --list` shows the outcome.",
                err=True,
            )
        return
    for each in (sent.did or "").split("\n"):
        typer.echo(each)
    since = "from the beginning" if sent.rowtime is None else f"from rowtime {time_text(sent.rowtime)}"
    typer.echo(f"Statement {sent.statement_id} holds {since}.")


def _list(found: Pipeline, as_json: bool) -> None:
    newest = found.ledger.statements().newest(MOST_LISTED)
    if as_json:
        document = {"statements": [StatementAnswer(each).to_json() for each in newest]}
        typer.echo(json.dumps(document, indent=2))
        return
    for each in newest:
        at = time_text(each.sent_at_ms)
        text = " ".join(each.text.split())
        if each.outcome is StatementOutcome.APPLIED:
            since = "the beginning" if each.rowtime is None else time_text(each.rowtime)
            what = f"{each.rows} row{'' if each.rows == 1 else 's'} from {since}"
        else:
            what = "" if each.error is None else each.error.splitlines()[0]
        typer.echo(f"{each.statement_id:>6} {at} {each.outcome.value:<8} {what:<44} {text[:SHOWN_TEXT]}")
    if not newest:
        typer.echo("No statements were sent.")
