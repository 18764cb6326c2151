"""The options of the commands that run a pipeline on Spark: ``backfill``, and ``run --runner spark``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from rowtide.errors import StatementError
from rowtide.sql.grammar.literals import interval_text_ms

MASTER = "local[*]"
"""Spark's master URL if none is given."""

Master = Annotated[str, typer.Option(help="Spark's master URL.", metavar="URL")]
Staging = Annotated[
    Path | None,
    typer.Option(
        help="A folder of this machine for rows that wait at the end of a slice or batch, until they are committed "
        "as state; by default the system's folder of temporary files. Workers do not need it.",
        metavar="DIR",
    ),
]
Parts = Annotated[
    int | None,
    typer.Option(
        help="Number of parts into which Spark splits rows by key, one task each; by default as many "
        "as it has cores when the command begins.",
        metavar="N",
        min=1,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", help="A Spark setting, such as spark.executor.memory=4g. Repeatable.", metavar="K=V"
    ),
]
PyFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--py-files",
        help="A .py, .zip or .egg file that every worker of Spark gets on its path, for models of the pipeline. "
        "Repeatable.",
        metavar="FILE",
    ),
]
Ui = Annotated[bool, typer.Option("--ui/--no-ui", help="Serve Spark's web UI while the command runs.")]


@dataclass(frozen=True, slots=True)
class SparkOrder:
    """The options of Spark of ``run``. ``trigger_ms`` None: the commit interval of the settings."""

    master: str = MASTER
    staging: Path | None = None
    parts: int | None = None
    conf: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    ui: bool = False
    trigger_ms: int | None = None
    batch_messages: int | None = None


def conf_of(given: Sequence[str]) -> dict[str, str]:
    """Parse the values of ``--conf``.

    Raises:
      StatementError: one is not NAME=VALUE.
    """
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (equals and name.startswith("spark.")):
            raise StatementError(
                f'invalid --conf: "{each}"', hint="It is NAME=VALUE, such as spark.executor.memory=4g."
            )
        found[name] = value
    return found


def py_files_of(files: Sequence[str]) -> list[str]:
    """Check the values of ``--py-files``.

    Raises:
      StatementError: a file does not exist, or is of another kind.
    """
    for file in files:
        # Spark itself reads paths with a scheme.
        if "://" not in file and not Path(file).is_file():
            raise StatementError(f'file "{file}" of --py-files does not exist')
        if not file.endswith((".py", ".zip", ".egg")):
            raise StatementError(
                f'file "{file}" of --py-files is not a .py, .zip or .egg file',
                hint="Pack packages as a .zip.",
            )
    return list(files)


def check_staging(staging: Path | None) -> None:
    """Check the value of ``--staging``.

    Raises:
      StatementError: the folder does not exist.
    """
    if staging is not None and not staging.is_dir():
        raise StatementError(
            f'folder "{staging}" (--staging) does not exist', hint=f"Type: mkdir -p {staging}"
        )


def interval_of(option: str, text: str | None, example: str) -> int | None:
    """Parse the value of an option that is an interval, such as ``example``; return ms, None without a value.

    Raises:
      StatementError: it is not an interval.
    """
    try:
        return None if text is None else interval_text_ms(text)
    except ValueError as error:
        raise StatementError(
            f"invalid {option}: {error}", hint=f"Type {option} '{example}', for example."
        ) from error
