"""The ``rowtide`` command: one module for each command, imported only when it is called.

Rooms: ``author``, to write and try a pipeline; ``run``; ``operate``, while it runs; ``pages`` of the reference.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from rowtide.cli.errors import set_debug
from rowtide.cli.help_format import App
from rowtide.cli.lazy_commands import LazyGroup
from rowtide.cli.version import show_version


class Root(LazyGroup):
    """All commands, in the order in which the help lists them."""

    listed: ClassVar = {
        "apply": (
            "operate",
            "Apply a changed pipeline file in one commit, keeping the state of unchanged operators.",
        ),
        "archive": (
            "run",
            "Copy all messages of topics to files of Parquet, each exactly once, until it is stopped.",
        ),
        "backfill": ("run", "Process history with Spark up to a cut; the live service continues from there."),
        "bench": ("author", "Run benchmarks, and compare their output with the reference."),
        "bound": (
            "operate",
            "Write a bound record to a topic: it releases waiting rows and makes earlier rows late.",
        ),
        "check": (
            "author",
            "Parse, type-check and plan a pipeline, and show what it defines; change nothing.",
        ),
        "explain": (
            "author",
            "Show the plan of every pump, or of one relation, after each stage of planning.",
        ),
        "demo": (
            "author",
            "Run a year of New York's flights and weather through an embedded broker into SQLite.",
        ),
        "doctor": ("author", "Report what this machine has and lacks, and what to install."),
        "execute": ("operate", "Change rows of engine tables while the pipeline runs, exactly once."),
        "init": (
            "author",
            "Write a project that runs at once: a pipeline, its scenario, settings and servers.",
        ),
        "plan": (
            "operate",
            "Compare a pipeline file with the committed plan of the pipeline; change nothing.",
        ),
        "replay": (
            "operate",
            "Recompute the committed rows of a pipeline from its log, and show or compare them.",
        ),
        "run": (
            "run",
            "Run a pipeline until it is stopped: read its topics and commit its rows exactly once.",
        ),
        "serve-model": (
            "author",
            "Serve one model to clients that send lines, such as nc: try it without a pipeline.",
        ),
        "show": (
            "operate",
            "Show the text of the file that runs under a pipeline's name, as its last start has stored it.",
        ),
        "snapshot": (
            "operate",
            "Make the running service of a pipeline commit now, with a snapshot of its state.",
        ),
        "sql": (
            "author",
            "Execute SQL on an engine in this process, or queries on a running service with --service.",
        ),
        "test": (
            "author",
            "Run scenario files: a pipeline, input in a fixed order, and the expected output.",
        ),
        "connectors": ("author", "List and describe connectors, and check connections."),
        "errors": ("operate", "List late and rejected rows, and resubmit them."),
        "positions": (
            "operate",
            "Show the committed position of each partition (the default), or skip a message.",
        ),
        "state": ("operate", "Show the stored state of a pipeline, or drop it."),
    }


app = App(name="rowtide", cls=Root, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show errors with their traceback.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version of the program.", is_eager=True, callback=show_version
        ),
    ] = False,
) -> None:
    """Streaming SQL from Kafka into a relational database, exactly once, live and on Spark."""
    del version
    set_debug(debug)
