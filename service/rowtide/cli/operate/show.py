"""``rowtide show``: the text of the pipeline that runs."""

from __future__ import annotations

import typer

from rowtide.cli.errors import shown_to_user
from rowtide.cli.pipeline_file import ConfigFile, PipelineFile, opened
from rowtide.errors import StatementError

EXAMPLE = "Example: rowtide show pipeline.sql > pipeline-as-it-runs.sql"


def show(pipeline: PipelineFile, config: ConfigFile = None) -> None:
    """Show the text of the file that runs under a pipeline's name, as its last start has stored it.

    The file names the pipeline and its database, and may differ from what runs: `rowtide plan` shows how. Secrets in
    options are not stored: *** stands for them.

    Exit code 0: shown. 2: the pipeline has never been started. 3: the database is down.
    """
    with shown_to_user(), opened(pipeline, config) as (found, _):
        text = found.ledger.text()
        if text is None:
            raise StatementError(
                f'the checkpoint has no text of pipeline "{found.name}"',
                hint="The next start of the pipeline stores it.",
            )
        typer.echo(text, nl=not text.endswith("\n"))
