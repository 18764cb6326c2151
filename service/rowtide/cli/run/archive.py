"""``rowtide archive``: copy the messages of topics to files of Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rowtide.cli.cells import offsets_text
from rowtide.cli.errors import read_text, shown_to_user
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile
from rowtide.clock import SystemClock
from rowtide.config.reading import load_settings
from rowtide.errors import StatementError
from rowtide.plan.plan import ForeignStream, Plan
from rowtide.runtime.archive.archiver import (
    ArchiveMeans,
    ArchiveOrder,
    Archiver,
    ArchiveReport,
    streams_to_archive,
)
from rowtide.runtime.archive.files import FileLimits
from rowtide.runtime.configured import configured
from rowtide.runtime.crashpoints import crash_points_from_environment
from rowtide.runtime.logs import set_up_logs
from rowtide.runtime.pipeline import open_source
from rowtide.runtime.stopping import StopSignals
from rowtide.sql.grammar.literals import interval_text_ms
from rowtide.sql.pipeline import plan_pipeline
from rowtide_connectors.api import TopicSource

EXAMPLE = "Example: rowtide archive pipeline.sql /data/archive orders --config config.toml"


def archive(
    pipeline: PipelineFile,
    folder: Annotated[
        Path,
        typer.Argument(
            help="The folder of the archive, on a file system of this machine with hard links.",
            metavar="FOLDER",
        ),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Argument(
            help="A topic that the pipeline reads, or its foreign stream. Default: those of all foreign streams of "
            "brokers.",
            metavar="[TOPIC]...",
        ),
    ] = None,
    config: ConfigFile = None,
    file_mb: Annotated[
        int,
        typer.Option(
            "--file-mb", help="End a file at this size of its messages, in MB before compression.", min=1
        ),
    ] = 128,
    file_age: Annotated[
        str,
        typer.Option(
            "--file-age",
            help="End a file this long after its first message was read: its messages are then in the archive.",
            metavar="INTERVAL",
        ),
    ] = "10 MINUTE",
    skip_lost: Annotated[
        bool,
        typer.Option(
            "--skip-lost",
            help="Continue after offsets that the broker has deleted before they were archived, instead of ending with "
            "an error.",
        ),
    ] = False,
    until_end: Annotated[
        bool,
        typer.Option(
            "--until-end", help="Stop when every partition is archived to the end that it has at the start."
        ),
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Stop with exit code 3 when a broker is down or a disk full.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as one JSON object.")] = False,
) -> None:
    """Copy all messages of topics to files of Parquet, each exactly once, until it is stopped.

    The archive itself says where it ends: a later start continues there, and nothing is written to the database of the
    pipeline. `rowtide backfill --archive` reads the files.

    Exit code 0: stopped by SIGTERM or SIGINT, or at the end. 2: refused, or the broker has deleted offsets that are
    not archived. 3: a dependency is down, or another process archives the topic into the folder.
    """
    with shown_to_user():
        settings = load_settings(config)
        set_up_logs(settings.log)
        if not folder.is_dir():
            raise StatementError(f'folder "{folder}" does not exist', hint=f"Type: mkdir -p {folder}")
        limits = FileLimits(file_mb * 1_000_000, _seconds(file_age))
        order = ArchiveOrder(folder, limits, skip_lost=skip_lost, until_end=until_end)
        plan = configured(plan_pipeline(read_text(pipeline), file=str(pipeline)), settings)
        signals = StopSignals()
        means = ArchiveMeans(
            SystemClock(), signals.is_set, wait=not no_wait, crash_points=crash_points_from_environment()
        )
        with _opened(plan, streams_to_archive(plan, topic or ())) as sources, signals:
            report = Archiver(sources, order, means).run()
    typer.echo(json.dumps(_as_json(report)) if as_json else _shown(report))


@contextmanager
def _opened(plan: Plan, streams: list[ForeignStream]) -> Iterator[list[TopicSource]]:
    sources: list[TopicSource] = []
    try:
        for stream in streams:
            sources.append(open_source(plan, stream))
        yield sources
    finally:
        for source in sources:
            source.close()


def _seconds(interval: str) -> float:
    try:
        found = interval_text_ms(interval) / 1000
    except ValueError as error:
        raise StatementError(
            f"invalid --file-age: {error}", hint="Type --file-age '10 MINUTE', for example."
        ) from error
    if found <= 0:
        raise StatementError("invalid --file-age: it is not positive", hint="Type --file-age '10 MINUTE'.")
    return found


def _as_json(report: ArchiveReport) -> dict[str, object]:
    return {
        "messages": report.messages,
        "files": report.files,
        "positions": {
            topic: {str(partition): offset for partition, offset in sorted(held.items())}
            for topic, held in report.positions.items()
        },
    }


def _shown(report: ArchiveReport) -> str:
    lines = [f"{report.messages:,} messages archived in {report.files:,} files"]
    for topic, held in report.positions.items():
        lines.append(f"{topic} continues at {offsets_text(held)}")
    return "\n".join(lines)
