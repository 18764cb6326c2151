"""``rowtide connectors new``: write a package with a connector or a format of one's own."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Annotated

import typer

from rowtide.cli.errors import shown_to_user
from rowtide.cli.template import files_of, package_name, write_folder
from rowtide.codec.registry import format_names
from rowtide.errors import StatementError
from rowtide_connectors.registry import connector_names

EXAMPLE = "Example: rowtide connectors new weather --codec"
MAX_CHARACTERS = 40
"""The most characters of a name: it is part of file names, with a prefix."""


def new(
    name: Annotated[
        str, typer.Argument(help="Small letters, digits and underscores, such as weather.", metavar="NAME")
    ],
    connector: Annotated[
        bool, typer.Option("--connector/--codec", help="A connector with a source, or a format with a codec.")
    ] = True,
    parent: Annotated[
        Path, typer.Option("--in", help="The folder to write the package's folder into.", metavar="FOLDER")
    ] = Path(),
) -> None:
    """Write a package with a connector, or a format, of your own into the new folder rowtide-NAME.

    The package works: it has an entry point by which Rowtide finds it once it is installed, and tests that run
    the contract suite. Change it step by step, and keep the tests green.

    Exit code 0: written. 2: the name is not valid or in use, or the folder has files.
    """
    kind = "connector" if connector else "format"
    with shown_to_user():
        _check_name(name, kind)
        folder = parent / package_name(name)
        write_folder(folder, files_of(kind, name))
    typer.echo(f"{folder}: a package with the {kind} {name if connector else name.upper()}")
    typer.echo(f"Next: cd {folder} && pip install -e '.[dev]' && pytest")


def _check_name(name: str, kind: str) -> None:
    """Check that a name can be that of a connector or format, of a module and of a package.

    Raises:
      StatementError: it cannot.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or len(name) > MAX_CHARACTERS:
        raise StatementError(
            f'"{name}" is not a valid name of a {kind}',
            hint=f"Use at most {MAX_CHARACTERS} small letters, digits and single underscores, such as weather.",
        )
    if keyword.iskeyword(name):
        raise StatementError(f'"{name}" is a keyword of Python', hint=f"Add a word, such as {name}_messages.")
    taken = connector_names() if kind == "connector" else [each.lower() for each in format_names()]
    if name in taken:
        raise StatementError(
            f'{kind} "{name}" already exists',
            hint="Choose another name. `rowtide connectors list` shows the names in use.",
        )
