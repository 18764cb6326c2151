"""``rowtide apply``: a changed pipeline goes on where the one before it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rowtide.cli.pipeline_file import ConfigFile, PipelineFile

EXAMPLE = "Example: rowtide apply pipeline.sql --was pipeline-as-it-runs.sql --yes"


def apply(
    pipeline: PipelineFile,
    was: Annotated[Path, typer.Option("--was", help="The file as it ran.", metavar="OLD.sql")],
    config: ConfigFile = None,
    lose: Annotated[
        bool, typer.Option("--lose", help="Apply it although state is lost: `rowtide plan` says which.")
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", help="Switch at this rowtime, UTC: rows up to it are the old file's.", metavar="TIME"
        ),
    ] = None,
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="Only compare what it would have given with what is committed."),
    ] = False,
    begin: Annotated[
        str | None,
        typer.Option("--from", help="With --shadow: rows of this time or later, UTC.", metavar="TIME"),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="With --shadow: rows before this time, UTC.", metavar="TIME")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write what was done as JSON.")] = False,
) -> None:
    """Let a changed pipeline file go on where the one that ran stands, in one commit.

    What `rowtide plan` shows as going on keeps its state; what begins empty sees rows from there on. The
    switch is at the committed positions; a running service is superseded and leaves with exit code 3.
    Start the new file afterwards with `rowtide run`. What came before the switch cannot be replayed any
    more, so the state of this commit or a later one is needed from then on.

    With --at the switch is at a rowtime: both files read on from the committed positions, rows up to it
    are the old file's and later ones the new one's, all in one commit. That waits until the rowtime is
    passed, and commits nothing meanwhile: so say it shortly before. At the end of a period the next one
    is the new file's as a whole.

    With --shadow nothing is written and a running service goes on: the changed file is run over the log,
    up to the committed positions, and the rows in which its tables differ from those that are there are
    shown. Tables that it would create count as empty.

    Exit code 0: done, or nothing has changed; with --shadow: no row differs. 1: you said no; with
    --shadow: rows differ. 2: it cannot be applied; nothing has changed. 3: a dependency is down, or
    another process took the pipeline.
    """
    import sys
    from dataclasses import asdict, replace

    from rowtide.cli.errors import FAILED, read_text, shown_to_user
    from rowtide.cli.pipeline_file import opened
    from rowtide.cli.plan import show_change
    from rowtide.cli.replay import comparison_as_json, range_of, show_comparison
    from rowtide.composition import context_of
    from rowtide.errors import StatementError
    from rowtide.runtime.change import applying
    from rowtide.runtime.change.planned_change import change_from
    from rowtide.runtime.change.switching import apply_at
    from rowtide.runtime.configured import configured
    from rowtide.runtime.live.stopping import StopSignals
    from rowtide.runtime.pipeline import open_pipeline
    from rowtide.runtime.recovery.begin import parse_time
    from rowtide.runtime.recovery.replay import compare
    from rowtide.sql.pipeline import plan_pipeline

    with shown_to_user(), opened(pipeline, config) as (found, settings):
        older = configured(plan_pipeline(read_text(was), file=str(was)), settings)
        change = change_from(found, older, str(was))
        if not change.changes:
            typer.echo("Nothing has changed.")
            return
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
            raise StatementError("--from and --to restrict what --shadow compares", hint="Say --shadow.")
        at_ms = None if at is None else parse_time(at)
        lost = [] if lose else list(change.lost or ())
        # Without rows in the snapshot there may be none by now, too: applying looks before it commits.
        if any(each.rows != 0 for each in lost) or (lost and at_ms is not None):
            raise applying.state_would_be_lost(each.relation for each in lost)
        if not yes:
            if not sys.stdin.isatty():
                raise StatementError("no one can be asked whether to apply it", hint="Say --yes.")
            if not typer.confirm("Apply it?"):
                raise typer.Exit(FAILED)
        url = settings.checkpoint.url
        with open_pipeline(older, found.name, None if url is None else url.reveal()) as before:
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
            typer.echo(f"Applied with commit {done.commits}. `rowtide run` goes on from there.")
