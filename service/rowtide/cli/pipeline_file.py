"""What the commands that take PIPELINE.sql share: read it with its configuration, and open it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rowtide.config import Settings
    from rowtide.runtime.pipeline import Pipeline

PipelineFile = Annotated[Path, typer.Argument(help="The pipeline's statements.", metavar="PIPELINE.sql")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="Settings (TOML); environment variables stand above them.", metavar="FILE"),
]


@contextmanager
def opened(file: Path, config: Path | None) -> Iterator[tuple[Pipeline, Settings]]:
    """Plan a pipeline file and put it together; nothing is connected yet.

    Raises:
      StatementError, OptionError: the file, the configuration or an option is wrong.
    """
    from rowtide.cli.errors import read_text
    from rowtide.config import load_settings
    from rowtide.runtime.configured import configured
    from rowtide.runtime.pipeline import open_pipeline
    from rowtide.sql.pipeline import plan_pipeline

    settings = load_settings(config)
    plan = configured(plan_pipeline(read_text(file), file=str(file)), settings)
    name = settings.pipeline.name or file.stem
    url = settings.checkpoint.url
    with open_pipeline(plan, name, None if url is None else url.reveal()) as pipeline:
        yield pipeline, settings
