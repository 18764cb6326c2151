"""``rowtide state``: what a pipeline keeps, and dropping it."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rowtide.checkpoint.parts.store import IN_DATABASE
from rowtide.cli.cells import cell
from rowtide.cli.errors import FAILED, shown_to_user
from rowtide.cli.help_format import App
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, PipelineFirst, opened
from rowtide.cli.service_url import (
    CaFile,
    RunningService,
    ServiceUrl,
    TokenFile,
    ask,
    path_of,
    pipeline_of,
    running_service,
)
from rowtide.errors import StatementError
from rowtide.plan.outputs import table_nodes
from rowtide.rows.types import Kind
from rowtide.rowtime.text import time_text
from rowtide.runtime.query.contents import state_entries, table_contents
from rowtide.runtime.recovery.begin import refuse_another_plan
from rowtide.runtime.recovery.digest import plan_digests
from rowtide.runtime.recovery.recovery import flow_at, usable
from rowtide.sql.catalog.written_names import relation_name

if TYPE_CHECKING:
    from rowtide.runtime.pipeline import Pipeline

app = App(
    name="state",
    cls=PipelineFirst,
    no_args_is_help=True,
    help="Show the stored state of a pipeline, or drop it.",
)

PAGE_ROWS = 10_000
"""The rows of an answer of a service."""
AsJson = Annotated[bool, typer.Option("--json", help="Write it as JSON.")]


@app.command("list", epilog="Example: rowtide state list pipeline.sql")
def list_state(pipeline: PipelineFile, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List the stored snapshots, and the state of each operator in the newest one.

    Exit code 0: listed. 1: nothing is stored. 3: the database is down.
    """
    with shown_to_user(), opened(pipeline, config) as (found, _):
        snapshots = found.ledger.snapshots()
        newest = found.ledger.newest_snapshot() if snapshots else None
        entries = [] if newest is None else state_entries(newest)
        if as_json:
            document = {
                "pipeline": found.name,
                "snapshots": [asdict(each) for each in snapshots],
                "operators": [asdict(each) for each in entries],
            }
            typer.echo(json.dumps(document, indent=2))
        elif not snapshots:
            typer.echo(f'Pipeline "{found.name}" has stored no snapshot.')
        else:
            for each in snapshots:
                typer.echo(
                    f"snapshot {each.snapshot_id}: commit {each.commits}, epoch {each.epoch}, "
                    f"{each.bytes:,} bytes, {time_text(each.stored_at_ms)}"
                )
            typer.echo("in the newest:")
            for entry in entries:
                where = entry.relation if entry.partition is None else f"{entry.relation}[{entry.partition}]"
                typer.echo(
                    f"  {where:<30} {entry.operator:<16} {entry.rows:>10,} rows {entry.bytes:>12,} bytes"
                )
    if not snapshots:
        raise typer.Exit(FAILED)


@app.command(epilog="Example: rowtide state show pipeline.sql latest_of --service http://127.0.0.1:8080")
def show(
    pipeline: PipelineFile,
    relation: Annotated[str, typer.Argument(help="An engine table, named as in SQL.", metavar="TABLE")],
    config: ConfigFile = None,
    service: ServiceUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    limit: Annotated[int, typer.Option(help="Maximum number of rows.", min=1)] = 100,
    as_json: AsJson = False,
) -> None:
    """Show rows of an engine table, from the newest snapshot or from a running service.

    Exit code 0: shown. 2: the table or the snapshot does not exist. 3: the service or the database is
    down.
    """
    with shown_to_user(), opened(pipeline, config) as (found, _):
        name = relation_name(relation)
        if service is not None:
            asked = running_service(service, config, token_file, ca_file)
            document = _in_service(asked, name, limit)
        else:
            document = _in_snapshot(found, name, limit)
        if as_json:
            typer.echo(json.dumps(document, indent=2))
            return
        _show(document)


@app.command(epilog="Example: rowtide state drop pipeline.sql --snapshots")
def drop(
    pipeline: PipelineFile,
    config: ConfigFile = None,
    snapshots: Annotated[
        bool, typer.Option("--snapshots", help="Drop the snapshots: the next start replays the log.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Drop all stored state of the pipeline: positions, decisions, error rows, snapshots. "
            "The rows in its tables stay; a process that runs it fails at its next commit.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Drop the snapshots of a pipeline, or all of its stored state.

    Exit code 0: dropped. 1: nothing is stored, or not confirmed. 2: neither --snapshots nor --all is
    given, or the standard input is not a terminal. 3: the database is down.
    """
    with shown_to_user(), opened(pipeline, config) as (found, settings):
        if snapshots == everything:
            raise StatementError("nothing to drop is selected", hint="Add --snapshots or --all.")
        record = found.ledger.read()
        if snapshots and record is not None and record.changed_at is not None:
            raise StatementError(
                f'the plan of pipeline "{found.name}" was changed at commit {record.changed_at}: without '
                "snapshots it cannot continue",
                hint="Add --all to drop all of the pipeline's state.",
            )
        if not yes:
            if not sys.stdin.isatty():
                raise StatementError(
                    "the standard input is not a terminal, so the drop cannot be confirmed", hint="Add --yes."
                )
            what = "all snapshots" if snapshots else "all stored state"
            if not typer.confirm(f'Drop {what} of pipeline "{found.name}"?'):
                raise typer.Exit(FAILED)
        folder = None if snapshots else found.ledger.known_parts_folder()
        dropped = found.ledger.drop_snapshots() if snapshots else int(found.ledger.drop())
        if snapshots:
            typer.echo(f"{dropped} snapshots dropped.")
        else:
            typer.echo("Dropped." if dropped else f'No stored state of pipeline "{found.name}".')
            place = settings.checkpoint.parts or "the store of checkpoint.parts"
            if folder is not None and place != IN_DATABASE:
                typer.echo(
                    f'Files of state in parts may still be in {place}: remove the folder "{folder}" there.'
                )
    if not dropped:
        raise typer.Exit(FAILED)


def _in_service(service: RunningService, relation: str, limit: int) -> dict[str, Any]:
    """Return the first rows of a table of a running service, page by page."""
    path = path_of(pipeline_of(service), "relations", relation, "rows")
    rows: list[list[Any]] = []
    after = "0"
    while True:
        page = ask(service, path, limit=str(min(limit - len(rows), PAGE_ROWS)), after=after)
        rows += page["rows"]
        if page["next"] is None or len(rows) >= limit:
            break
        after = page["next"]
    columns = page["columns"]
    return {
        "relation": relation,
        "columns": [each["name"] for each in columns],
        "types": [each["type"] for each in columns],
        "rows": [
            [_number(value, each["type"]) for value, each in zip(row, columns, strict=True)] for row in rows
        ],
        "total": page["total"],
    }


def _number(value: Any, type_name: str) -> Any:
    """Return a BIGINT as a number, which the service sends as text."""
    if isinstance(value, list):
        return [_number(each, type_name) for each in value]
    return int(value) if value is not None and type_name.startswith(Kind.BIGINT.value) else value


def _in_snapshot(found: Pipeline, relation: str, limit: int) -> Any:

    record = found.ledger.read()
    snapshot = None if record is None else usable(found.ledger.newest_snapshot(), record)
    if record is None or snapshot is None:
        raise StatementError(
            f'pipeline "{found.name}" has no snapshot that could be looked at',
            hint="`rowtide snapshot` stores one; --service asks the running service itself.",
        )
    refuse_another_plan(found.name, record, plan_digests(found.plan))
    flow = flow_at(table_nodes(found.plan), record, snapshot, found.ledger.resubmissions())
    return table_contents(flow, relation, limit).to_json()


def _show(document: Any) -> None:

    table = Table(box=None, header_style="")
    for column in document["columns"]:
        table.add_column(column)
    for row in document["rows"]:
        table.add_row(*map(cell, row, document["types"]))
    Console(width=None if typer.get_text_stream("stdout").isatty() else 200).print(table)
    typer.echo(f"{len(document['rows'])} of {document['total']} rows")
