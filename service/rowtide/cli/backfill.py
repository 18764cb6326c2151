"""``rowtide backfill``: fill history with Spark and hand over to the live service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.pipeline_file import ConfigFile, PipelineFile

if TYPE_CHECKING:
    from rowtide.runtime.backfill import BackfillReport

EXAMPLE = "Example: rowtide backfill pipeline.sql --until '2026-01-31 12:00:00' --master 'local[2]'"


def backfill(
    pipeline: PipelineFile,
    until: Annotated[
        str,
        typer.Option(
            help="Chooses the cut: of each partition the first message with this timestamp (UTC) or a later "
            "one, else its end.",
            metavar="TIME",
        ),
    ],
    config: ConfigFile = None,
    master: Annotated[str, typer.Option(help="Spark's master URL.", metavar="URL")] = "local[*]",
    staging: Annotated[
        Path | None,
        typer.Option(
            help="A folder that driver and workers share; emptied before and after. By default a temporary "
            "one, which does for a local master.",
            metavar="DIR",
        ),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Stop with exit code 3 when the database is down.")
    ] = False,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Begin although another backfill of the pipeline runs: that one will not commit.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as one JSON object.")] = False,
) -> None:
    """Work off history with Spark up to a cut; the live service goes on from there.

    Everything is committed at once, at the end: rows, error rows, positions and state. A backfill that
    fails, or is killed, has changed nothing and is run again. While one runs on this machine, another one of
    the pipeline is refused. Exit code 2: refused. 3: a dependency is down, or another process took the
    pipeline.
    """
    import tempfile

    from rowtide.cli.errors import shown_to_user
    from rowtide.cli.pipeline_file import opened
    from rowtide.clock import SystemClock
    from rowtide.runners.spark.kafka import read_range
    from rowtide.runners.spark.session import open_session
    from rowtide.runtime.backfill import backfill as fill
    from rowtide.runtime.backfill import kafka_frames, refuse_if_begun
    from rowtide.runtime.begin import parse_time
    from rowtide.runtime.logs import set_up_logs

    with shown_to_user(), opened(pipeline, config) as (found, settings):
        set_up_logs(settings.log)
        until_ms = parse_time(until)
        refuse_if_begun(found, take_over=take_over)
        session = open_session(master)
        frames = kafka_frames(found.plan, lambda *args: read_range(session, *args))
        with tempfile.TemporaryDirectory(prefix="rowtide-backfill-", dir=staging) as folder:
            report = fill(
                found,
                session,
                frames,
                folder,
                until_ms,
                clock=SystemClock(),
                wait=not no_wait,
                in_order=True,
                take_over=take_over,
            )
        session.stop()
    typer.echo(json.dumps(_as_json(report)) if as_json else _shown(report))


def _as_json(report: BackfillReport) -> dict[str, object]:
    return {
        "messages": report.messages,
        "rows": dict(report.rows),
        "errors": report.errors,
        "positions": {
            name: {str(each): offset for each, offset in held.items()}
            for name, held in report.positions.items()
        },
    }


def _shown(report: BackfillReport) -> str:
    lines = [f"{report.messages:,} messages worked off, {report.errors:,} error rows"]
    lines += [f"{count:>12,} rows into {table}" for table, count in sorted(report.rows.items())]
    for name, held in sorted(report.positions.items()):
        where = ", ".join(f"{partition}: {offset:,}" for partition, offset in sorted(held.items()))
        lines.append(f"{name} goes on at {where}")
    return "\n".join(lines)
