"""The ``rowtide`` command: one file for each command, imported only when it is called."""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from rowtide.cli.errors import set_debug
from rowtide.cli.help_format import App
from rowtide.cli.lazy_commands import LazyGroup
from rowtide.cli.version import show_version


class Root(LazyGroup):
    """All commands, in the order in which the help lists them."""

    summaries: ClassVar = {
        "apply": "Apply a changed pipeline file in one commit, keeping the state of unchanged operators.",
        "archive": "Copy all messages of topics to files of Parquet, each exactly once, until it is stopped.",
        "backfill": "Process history with Spark up to a cut; the live service continues from there.",
        "bench": "Run benchmarks, and compare their output with the reference.",
        "bound": "Write a bound record to a topic: it releases waiting rows and makes earlier rows late.",
        "check": "Parse, type-check and plan a pipeline, and show what it defines; change nothing.",
        "explain": "Show the plan of every pump, or of one relation, after each stage of planning.",
        "demo": "Run a year of New York's flights and weather through an embedded broker into SQLite.",
        "doctor": "Report what this machine has and lacks, and what to install.",
        "execute": "Change rows of engine tables while the pipeline runs, exactly once.",
        "plan": "Compare a pipeline file with the committed plan of the pipeline; change nothing.",
        "replay": "Recompute the committed rows of a pipeline from its log, and show or compare them.",
        "run": "Run a pipeline until it is stopped: read its topics and commit its rows exactly once.",
        "serve-model": "Serve one model to clients that send lines, such as nc: try it without a pipeline.",
        "snapshot": "Make the running service of a pipeline commit now, with a snapshot of its state.",
        "sql": "Execute SQL on an engine in this process, or queries on a running service with --service.",
        "test": "Run scenario files: a pipeline, input in a fixed order, and the expected output.",
        "connectors": "List and describe connectors, and check connections.",
        "errors": "List late and rejected rows, and resubmit them.",
        "positions": "Show the committed position of each partition (the default), or skip a message.",
        "state": "Show the stored state of a pipeline, or drop it.",
    }
    modules: ClassVar = {"errors": "errors_cmd"}


app = App(
    name="rowtide", cls=Root, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


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
