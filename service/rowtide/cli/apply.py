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
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write what was done as JSON.")] = False,
) -> None:
    """Let a changed pipeline file go on where the one that ran stands, in one commit.

    What `rowtide plan` shows as going on keeps its state; what begins empty sees rows from there on. The
    switch is at the committed positions; a running service is superseded and leaves with exit code 3.
    Start the new file afterwards with `rowtide run`. What came before the switch cannot be replayed any
    more, so the state of this commit or a later one is needed from then on.

    Exit code 0: done, or nothing has changed. 1: you said no. 2: it cannot be applied; nothing has
    changed. 3: a dependency is down, or another process took the pipeline.
    """
    import sys
    from dataclasses import asdict

    from rowtide.cli.errors import FAILED, read_text, shown_to_user
    from rowtide.cli.pipeline_file import equipment_of, opened
    from rowtide.cli.plan import show_change
    from rowtide.errors import StatementError
    from rowtide.runtime import applying
    from rowtide.runtime.configured import configured
    from rowtide.runtime.logs import set_up_logs
    from rowtide.runtime.pipeline import open_pipeline
    from rowtide.runtime.planned_change import change_from
    from rowtide.sql.pipeline import plan_pipeline

    with shown_to_user(), opened(pipeline, config) as (found, settings):
        older = configured(plan_pipeline(read_text(was), file=str(was)), settings)
        change = change_from(found, older, str(was))
        if not change.changes:
            typer.echo("Nothing has changed.")
            return
        if not as_json:
            show_change(found.name, change)
        if change.lost and not lose:
            lost = ", ".join(sorted({each.relation for each in change.lost}))
            raise StatementError(
                f"the state of {lost} would be lost", hint="Say --lose, or run the file under another name."
            )
        if not yes:
            if not sys.stdin.isatty():
                raise StatementError("nobody can be asked whether to apply it", hint="Say --yes.")
            if not typer.confirm("Apply it?"):
                raise typer.Exit(FAILED)
        set_up_logs(settings.log)
        url = settings.checkpoint.url
        with open_pipeline(older, found.name, None if url is None else url.reveal()) as before:
            done = applying.apply(equipment_of(before, settings), equipment_of(found, settings))
        if as_json:
            typer.echo(json.dumps(asdict(done), indent=2))
        else:
            typer.echo(f"Applied with commit {done.commits}. `rowtide run` goes on from there.")
