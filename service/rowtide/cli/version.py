"""``rowtide --version``."""

from __future__ import annotations

import typer


def program_version() -> str:
    """Return the version of the installed program."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rowtide")
    except PackageNotFoundError:
        return "0 (a checkout)"


def show_version(wanted: bool) -> None:
    """Write the version and exit."""
    if wanted:
        typer.echo(f"rowtide {program_version()}")
        raise typer.Exit
