"""``rowtide apply``: a changed pipeline continues at the committed positions."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import Annotated

import typer

from rowtide.app import context_of
from rowtide.cli.errors import FAILED, shown_to_user
from rowtide.cli.operate.plan import show_change
from rowtide.cli.operate.replay import comparison_as_json, range_of, show_comparison
from rowtide.cli.operate.what_ran import Was, what_ran
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, opened
from rowtide.errors import StatementError
from rowtide.runtime.change import applying
from rowtide.runtime.change.planned_change import change_from
from rowtide.runtime.change.switching import apply_at
from rowtide.runtime.inspect.replay import compare
from rowtide.runtime.pipeline import open_pipeline
from rowtide.runtime.recovery.begin import parse_time
from rowtide.runtime.stopping import StopSignals

EXAMPLE = "Example: rowtide apply pipeline.sql --yes"


def apply(
    pipeline: PipelineFile,
    was: Was = None,
    config: ConfigFile = None,
    lose: Annotated[
        bool, typer.Option("--lose", help="Apply the change although state is lost; `rowtide plan` lists it.")
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", help="Switch at this rowtime (UTC): the old file processes rows up to it.", metavar="TIME"
        ),
    ] = None,
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="Only compare the rows of the changed file with the committed rows."),
    ] = False,
    begin: Annotated[
        str | None,
        typer.Option("--from", help="With --shadow: rows of this time or later, UTC.", metavar="TIME"),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="With --shadow: rows before this time, UTC.", metavar="TIME")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say whether the change can be applied; change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as JSON.")] = False,
) -> None:
    """Apply a changed pipeline file in one commit, keeping the state of unchanged operators.

    `rowtide plan` shows which operators keep their state. New operators start empty and see rows after
    the switch. The switch happens at the committed positions. It supersedes a running service, which
    leaves with exit code 3 within a few seconds, also while its topics are quiet; start the new file
    afterwards with `rowtide run`. Earlier commits cannot be replayed any more, so the state of this commit
    or a later one is needed from then on.

    With --at, the switch happens at a rowtime, in one commit: the old file processes rows up to it, the
    new file later rows. Nothing is committed until that rowtime is reached, so run the command shortly
    before it. If the rowtime ends a period, the new file owns the next period as a whole.

    With --shadow, nothing is written and a running service continues. The changed file runs over the log,
    up to the committed positions, and the command shows the rows that would differ. Tables that do not
    exist yet count as empty.

    With --dry-run, nothing is written and a running service continues. The command compares the two files
    and refuses what it would refuse because of them, such as state that is lost.

    Exit code 0: applied, or the plan is unchanged; with --shadow: no row differs. 1: not confirmed; with
    --shadow: rows differ. 2: the change cannot be applied; nothing has changed. 3: a dependency is down,
    or another process took the pipeline.
    """
    with shown_to_user(), opened(pipeline, config) as (found, settings):
        # A change that was applied before is not applied again, although --was differs from what is committed.
        if not change_from(found).changes:
            typer.echo("Nothing has changed.")
            return
        ran = what_ran(found, settings, pipeline, was)
        older, change = ran.plan, change_from(found, ran.plan, ran.name)
        if not as_json:
            show_change(found.name, change)
        if shadow:
            result = compare(context_of(found, settings), range_of(begin, end), older=older)
            tables = {table.name: table for table in found.plan.foreign_tables}
            if as_json:
                typer.echo(json.dumps(comparison_as_json(result, tables), indent=2))
            else:
                show_comparison(result, tables)
            if result.count:
                raise typer.Exit(FAILED)
            return
        if begin is not None or end is not None:
            raise StatementError("--from and --to restrict what --shadow compares", hint="Add --shadow.")
        at_ms = None if at is None else parse_time(at)
        lost = [] if lose else list(change.lost or ())
        # Without a snapshot, or since it was taken, a state may have rows or none: ``apply`` looks before it commits.
        if any(each.rows or (each.rows is None and dry_run) for each in lost) or (lost and at_ms is not None):
            raise applying.state_would_be_lost(each.relation for each in lost)
        if dry_run:
            applying.refuse_changed_streams(older, found.plan)
            typer.echo("The change can be applied. Nothing has been changed.")
            return
        if not yes:
            if not sys.stdin.isatty():
                raise StatementError(
                    "the standard input is not a terminal, so the change cannot be confirmed",
                    hint="Add --yes.",
                )
            if not typer.confirm("Apply it?"):
                raise typer.Exit(FAILED)
        url = settings.checkpoint.url
        with open_pipeline(older, found.name, None if url is None else url.reveal(), text=ran.text) as before:
            equipped = (context_of(before, settings), context_of(found, settings))
            if at_ms is None:
                empty = frozenset((each.relation, each.operator) for each in lost)
                done = applying.apply(*equipped, empty=empty)
            else:
                with StopSignals() as signals:
                    done = apply_at(replace(equipped[0], stopping=signals.is_set), equipped[1], at_ms)
        if as_json:
            typer.echo(json.dumps(asdict(done), indent=2))
        else:
            typer.echo(f"Applied with commit {done.commits}. `rowtide run` continues from there.")
