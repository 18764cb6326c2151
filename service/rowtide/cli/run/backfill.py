"""``rowtide backfill``: fill history with Spark and hand over to the live service."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.app import context_of
from rowtide.cli.cells import offsets_text
from rowtide.cli.errors import shown_to_user
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, opened
from rowtide.cli.run.spark_options import (
    MASTER,
    Conf,
    Master,
    Parts,
    PyFiles,
    Staging,
    Ui,
    check_staging,
    conf_of,
    interval_of,
    py_files_of,
)
from rowtide.runners.spark.archive import SparkArchive
from rowtide.runners.spark.kafka import read_range
from rowtide.runners.spark.session import KafkaJars, check_conf, open_session
from rowtide.runtime.backfill.archived import splice
from rowtide.runtime.backfill.backfill import backfill as fill
from rowtide.runtime.backfill.backfill import completed
from rowtide.runtime.backfill.begin import BackfillOrder, committed
from rowtide.runtime.backfill.messages import kafka_frames
from rowtide.runtime.backfill.slices import SliceLimits
from rowtide.runtime.recovery.begin import parse_begin, parse_time

if TYPE_CHECKING:
    from rowtide.runtime.backfill.backfill import BackfillReport, Progress, SliceReport

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
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Where a pipeline without committed positions begins: earliest (the default) or a time, the first "
            "message with this timestamp or a later one. `watermark` continues from committed positions, whatever "
            "has committed them.",
            metavar="watermark|earliest|TIME",
        ),
    ] = None,
    slice_: Annotated[
        str | None,
        typer.Option(
            "--slice",
            help="Commit after each interval of message timestamps, such as '1 DAY'; by default no interval ends "
            "a slice.",
            metavar="INTERVAL",
        ),
    ] = None,
    slice_messages: Annotated[
        int | None,
        typer.Option(
            "--slice-messages",
            help="Commit after this number of messages at the latest; by default 20 million for each part. 0: no "
            "limit.",
            metavar="N",
            min=0,
        ),
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(
            help="Read each partition from this archive of `rowtide archive` as far as it has every offset, and from "
            "there on from the broker. A path that Spark and all workers read, such as s3a://bucket/archive.",
            metavar="PATH",
        ),
    ] = None,
    config: ConfigFile = None,
    master: Master = MASTER,
    staging: Staging = None,
    parts: Parts = None,
    conf: Conf = None,
    py_files: PyFiles = None,
    ui: Ui = False,
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

    Each slice commits everything at once: rows, error rows, positions and state. A backfill that fails or is
    killed continues after its last slice, up to the same cut, when the same command is run again. Only one
    backfill of a pipeline can run on a machine.

    Exit code 0: the cut is reached. 2: refused. 3: a dependency is down, or another process took the pipeline.
    """
    with shown_to_user(), opened(pipeline, config) as (found, settings):
        order = BackfillOrder(
            until_ms=parse_time(until),
            begin=None if begin is None else parse_begin(begin),
            slices=SliceLimits(interval_of("--slice", slice_, "1 DAY"), slice_messages),
            # Of an archive, several tasks may read one partition.
            in_order=archive is None,
            take_over=take_over,
        )
        check_staging(staging)
        spark_conf = conf_of(conf or ())
        check_conf(spark_conf)
        files = py_files_of(py_files or ())
        context = replace(context_of(found, settings), wait=not no_wait)
        before = committed(context, order)
        if before.is_complete:
            report = completed(before)
        else:
            frames = kafka_frames(found.plan, lambda *args: read_range(session, *args))
            session = open_session(
                master,
                parts=parts,
                conf=spark_conf,
                py_files=files,
                ui=ui,
                kafka=KafkaJars(settings.spark.jars) if found.plan.foreign_streams else None,
            )
            if archive is not None:
                spliced = splice(context, frames, SparkArchive(session, archive), order, before)
                context, frames = spliced.context, spliced.frames
            with tempfile.TemporaryDirectory(prefix="rowtide-backfill-", dir=staging) as folder:
                report = fill(context, session, frames, folder, order, _tell)
            session.stop()
    typer.echo(json.dumps(_as_json(report)) if as_json else _shown(report))


def _tell(report: SliceReport, progress: Progress) -> None:
    typer.echo(progress.shown(report), err=True)


def _as_json(report: BackfillReport) -> dict[str, object]:
    return {
        "slices": report.slices,
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
    if not report.slices:
        lines = ["The backfill is complete: an earlier run has reached the cut."]
    lines += [f"{count:>12,} rows into {table}" for table, count in sorted(report.rows.items())]
    for name, held in sorted(report.positions.items()):
        lines.append(f"{name} continues at {offsets_text(held)}")
    lines += [each.shown() for each in report.held_back[:NAMED]]
    if len(report.held_back) > NAMED:
        lines.append(f"Rows wait for {len(report.held_back) - NAMED} more partitions: --json names all.")
    return "\n".join(lines)
