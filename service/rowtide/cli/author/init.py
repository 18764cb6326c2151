"""``rowtide init``: write a project with a pipeline, its scenario, settings and servers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from rowtide.cli.errors import shown_to_user
from rowtide.cli.template import write_folder
from rowtide.cli.template.project import project_files
from rowtide.errors import StatementError

EXAMPLE = "Example: rowtide init shop"
MAX_CHARACTERS = 40
"""The most characters of a name: it is the name of a folder, and part of the names of containers."""


def init(
    name: Annotated[
        str,
        typer.Argument(help="Small letters, digits, hyphens and underscores, such as shop.", metavar="NAME"),
    ],
    parent: Annotated[
        Path, typer.Option("--in", help="The folder to write the project's folder into.", metavar="FOLDER")
    ] = Path(),
) -> None:
    """Write a project that runs at once: a pipeline, its scenario, settings and servers.

    The new folder NAME has a pipeline from Kafka to PostgreSQL, a scenario that tests it, settings, a compose file
    with both servers, a workflow of checks for GitHub, and a README that says how to run it.

    Exit code 0: written. 2: the name is not valid, or the folder has files.
    """
    with shown_to_user():
        if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name) or len(name) > MAX_CHARACTERS:
            raise StatementError(
                f'"{name}" is not a valid name of a project',
                hint=f"Use at most {MAX_CHARACTERS} small letters, digits, and single hyphens or underscores, such as "
                "shop.",
            )
        folder, files = parent / name, project_files(name)
        write_folder(folder, files)
    typer.echo(f"{folder}: a pipeline from Kafka to PostgreSQL, with {len(files)} files")
    typer.echo("Next:")
    typer.echo(f"  cd {shlex.quote(str(folder))}")
    typer.echo("  rowtide check pipeline.sql --config config.toml")
    typer.echo("  rowtide test tests")
    typer.echo("README.md says how to run it on servers that `docker compose` starts.")
