"""``rowtide serve-model``: try out a model interactively, over a socket."""

from __future__ import annotations

import inspect
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.errors import shown_to_user
from rowtide.engine import TextDriver
from rowtide.engine.errors import ModelError
from rowtide.engine.loading import load
from rowtide.errors import StatementError
from rowtide.expr.python.loading import look_in
from rowtide.model_server.model_session import ModelSession
from rowtide.model_server.text_server import TextServer

if TYPE_CHECKING:
    from rowtide.model_server.text_server import LineHandler

EXAMPLE = "Example: rowtide serve-model examples/traffic/traffic.py:Traffic --port 4000"


def serve_model(
    model: Annotated[
        str,
        typer.Argument(
            help="The model as in CREATE MODEL, its file instead of its module, or a function without "
            "parameters that returns a TextDriver.",
            metavar="MODULE:CLASS",
        ),
    ],
    options: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An option of the model. Repeatable.", metavar="NAME=VALUE"),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 0,
    echo: Annotated[bool, typer.Option("--echo", help="Repeat each line before its answer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the address as JSON.")] = False,
) -> None:
    """Serve one model to clients that send lines, such as nc: try it without a pipeline.

    Send INPUT,OPCODE,value,... for a row, at,TIME to advance the rowtime, table,NAME to show a table,
    help for help; quit closes the connection, exit stops the server when the last client has left,
    shutdown and Ctrl-C stop it at once. All clients share the model; nothing is saved.

    Exit code 0: stopped. 2: the model does not exist, or the port is taken.
    """
    with shown_to_user():
        given = {}
        for option in options or []:
            name, equals, value = option.partition("=")
            if not equals:
                raise StatementError(f'option "{option}" has no value', hint="Write NAME=VALUE.")
            given[name] = value
        answers = _answers(model, given)
        try:
            server = TextServer(
                answers, host, port, echo=echo, tell=lambda words: typer.echo(words, err=True)
            )
        except OSError as error:
            raise StatementError(f"cannot listen on {host}:{port}: {error}") from error
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: server.stop())
        where = {"host": host, "port": server.port}
        typer.echo(json.dumps(where) if as_json else f"listening on {host}:{server.port}")
        server.run()


def _answers(model: str, options: dict[str, str]) -> LineHandler:

    module, colon, name = model.rpartition(":")
    if colon and module.endswith(".py"):
        file = Path(module)
        if not file.is_file():
            raise ModelError(f'file "{module}" does not exist')
        look_in(str(file.parent.resolve()))
        model = f"{file.stem}:{name}"
    else:
        look_in(str(Path.cwd()))
    found = load(model)
    if inspect.isclass(found) or inspect.signature(found).parameters:
        return ModelSession(model, options)
    if options:
        raise ModelError(f'function "{model}" takes no options')
    driver = found()
    if not isinstance(driver, TextDriver):
        raise ModelError(
            f'"{model}" returns {type(driver).__name__}, not a TextDriver',
            hint="A model takes a ModelSetup as its first parameter.",
        )
    return driver
