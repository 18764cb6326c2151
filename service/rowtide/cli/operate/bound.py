"""``rowtide bound``: promise for a topic that nothing earlier follows."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rowtide.cli.errors import read_text, shown_to_user
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile
from rowtide.clock import SystemClock
from rowtide.config.reading import load_settings
from rowtide.rowtime.text import time_text
from rowtide.runtime.configured import configured
from rowtide.runtime.ingest.bound_records import stream_of, write_bounds
from rowtide.runtime.pipeline import open_source
from rowtide.runtime.recovery.begin import parse_time
from rowtide.runtime.topics import reads_topic
from rowtide.sql.pipeline import plan_pipeline

EXAMPLE = "Example: rowtide bound pipeline.sql users '2026-05-05 10:00:00' --partition 0"


def bound(
    pipeline: PipelineFile,
    topic: Annotated[
        str, typer.Argument(help="A topic that the pipeline reads, or its foreign stream.", metavar="TOPIC")
    ],
    time: Annotated[
        str,
        typer.Argument(
            help="The least ROWTIME that may still come: ISO 8601, UTC unless it names a zone, or ms.",
            metavar="TIME",
        ),
    ],
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", help="The partition to write to; several times for more. Default: all."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Only rows after TIME may follow, none at TIME itself.")
    ] = False,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the offsets as JSON.")] = False,
) -> None:
    """Write a bound record to a topic: it releases waiting rows and makes earlier rows late.

    TIME is a ROWTIME of the pipeline: the promoted time where a column is promoted. A record below the
    partition's bound becomes an error row (BOUND).

    Exit code 0: written. 2: the pipeline does not read the topic, or TIME is invalid. 3: the broker is
    down.
    """
    with shown_to_user():
        bound_ms = parse_time(time)
        plan = configured(plan_pipeline(read_text(pipeline), file=str(pipeline)), load_settings(config))
        stream = stream_of(plan, topic)
        source = open_source(plan, stream)
        named = topic if reads_topic(stream, topic) else None
        try:
            now_ms = SystemClock().now_ms()
            written = write_bounds(source, bound_ms, named, partition, strict=strict, now_ms=now_ms)
            read = source.topic
        finally:
            source.close()
    if as_json:
        positions = [
            {**({"topic": name} if name != read else {}), "partition": number, "offset": offset}
            for (name, number), offset in written.items()
        ]
        typer.echo(json.dumps({"topic": read, "bound_ms": bound_ms + strict, "written": positions}, indent=2))
        return
    for (name, number), offset in written.items():
        typer.echo(
            f'bound {_shown(bound_ms + strict)} written to topic "{name}", partition {number}, offset {offset}'
        )


def _shown(bound_ms: int) -> str:

    return time_text(bound_ms)
