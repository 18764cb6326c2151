"""Shared by the commands that take PIPELINE.sql: read the file with its configuration, and open it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowtide.cli.errors import read_text
from rowtide.cli.help_format import Group
from rowtide.config.reading import load_settings
from rowtide.runtime.change.kept_text import kept_text
from rowtide.runtime.configured import configured
from rowtide.sql.pipeline import plan_pipeline

if TYPE_CHECKING:
    from rowtide.config.settings import Settings
    from rowtide.runtime.pipeline import Pipeline

PipelineFile = Annotated[Path, typer.Argument(help="The pipeline's statements.", metavar="PIPELINE.sql")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="Settings (TOML); environment variables override them.", metavar="FILE"),
]


@contextmanager
def opened(file: Path, config: Path | None) -> Iterator[tuple[Pipeline, Settings]]:
    """Plan a pipeline file and build the pipeline, without connecting it.

    Raises:
      StatementError, OptionError: the file, the configuration or an option is wrong.
    """
    from rowtide.runtime.logs import set_up_logs
    from rowtide.runtime.pipeline import open_pipeline

    settings = load_settings(config)
    set_up_logs(settings.log)
    statements = read_text(file)
    planned = plan_pipeline(statements, file=str(file))
    plan, text = configured(planned, settings), kept_text(statements, planned)
    name = settings.pipeline.name or file.stem
    url = settings.checkpoint.url
    with open_pipeline(plan, name, None if url is None else url.reveal(), text=text) as pipeline:
        yield pipeline, settings


def pipeline_name(file: Path, config: Path | None) -> str:
    """Return a pipeline's name: the name in the configuration, or the file's stem.

    Raises:
      StatementError: the configuration is wrong, or the file does not exist.
    """
    read_text(file)
    return load_settings(config).pipeline.name or file.stem


class PipelineFirst(Group):
    """A group of commands on a pipeline, which may come before or after the command's name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move the name of the command to the front."""
        at = next((index for index, each in enumerate(args) if each in self.commands), 0)
        return super().parse_args(ctx, [*args[at : at + 1], *args[:at], *args[at + 1 :]])
