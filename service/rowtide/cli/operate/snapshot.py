"""``rowtide snapshot``: make a running service store its state now."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rowtide.cli.errors import shown_to_user
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, pipeline_name
from rowtide.cli.service_url import CaFile, ServiceUrl, TokenFile, ask, path_of, pipeline_of, running_service
from rowtide.errors import StatementError

EXAMPLE = "Example: rowtide snapshot pipeline.sql --service http://127.0.0.1:8080"


def snapshot(
    pipeline: PipelineFile,
    config: ConfigFile = None,
    service: ServiceUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write what was stored as JSON.")] = False,
) -> None:
    """Make the running service of a pipeline commit now, with a snapshot of its state.

    The next start begins from this snapshot.

    Exit code 0: stored. 2: another pipeline answers at this address. 3: no service answers, or it is
    busy.
    """
    with shown_to_user():
        asked, name = running_service(service, config, token_file, ca_file), pipeline_name(pipeline, config)
        running = pipeline_of(asked)
        if running != name:
            raise StatementError(
                f'the service at {asked.url} runs pipeline "{running}", not "{name}"',
                hint="Pass the URL of the right service with --service.",
            )
        answer = ask(asked, path_of(name, "snapshots"), method="POST")
        if as_json:
            typer.echo(json.dumps(answer, indent=2))
        else:
            typer.echo(
                f"Snapshot of {name} stored with commit {answer['commits']}: {answer['bytes']:,} bytes, "
                f"{answer['seconds']:.2f} s."
            )
