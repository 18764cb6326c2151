"""The ``rowtide`` command: one command a file, imported only when it is called."""

from __future__ import annotations

import typer

from rowtide.cli import bench, doctor, test

app = typer.Typer(name="rowtide", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def root() -> None:
    """Streaming SQL from Kafka into a relational database, exactly once, live and on Spark."""


app.command("bench", epilog=bench.EXAMPLE)(bench.bench)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)
app.command("test", epilog=test.EXAMPLE)(test.test)
