"""``rowtide demo``: the main job on an embedded default, with a kill in the middle."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from rowtide.cli.errors import shown_to_user
from rowtide.clock import SystemClock
from rowtide.demo.run import PIPELINE, Demo

if TYPE_CHECKING:
    from rich.progress import TaskID

    from rowtide.demo.run import DemoResult, Display

EXAMPLE = "Example: rowtide demo --json"

SHOWN_ROWS = 10
PROPOSED = (
    "SELECT hour_start, origin, flights, flights - departed AS cancelled, wind, visibility FROM hourly_departures "
    "ORDER BY cancelled DESC, hour_start, origin LIMIT 5"
)
"""A query that a finished demo answers at once: its table has all rows, while its streams have no further ones."""


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Write the result as one JSON object.")] = False,
    keep: Annotated[
        Path | None, typer.Option(help="Keep databases, settings and logs in this folder.", metavar="DIR")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Keep the service running until interrupted.")
    ] = False,
    port: Annotated[
        int, typer.Option(help="Port of the service's pages; 0 takes 8080 for --serve, else a free one.")
    ] = 0,
) -> None:
    """Run a year of New York's flights and weather through an embedded broker into SQLite.

    The demo kills the service half way, restarts it, and compares the result with that of a run without a
    kill.

    Exit code 0: the results are identical. 1: they differ.
    """
    folder = keep or Path(tempfile.mkdtemp(prefix="rowtide-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with shown_to_user(), _display(quiet=as_json) as display:
            course = Demo(folder.resolve(), SystemClock(), display, port)
            result = course.run()
        if as_json:
            typer.echo(json.dumps(_as_json(result)))
        else:
            _show(result)
        if serve:
            course.serve(serving)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    if not result.identical:
        raise typer.Exit(1)


def serving(address: str, config: Path) -> None:
    """Report the service's address, its page, and commands to try."""
    typer.echo(f"The service is at {address} until Ctrl-C; its pipeline is {PIPELINE}.", err=True)
    typer.echo(f"Its page for a browser is {address}/ui/, where {address}/ui/#/sql runs queries.", err=True)
    typer.echo(f'Try: rowtide sql --service {address} -e "{PROPOSED}"', err=True)
    typer.echo(f"     rowtide positions {PIPELINE} --config {config}", err=True)


@contextmanager
def _display(*, quiet: bool) -> Iterator[Display]:
    """Show the progress: a progress bar on a terminal, plain lines elsewhere, nothing if ``quiet``."""
    if quiet:
        yield _Quiet()
    elif sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            yield _Bars(progress)
    else:
        yield _Lines()


class _Quiet:
    """Shows nothing."""

    def stage(self, text: str, total: int | None = None) -> None:
        """See ``Display``."""

    def advance(self, done: int) -> None:
        """See ``Display``."""


class _Lines:
    """One line for each stage."""

    def stage(self, text: str, total: int | None = None) -> None:
        typer.echo(text if total is None else f"{text} ({total:,} messages)", err=True)

    def advance(self, done: int) -> None:
        """See ``Display``."""


class _Bars:
    """One progress bar for each stage."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._text = ""

    def stage(self, text: str, total: int | None = None) -> None:
        if text == self._text and self._task is not None:
            self._progress.update(self._task, total=total)
            return
        if self._task is not None:
            self._progress.stop_task(self._task)
        self._text = text
        self._task = self._progress.add_task(text, total=total)

    def advance(self, done: int) -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=done)


def _as_json(result: DemoResult) -> dict[str, object]:
    return {
        "messages": result.messages,
        "killed_at": result.killed_at,
        "identical": result.identical,
        "differences": list(result.differences),
        "rows": len(result.rows),
        "late": result.late,
        "first_result_s": result.first_result_s,
        "seconds": result.seconds,
        "columns": list(result.columns),
        "table": [list(row) for row in result.rows],
    }


def _show(result: DemoResult) -> None:
    """Show the worst hours, and the differences that the kill caused."""
    table = Table(title="The ten worst hours: departures from New York in 2013", title_justify="left")
    for heading in ("hour, UTC", "from", "flights", "departed", "mean delay", "worst", "wind", "sight"):
        table.add_column(heading, justify="left" if heading in ("hour, UTC", "from") else "right")
    delay = result.columns.index("mean_delay")
    worst = sorted(result.rows, key=lambda row: float(str(row[delay] or 0)), reverse=True)
    for row in worst[:SHOWN_ROWS]:
        table.add_row(*map(_short, row))
    console = Console()
    console.print(table)
    console.print(
        f"{result.messages:,} messages gave {len(result.rows):,} rows; {result.late:,} flights came more "
        f"than three hours after their time and are in the error stream.\n"
        f"Killed after {result.killed_at:,} messages and started again: the tables are "
        + ("identical to those of a run without a kill." if result.identical else "NOT identical:")
    )
    for difference in result.differences:
        console.print(f"  {difference}")
    console.print(f"First result after {result.first_result_s} s, all done after {result.seconds} s.")


def _short(value: object) -> str:
    """Return a value for the table: times to the minute, numbers with one decimal digit."""
    if value is None:
        return ""
    text = str(value)
    if ":" in text:
        return text[5:16]
    return f"{float(text):.1f}" if "." in text else text
