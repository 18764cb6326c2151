"""``rowtide backfill``: fill history with Spark and hand over to the live service."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.app import context_of
from rowtide.cli.errors import shown_to_user
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, opened
from rowtide.errors import StatementError
from rowtide.runners.spark.kafka import read_range
from rowtide.runners.spark.session import KafkaJars, check_conf, open_session
from rowtide.runtime.backfill.backfill import backfill as fill
from rowtide.runtime.backfill.backfill import kafka_frames, refuse_if_begun
from rowtide.runtime.recovery.begin import parse_time

if TYPE_CHECKING:
    from rowtide.runtime.backfill.backfill import BackfillReport

EXAMPLE = "Example: rowtide backfill pipeline.sql --until '2026-01-31 12:00:00' --master 'local[2]'"

NAMED = 10
"""Number of partitions that the terminal names if rows wait for them."""


def backfill(
    pipeline: PipelineFile,
    until: Annotated[
        str,
        typer.Option(
            help="Cut each partition at its first message with this timestamp (UTC) or a later "
            "one, else its end.",
            metavar="TIME",
        ),
    ],
    config: ConfigFile = None,
    master: Annotated[str, typer.Option(help="Spark's master URL.", metavar="URL")] = "local[*]",
    staging: Annotated[
        Path | None,
        typer.Option(
            help="A folder of this machine for rows that wait at the end, until they are committed as state; "
            "by default the system's folder of temporary files. Workers do not need it.",
            metavar="DIR",
        ),
    ] = None,
    parts: Annotated[
        int | None,
        typer.Option(
            help="Number of parts that rows are split into by key, one task each; by default as many "
            "as Spark has cores when the backfill begins.",
            metavar="N",
            min=1,
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf", help="A Spark setting, such as spark.executor.memory=4g. Repeatable.", metavar="K=V"
        ),
    ] = None,
    py_files: Annotated[
        list[str] | None,
        typer.Option(
            "--py-files",
            help="A .py, .zip or .egg file that every worker gets on its path, for models of the pipeline. "
            "Repeatable.",
            metavar="FILE",
        ),
    ] = None,
    ui: Annotated[
        bool, typer.Option("--ui/--no-ui", help="Serve Spark's web UI while the backfill runs.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Stop with exit code 3 when the database is down.")
    ] = False,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Start although another backfill of the pipeline runs; that one cannot commit.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as one JSON object.")] = False,
) -> None:
    """Process history with Spark up to a cut; the live service continues from there.

    The end of the backfill commits everything at once: rows, error rows, positions and state. A backfill
    that fails or is killed changes nothing; run it again. Only one backfill of a pipeline can run on a
    machine.

    Exit code 0: committed. 2: refused. 3: a dependency is down, or another process took the pipeline.
    """
    with shown_to_user(), opened(pipeline, config) as (found, settings):
        until_ms = parse_time(until)
        if staging is not None and not staging.is_dir():
            raise StatementError(
                f'folder "{staging}" (--staging) does not exist', hint=f"Type: mkdir -p {staging}"
            )
        spark_conf = _conf(conf or ())
        files = _existing(py_files or ())
        context = replace(context_of(found, settings), wait=not no_wait)
        refuse_if_begun(context, take_over=take_over)
        frames = kafka_frames(found.plan, lambda *args: read_range(session, *args))
        session = open_session(
            master,
            parts=parts,
            conf=spark_conf,
            py_files=files,
            ui=ui,
            kafka=KafkaJars(settings.spark.jars) if found.plan.foreign_streams else None,
        )
        with tempfile.TemporaryDirectory(prefix="rowtide-backfill-", dir=staging) as folder:
            report = fill(context, session, frames, folder, until_ms, in_order=True, take_over=take_over)
        session.stop()
    typer.echo(json.dumps(_as_json(report)) if as_json else _shown(report))


def _conf(given: Sequence[str]) -> dict[str, str]:

    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (equals and name.startswith("spark.")):
            raise StatementError(
                f'invalid --conf: "{each}"', hint="It is NAME=VALUE, such as spark.executor.memory=4g."
            )
        found[name] = value
    check_conf(found)
    return found


def _existing(files: Sequence[str]) -> list[str]:

    for file in files:
        # Spark itself reads paths with a scheme.
        if "://" not in file and not Path(file).is_file():
            raise StatementError(f'file "{file}" of --py-files does not exist')
        if not file.endswith((".py", ".zip", ".egg")):
            raise StatementError(
                f'file "{file}" of --py-files is not a .py, .zip or .egg file',
                hint="Pack packages as a .zip.",
            )
    return list(files)


def _as_json(report: BackfillReport) -> dict[str, object]:
    return {
        "messages": report.messages,
        "rows": dict(report.rows),
        "errors": report.errors,
        "held_back": [asdict(each) for each in report.held_back],
        "positions": {
            name: {str(each): offset for each, offset in held.items()}
            for name, held in report.positions.items()
        },
    }


def _shown(report: BackfillReport) -> str:
    lines = [f"{report.messages:,} messages processed, {report.errors:,} error rows"]
    lines += [f"{count:>12,} rows into {table}" for table, count in sorted(report.rows.items())]
    for name, held in sorted(report.positions.items()):
        where = ", ".join(f"{partition}: {offset:,}" for partition, offset in sorted(held.items()))
        lines.append(f"{name} continues at {where}")
    lines += [each.shown() for each in report.held_back[:NAMED]]
    if len(report.held_back) > NAMED:
        lines.append(f"Rows wait for {len(report.held_back) - NAMED} more partitions: --json names all.")
    return "\n".join(lines)
