"""``rowtide sql``: a prompt on its own engine, or on a running service."""

from __future__ import annotations

import json
import pydoc
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.author.sql_engine import SILENCE_S, ServiceEngine, history_file
from rowtide.cli.cells import cell, json_cell
from rowtide.cli.errors import read_text, rendered, shown_to_user
from rowtide.cli.pipeline_file import ConfigFile
from rowtide.cli.service_url import CaFile, RunningService, ServiceUrl, TokenFile, running_service
from rowtide.clock import SystemClock
from rowtide.config.reading import load_settings
from rowtide.embedded.engine import EmbeddedEngine
from rowtide.embedded.events import ResultColumns, ResultNote, ResultRow
from rowtide.errors import RowtideError, StatementError
from rowtide.rowtime.text import time_text
from rowtide.runtime.recovery.begin import parse_begin
from rowtide_connectors.errors import ConnectorError

if TYPE_CHECKING:
    from rowtide.embedded.events import Engine, QueryEvent

EXAMPLE = "Example: rowtide sql pipeline.sql -e 'SELECT STREAM * FROM orders' --limit 10"
PROMPT, CONTINUED = "rowtide> ", "    ...> "
_WORDS = """
SELECT STREAM FROM WHERE GROUP BY ORDER WITHIN INTERVAL FLOOR ROWTIME JOIN ON OVER PARTITION RANGE PRECEDING
FOLLOWING SHOW DESCRIBE PRINT CREATE VIEW TABLE FOREIGN SERVER PUMP INSERT INTO VALUES DROP AS UNION ALL
"""
HELP = (
    "Statements end with a semicolon. \\d lists relations, \\d NAME columns, PRINT NAME; messages, with --service last "
    "rows. \\q leaves, Ctrl-C stops a query."
)
RELATIONS = "SELECT table_name, table_type FROM INFORMATION_SCHEMA.TABLES ORDER BY table_name"


def sql(
    pipeline: Annotated[
        Path | None, typer.Argument(help="Statements to run first.", metavar="[PIPELINE.sql]")
    ] = None,
    statements: Annotated[
        list[str] | None,
        typer.Option("--execute", "-e", help="Execute this statement and exit. Repeatable.", metavar="SQL"),
    ] = None,
    config: ConfigFile = None,
    service: ServiceUrl = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    begin: Annotated[
        str,
        typer.Option("--from", help="Where to start reading topics.", metavar="earliest|TIME"),
    ] = "earliest",
    until_end: Annotated[
        bool, typer.Option("--until-end", help="End a query at the ends that its topics have when it starts.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue with the changes of a service's tables.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help="Maximum number of rows of a query.", min=1)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write a JSON object a row.")] = False,
) -> None:
    """Execute SQL on an engine in this process, or queries on a running service with --service.

    On its own engine, a query sees the rows of INSERT statements and reads the foreign streams; nothing
    is committed and pumps into foreign tables do not run. On a service, a query starts at the pipeline's
    current positions and state. A query on streams runs until Ctrl-C, --limit or --until-end; a query on
    tables returns their contents. Foreign tables are read from their database, as they are committed. PRINT
    shows the last rows that any relation of the service has given.

    Exit code 0: executed. 2: a statement is refused. 3: a broker or the service is down.
    """
    with shown_to_user():
        asked = None if service is None else running_service(service, config, token_file, ca_file)
        engine = _engine(pipeline, config, asked, begin, until_end=until_end, follow=follow, limit=limit)
        show = _shower(as_json=as_json, limit=limit)
        if statements:
            for each in statements:
                for text in split_statements(each):
                    show(engine.execute(text))
            return
    if sys.stdin.isatty():
        _prompt(engine, show)
        return
    with shown_to_user():
        for text in split_statements(sys.stdin.read()):
            show(engine.execute(text))


def split_statements(text: str) -> list[str]:
    """Return the statements of a text, without the semicolons that end them."""
    found, start, at = [], 0, 0
    while at < len(text):
        if text.startswith("--", at):
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
        elif text.startswith("/*", at):
            end = text.find("*/", at)
            at = len(text) if end < 0 else end + 2
        elif text[at] in "'\"":
            end = text.find(text[at], at + 1)
            at = len(text) if end < 0 else end + 1
        elif text[at] == ";":
            found.append(text[start:at])
            at = start = at + 1
        else:
            at += 1
    found.append(text[start:])
    return [each.strip() for each in found if each.strip()]


def _engine(
    pipeline: Path | None,
    config: Path | None,
    service: RunningService | None,
    begin: str,
    *,
    until_end: bool,
    follow: bool,
    limit: int | None,
) -> Engine:

    if service is not None:
        if pipeline is not None:
            raise StatementError(
                "a pipeline file cannot be combined with --service", hint="Leave out the file."
            )
        silence_s = SILENCE_S if sys.stderr.isatty() else None
        return ServiceEngine(service, follow=follow, limit=limit, silence_s=silence_s)
    settings = load_settings(config)
    name = None if pipeline is None else settings.pipeline.name or pipeline.stem
    engine = EmbeddedEngine(settings, parse_begin(begin), SystemClock(), until_end=until_end, name=name)
    if pipeline is not None:
        engine.load(read_text(pipeline), str(pipeline))
    return engine


def _shower(*, as_json: bool, limit: int | None) -> Callable[[Iterator[QueryEvent]], None]:
    """Return the object that writes an answer as it arrives."""
    is_terminal = sys.stdout.isatty()

    def show(answers: Iterator[QueryEvent]) -> None:
        columns: ResultColumns | None = None
        rows = 0
        lines = Lines(aligned=False)
        for each in answers:
            if isinstance(each, ResultColumns):
                columns = each
                # The rows of a table come all at once, those of a stream one after another.
                lines = Lines(aligned=is_terminal, at_once=not each.timed)
                if not as_json:
                    lines.write((*_leading(each), *each.names))
            elif isinstance(each, ResultNote):
                typer.echo(each.text, err=True)
            elif columns is not None:
                if as_json:
                    typer.echo(_json(each, columns))
                else:
                    lines.write(_cells(each, columns))
                rows += 1
                if rows == limit:
                    break
        lines.end()
        if columns is not None and not as_json and rows != limit:
            typer.echo(f"({rows} row{'' if rows == 1 else 's'})")

    return show


class Lines:
    """Writes rows of cells, with columns that are ``aligned`` as far as their widths are known.

    ``at_once``: the rows wait for the end, so that all widths are known, and go to the pager (``$PAGER``, or less) if
    the terminal has fewer lines.
    """

    def __init__(self, *, aligned: bool, at_once: bool = False) -> None:
        self._aligned = aligned
        self._at_once = aligned and at_once
        self._widths: list[int] = []
        self._waiting: list[Sequence[str]] = []

    def write(self, cells: Sequence[str]) -> None:
        """Write a row, or let it wait."""
        known = self._widths or [0] * len(cells)
        self._widths = [max(width, len(each)) for width, each in zip(known, cells, strict=True)]
        self._waiting.append(cells)
        if not self._at_once:
            self.end()

    def end(self) -> None:
        """Write the rows that wait."""
        lines = []
        for cells in self._waiting:
            widths = self._widths if self._aligned else [0] * len(cells)
            padded = [each.ljust(width) for each, width in zip(cells[:-1], widths, strict=False)]
            lines.append(" | ".join((*padded, *cells[-1:])))
        self._waiting.clear()
        if self._at_once and len(lines) >= shutil.get_terminal_size().lines:
            pydoc.pager("\n".join(lines) + "\n")
            return
        for line in lines:
            typer.echo(line)


def _leading(columns: ResultColumns) -> tuple[str, ...]:
    if not columns.timed:
        return ()
    return ("OP", "ROWTIME") if columns.changes else ("ROWTIME",)


def _cells(row: object, columns: ResultColumns) -> Sequence[str]:

    assert isinstance(row, ResultRow)
    time = "" if row.rowtime is None else time_text(row.rowtime)
    cells = map(cell, row.row, columns.types)
    leading = dict(zip(("ROWTIME", "OP"), (time, row.op), strict=True))
    return (*(leading[name] for name in _leading(columns)), *cells)


def _json(row: object, columns: ResultColumns) -> str:

    assert isinstance(row, ResultRow)
    document: dict[str, object] = {"OP": row.op} if columns.changes else {}
    if row.rowtime is not None:
        document["ROWTIME"] = row.rowtime
    return json.dumps(
        document | dict(zip(columns.names, map(json_cell, row.row, columns.types), strict=True))
    )


def _prompt(engine: Engine, show: Callable[[Iterator[QueryEvent]], None]) -> None:
    """Read statements from the terminal, with history and completion, until the user leaves."""
    typer.echo(HELP)
    with _line_editing(engine):
        text = ""
        while True:
            try:
                text += input(CONTINUED if text else PROMPT) + "\n"
            except EOFError:
                typer.echo()
                return
            except KeyboardInterrupt:
                text = ""
                typer.echo()
                continue
            word = text.strip()
            if word in ("\\q", "quit", "exit"):
                return
            if word in ("help", "\\?"):
                typer.echo(HELP)
            elif word.startswith("\\"):
                _answered(engine, show, [word])
            elif word.endswith(";") or not word:
                _answered(engine, show, split_statements(text))
            else:
                continue
            text = ""


def _described(command: str) -> str:
    """Return the statement of a command that begins with a backslash.

    Raises:
      StatementError: the prompt does not have the command.
    """
    word, _, name = command.rstrip("; ").partition(" ")
    if word == "\\d":
        return f"DESCRIBE {name}" if name.strip() else RELATIONS
    raise StatementError(f"command {word} does not exist", hint=HELP)


def _answered(
    engine: Engine, show: Callable[[Iterator[QueryEvent]], None], statements: Sequence[str]
) -> None:
    """Execute statements of the prompt, which continues after an error and after Ctrl-C."""
    for each in statements:
        try:
            show(engine.execute(_described(each) if each.startswith("\\") else each))
        except KeyboardInterrupt:
            typer.echo()
        except (RowtideError, ConnectorError) as error:
            typer.echo(rendered(error), err=True)


@contextmanager
def _line_editing(engine: Engine) -> Iterator[None]:
    """Add a history, kept in a file, and completion to the prompt, if Python supports them."""
    try:
        import readline
    except ImportError:
        yield
        return

    def complete(typed: str, state: int) -> str | None:
        offered = [*_WORDS.split(), *engine.names()]
        fitting = [each for each in dict.fromkeys(offered) if each.lower().startswith(typed.lower())]
        return fitting[state] if state < len(fitting) else None

    with suppress(OSError):
        readline.read_history_file(history_file())
    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with suppress(OSError):
            readline.set_history_length(1_000)
            readline.write_history_file(history_file())
