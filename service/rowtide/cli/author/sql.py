"""``rowtide sql``: a prompt on its own engine, or on a running service."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.author.sql_engine import (
    EmbeddedEngine,
    ResultColumns,
    ResultNote,
    ResultRow,
    ServiceEngine,
    history_file,
)
from rowtide.cli.cells import cell, json_cell
from rowtide.cli.errors import read_text, rendered, shown_to_user
from rowtide.cli.pipeline_file import ConfigFile
from rowtide.cli.service_url import CaFile, RunningService, ServiceUrl, TokenFile, running_service
from rowtide.clock import SystemClock
from rowtide.config.reading import load_settings
from rowtide.errors import RowtideError, StatementError
from rowtide.rowtime.text import time_text
from rowtide.runtime.recovery.begin import parse_begin
from rowtide_connectors.errors import ConnectorError

if TYPE_CHECKING:
    from rowtide.cli.author.sql_engine import Engine, QueryEvent

EXAMPLE = "Example: rowtide sql pipeline.sql -e 'SELECT STREAM * FROM orders' --limit 10"
PROMPT, CONTINUED = "rowtide> ", "    ...> "
_WORDS = """
SELECT STREAM FROM WHERE GROUP BY ORDER WITHIN INTERVAL FLOOR ROWTIME JOIN ON OVER PARTITION RANGE PRECEDING
FOLLOWING SHOW DESCRIBE CREATE VIEW TABLE FOREIGN SERVER PUMP INSERT INTO VALUES DROP AS UNION ALL
"""
HELP = "Statements end with a semicolon. \\d lists relations, \\q leaves, Ctrl-C stops a query."


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
    tables returns their contents.

    Exit code 0: executed. 2: a statement is refused. 3: a broker or the service is down.
    """
    with shown_to_user():
        asked = None if service is None else running_service(service, config, token_file, ca_file)
        engine = _engine(pipeline, config, asked, begin, until_end=until_end, follow=follow)
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
) -> Engine:

    if service is not None:
        if pipeline is not None:
            raise StatementError(
                "a pipeline file cannot be combined with --service", hint="Leave out the file."
            )
        return ServiceEngine(service, follow=follow)
    settings = load_settings(config)
    name = None if pipeline is None else settings.pipeline.name or pipeline.stem
    engine = EmbeddedEngine(settings, parse_begin(begin), SystemClock(), until_end=until_end, name=name)
    if pipeline is not None:
        engine.load(read_text(pipeline), str(pipeline))
    return engine


def _shower(*, as_json: bool, limit: int | None) -> Callable[[Iterator[QueryEvent]], None]:
    """Return the object that writes an answer as it arrives."""

    def show(answers: Iterator[QueryEvent]) -> None:
        columns: ResultColumns | None = None
        rows = 0
        for each in answers:
            if isinstance(each, ResultColumns):
                columns = each
                if not as_json:
                    typer.echo(" | ".join((*_leading(each), *each.names)))
            elif isinstance(each, ResultNote):
                typer.echo(each.text, err=True)
            elif columns is not None:
                typer.echo(_json(each, columns) if as_json else _line(each, columns))
                rows += 1
                if rows == limit:
                    return
        if columns is not None and not as_json:
            typer.echo(f"({rows} row{'' if rows == 1 else 's'})")

    return show


def _leading(columns: ResultColumns) -> tuple[str, ...]:
    if not columns.timed:
        return ()
    return ("OP", "ROWTIME") if columns.changes else ("ROWTIME",)


def _line(row: object, columns: ResultColumns) -> str:

    assert isinstance(row, ResultRow)
    time = "" if row.rowtime is None else time_text(row.rowtime)
    cells = map(cell, row.row, columns.types)
    leading = dict(zip(("ROWTIME", "OP"), (time, row.op), strict=True))
    return " | ".join((*(leading[name] for name in _leading(columns)), *cells))


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
            if (word := text.strip()) in ("\\q", "quit", "exit", "\\d", "help", "\\?"):
                text = ""
                if word in ("\\q", "quit", "exit"):
                    return
                typer.echo("\n".join(engine.names()) if word == "\\d" else HELP)
            elif word.endswith(";") or not word:
                statements, text = split_statements(text), ""
                for each in statements:
                    try:
                        show(engine.execute(each))
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
