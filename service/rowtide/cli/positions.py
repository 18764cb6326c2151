"""``rowtide positions``: where each partition of a pipeline stands."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.pipeline_file import ConfigFile, PipelineFile

if TYPE_CHECKING:
    from rowtide.runtime.positions import PartitionPosition

EXAMPLE = "Example: rowtide positions pipeline.sql --config config.toml"


def positions(
    pipeline: PipelineFile,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the positions as JSON.")] = False,
) -> None:
    """Show, for each partition: the committed position, the end of the log, the lag and the bound.

    The lag is in offsets, which may have holes: it is the most that can be behind. Nothing is changed.
    Exit code 0: done. 1: nothing is committed yet. 3: the database is down (a broker may be: its column
    is empty then).
    """
    from rowtide.cli.errors import FAILED, shown_to_user
    from rowtide.cli.pipeline_file import opened
    from rowtide.runtime.positions import standing_of

    with shown_to_user(), opened(pipeline, config) as (found, _):
        record = found.ledger.read()
        told = [] if record is None else standing_of(record, found.sources)
        if as_json:
            typer.echo(json.dumps(_as_json(found.name, record, told), indent=2))
        elif record is None or not told:
            typer.echo(f'Pipeline "{found.name}" has committed nothing yet.')
        else:
            committed = "never" if record.committed_at_ms is None else _time(record.committed_at_ms)
            typer.echo(f"{found.name}: epoch {record.epoch}, last commit {committed}, by {record.holder}")
            _show(told)
    if not told:
        raise typer.Exit(FAILED)


def _as_json(name: str, record: object, told: list[PartitionPosition]) -> dict[str, object]:
    from dataclasses import asdict

    from rowtide.checkpoint.ledger import Record

    held = record if isinstance(record, Record) else None
    return {
        "pipeline": name,
        "epoch": None if held is None else held.epoch,
        "holder": None if held is None else held.holder,
        "commits": 0 if held is None else held.commits,
        "committed_at_ms": None if held is None else held.committed_at_ms,
        "positions": [asdict(each) | {"lag": each.lag} for each in told],
    }


def _show(told: list[PartitionPosition]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="")
    for column in ("stream", "topic", "partition", "position", "end", "lag", "bound (UTC)"):
        table.add_column(column, justify="left" if column in ("stream", "topic", "bound (UTC)") else "right")
    for each in told:
        table.add_row(
            each.relation,
            each.topic,
            str(each.partition),
            str(each.next_offset),
            "" if each.end is None else str(each.end),
            "" if each.lag is None else f"<= {each.lag}" if each.lag else "0",
            "" if each.bound_ms is None else _time(each.bound_ms),
        )
    Console(width=None if typer.get_text_stream("stdout").isatty() else 200).print(table)


def _time(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
