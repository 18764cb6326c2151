"""``rowtide plan``: what a changed pipeline would keep, restart and lose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.errors import FAILED, shown_to_user
from rowtide.cli.operate.what_ran import Was, what_ran
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, opened
from rowtide.errors import StatementError
from rowtide.runtime.change.planned_change import change_from

if TYPE_CHECKING:
    from rowtide.runtime.change.planned_change import OperatorFate, PlannedChange

EXAMPLE = "Example: rowtide plan pipeline.sql --config config.toml"


def plan(
    pipeline: PipelineFile,
    config: ConfigFile = None,
    was: Was = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write it as JSON.")] = False,
) -> None:
    """Compare a pipeline file with the committed plan of the pipeline; change nothing.

    Shows which pumps, streams and tables differ, which operators keep their state, which start empty and which state
    is lost. `rowtide apply` applies the change.

    Exit code 0: nothing differs, or nothing is committed. 1: the plan has changed. 2: a file is refused,
    --was is not the file that ran, or a table does not fit. 3: the database is down.
    """
    with shown_to_user(), opened(pipeline, config) as (found, settings):
        record = found.ledger.read()
        if record is None or not record.has_begun:
            nothing = json.dumps({"committed": False, "changes": []}, indent=2)
            text = f'Pipeline "{found.name}" has committed nothing: everything restarts.'
            typer.echo(nothing if as_json else text)
            return
        change, unknown = change_from(found), None
        if change.changes or was is not None:
            try:
                ran = what_ran(found, settings, pipeline, was)
                change = change_from(found, ran.plan, ran.name)
            except StatementError as error:
                if was is not None:
                    raise
                unknown = error
        if as_json:
            typer.echo(json.dumps({"committed": True, **change.to_json()}, indent=2))
        else:
            show_change(found.name, change)
            if unknown is not None:
                typer.echo(
                    f"What happens to the state is not known: {unknown.message}. {unknown.hint or ''}".rstrip()
                )
            if change.changes:
                typer.echo(
                    "Apply the change with `rowtide apply`, or run the file under another pipeline name with "
                    "tables of its own."
                )
    if change.changes:
        raise typer.Exit(FAILED)


def show_change(name: str, change: PlannedChange) -> None:
    """Write the effects of a change."""
    if not change.changes:
        typer.echo(f'The plan is unchanged: `rowtide run` continues pipeline "{name}".')
        return
    typer.echo(f'The plan of pipeline "{name}" has changed:')
    for each in change.changes:
        typer.echo(f"  {each}")
    _list("keeps its state:", change.kept)
    _list("begins empty:", change.begins_empty)
    _list("state that is lost:", change.lost)
    for title, names in (
        ("tables that would be created:", change.tables_created),
        ("tables that would stay as they are:", change.tables_left),
        ("streams that would be read from their beginning:", change.streams_begun),
        ("streams that would not be read any more:", change.streams_left),
    ):
        if names:
            typer.echo(f"{title} {', '.join(names)}")


def _list(title: str, fates: tuple[OperatorFate, ...] | None) -> None:
    if fates:
        typer.echo(title)
    for each in fates or ():
        rows = "" if each.rows is None else f"{each.rows:,} rows in the newest snapshot"
        typer.echo(f"  {each.relation:<24} {each.operator:<16} {rows if title[0] != 'b' else ''}".rstrip())
