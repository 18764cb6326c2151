"""The ``rowtide`` command: one command a file, imported only when it is called."""

from __future__ import annotations

from typing import Annotated

import typer

from rowtide.cli import (
    apply,
    backfill,
    bench,
    bound,
    check,
    connectors,
    demo,
    doctor,
    errors_cmd,
    explain,
    infer,
    plan,
    positions,
    replay,
    run,
    serve_model,
    snapshot,
    sql,
    state,
    test,
)
from rowtide.cli.errors import set_debug
from rowtide.cli.help_format import App, Group
from rowtide.cli.version import show_version

app = App(
    name="rowtide", cls=Group, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
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


app.command("apply", epilog=apply.EXAMPLE)(apply.apply)
app.command("backfill", epilog=backfill.EXAMPLE)(backfill.backfill)
app.command("bench", epilog=bench.EXAMPLE)(bench.bench)
app.command("bound", epilog=bound.EXAMPLE)(bound.bound)
app.command("check", epilog=check.EXAMPLE)(check.check)
app.command("explain", epilog=explain.EXAMPLE)(explain.explain)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.command("doctor", epilog=doctor.EXAMPLE)(doctor.doctor)
app.command("plan", epilog=plan.EXAMPLE)(plan.plan)
app.command("replay", epilog=replay.EXAMPLE)(replay.replay)
app.command("run", epilog=run.EXAMPLE)(run.run)
app.command("serve-model", epilog=serve_model.EXAMPLE)(serve_model.serve_model)
app.command("snapshot", epilog=snapshot.EXAMPLE)(snapshot.snapshot)
app.command("sql", epilog=sql.EXAMPLE)(sql.sql)
app.command("test", epilog=test.EXAMPLE)(test.test)
connectors.app.command("infer", epilog=infer.EXAMPLE)(infer.infer)
app.add_typer(connectors.app)
app.add_typer(errors_cmd.app)
app.add_typer(positions.app)
app.add_typer(state.app)
