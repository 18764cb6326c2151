"""Errors of commands: the message for the user, and the exit code; a traceback only with ``--debug``.

| error                                  | exit code |
|----------------------------------------|-----------|
| StatementError, a file or an option    | 2         |
| TransientError, SupersededError        | 3         |
| any other error of Rowtide             | 1         |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from rowtide.errors import RowtideError, StatementError, SupersededError, TransientError
from rowtide_connectors.errors import ConnectorError, UnavailableError

USAGE, DEPENDENCY, FAILED = 2, 3, 1

_debug = False


def set_debug(on: bool) -> None:
    """Set whether errors keep their traceback: the root option ``--debug``."""
    global _debug  # noqa: PLW0603 - one process runs one command, and the root option comes before it
    _debug = on


@contextmanager
def shown_to_user(*, as_json: bool = False) -> Iterator[None]:
    """Show an error that is raised in this block on stderr, and exit with its exit code.

    With ``as_json`` the error is written to stdout, too: ``{"ok": false, "error": {..}}``.

    Raises:
      typer.Exit: in place of every error that Rowtide or a connector raised.
    """
    try:
        yield
    except (RowtideError, ConnectorError) as error:
        if _debug:
            raise
        if as_json:
            typer.echo(json.dumps({"ok": False, "error": _plain(error)}, indent=2))
        typer.echo(rendered(error), err=True)
        raise typer.Exit(exit_code(error)) from None


def rendered(error: RowtideError | ConnectorError) -> str:
    """Return an error as the terminal shows it."""
    if isinstance(error, StatementError):
        return error.render()
    hint = f"\nhint: {error.hint}" if error.hint is not None else ""
    return f"error: {error.message}{hint}"


def _plain(error: RowtideError | ConnectorError) -> dict[str, object]:
    """Return an error as plain values; unknown parts are None."""
    place = error.place if isinstance(error, StatementError) else None
    return {
        "message": error.message,
        "hint": error.hint,
        "file": error.file if isinstance(error, StatementError) else None,
        "line": None if place is None else place.line,
        "column": None if place is None else place.column,
    }


def exit_code(error: RowtideError | ConnectorError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, TransientError | SupersededError | UnavailableError):
        return DEPENDENCY
    if isinstance(error, StatementError | ConnectorError):
        return USAGE
    return FAILED


def read_text(path: Path) -> str:
    """Read a file that the user named.

    Raises:
      StatementError: it cannot be read, or is not UTF-8 text.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise StatementError(f'file "{path}" cannot be read: {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise StatementError(f'file "{path}" is not UTF-8 text') from error
