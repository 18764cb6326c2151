"""``rowtide positions``: the position of each partition of a pipeline, and skipping a message."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rowtide.checkpoint.ledger import Record
from rowtide.cli.errors import FAILED, shown_to_user
from rowtide.cli.help_format import App
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, PipelineFirst, opened
from rowtide.errors import StatementError
from rowtide.runtime.ingest import skipping
from rowtide.runtime.inspect.positions import progress_of
from rowtide.runtime.topics import adopt_topics
from rowtide.sql.catalog.written_names import relation_name
from rowtide_connectors.api import TopicSource
from rowtide_connectors.several import SeveralTopics

if TYPE_CHECKING:
    from rowtide.runtime.inspect.positions import PartitionProgress


class _ShowsByDefault(PipelineFirst):
    """A group whose default command is ``show``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert ``show`` if no command is named."""
        if args and "--help" not in args and not any(each in self.commands for each in args):
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = App(
    name="positions",
    cls=_ShowsByDefault,
    no_args_is_help=True,
    help="Show the committed position of each partition (the default), or skip a message.",
)


@app.command(epilog="Example: rowtide positions show pipeline.sql --config config.toml")
def show(
    pipeline: PipelineFile,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the positions as JSON.")] = False,
) -> None:
    """Show the committed position of each partition, the end of its log, the lag and the bound.

    The lag counts offsets, which may have gaps: it is an upper limit of the unread messages.

    Exit code 0: shown. 1: nothing is committed yet. 3: the database is down (if only the broker is down,
    its column is empty).
    """
    with shown_to_user(), opened(pipeline, config) as (found, _):
        record = found.ledger.read()
        progress = [] if record is None else progress_of(record, found.sources)
        if as_json:
            typer.echo(json.dumps(_as_json(found.name, record, progress), indent=2))
        elif record is None or not progress:
            typer.echo(f'Pipeline "{found.name}" has committed nothing yet.')
        else:
            committed = "never" if record.committed_at_ms is None else _time(record.committed_at_ms)
            typer.echo(f"{found.name}: epoch {record.epoch}, last commit {committed}, by {record.holder}")
            _show(progress)
    if not progress:
        raise typer.Exit(FAILED)


@app.command(epilog="Example: rowtide positions skip pipeline.sql orders 0 4711")
def skip(
    pipeline: PipelineFile,
    relation: Annotated[str, typer.Argument(help="The foreign stream, named as in SQL.", metavar="STREAM")],
    partition: Annotated[int, typer.Argument(help="The partition.", metavar="PARTITION", min=0)],
    offset: Annotated[
        int, typer.Argument(help="The offset of the message.", metavar="OFFSET", min=0, max=2**63 - 1)
    ],
    config: ConfigFile = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="The topic, if the stream reads several.", metavar="TOPIC")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Skip one message that stops the pipeline at every start: the last resort.

    Stop the service first: the command takes the pipeline's epoch, so a process that still runs fails at
    its next commit. The message is not decoded; it becomes an error row with reason SKIPPED and its
    bytes. The decision is committed, and every start, recovery and replay obeys it. It cannot be undone.

    Exit code 0: skipped. 1: not confirmed. 2: the message does not exist or is committed already, or the
    standard input is not a terminal; nothing has changed. 3: the database or the broker is down.
    """
    with shown_to_user(), opened(pipeline, config) as (found, _):
        name = relation_name(relation)
        where = f'offset {offset} of "{name}" partition {partition}'
        if not yes:
            if not sys.stdin.isatty():
                raise StatementError(
                    "the standard input is not a terminal, so the skip cannot be confirmed", hint="Add --yes."
                )
            if not typer.confirm(f'Skip {where} of pipeline "{found.name}" permanently?'):
                raise typer.Exit(FAILED)
        holder = f"{socket.gethostname()} process {os.getpid()}, to skip a message"
        source = found.sources.get(name)
        if source is not None:
            adopt_topics(found.sources, found.ledger.read())
            partition = numbered(source, topic, partition)
        epoch = skipping.skip(found.name, found.ledger, found.sources, name, partition, offset, holder)
        typer.echo(f"The next start skips {where}. The pipeline is at epoch {epoch}.")


def numbered(source: TopicSource, topic: str | None, partition: int) -> int:
    """Return the number of a partition among those of a stream.

    Raises:
      StatementError: the stream does not read the topic, or reads several and none is named.
    """
    sources = source.topics() if isinstance(source, SeveralTopics) else [source]
    names = [each.topic for each in sources]
    if topic is None and len(names) == 1:
        topic = names[0]
    if topic is None or topic not in names:
        problem = (
            "the stream reads several topics" if topic is None else f'the stream does not read "{topic}"'
        )
        raise StatementError(problem, hint=f"Add --topic NAME: {', '.join(names)}.")
    return source.number(topic, partition) if isinstance(source, SeveralTopics) else partition


def _as_json(name: str, record: object, progress: list[PartitionProgress]) -> dict[str, object]:

    held = record if isinstance(record, Record) else None
    return {
        "pipeline": name,
        "epoch": None if held is None else held.epoch,
        "holder": None if held is None else held.holder,
        "commits": 0 if held is None else held.commits,
        "committed_at_ms": None if held is None else held.committed_at_ms,
        "positions": [asdict(each) | {"lag": each.lag} for each in progress],
    }


def _show(progress: list[PartitionProgress]) -> None:

    table = Table(box=None, header_style="")
    for column in ("stream", "topic", "partition", "position", "end", "lag", "bound (UTC)"):
        table.add_column(column, justify="left" if column in ("stream", "topic", "bound (UTC)") else "right")
    for each in progress:
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
