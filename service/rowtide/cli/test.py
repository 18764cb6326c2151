"""``rowtide test``: run scenario files."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from contextlib import ExitStack

    from rowtide.testing.runner import RunnerFactory
    from rowtide.testing.session import Outcome

EXAMPLE = "Example: rowtide test scenarios/ -k late --batch random:7"


class RunnerName(Enum):
    """What scenarios can be played on."""

    LIVE = "live"
    SPARK = "spark"
    KAFKA = "kafka"


def test(
    paths: Annotated[
        list[Path], typer.Argument(help="Scenario files, or folders of them.", metavar="PATH...")
    ],
    runner: Annotated[RunnerName, typer.Option(help="What plays the scenarios.")] = RunnerName.LIVE,
    batch: Annotated[
        str,
        typer.Option(
            help="How input is cut into trays: N rows each, or random:SEED.", metavar="N|random:SEED"
        ),
    ] = "all",
    junit: Annotated[
        Path | None, typer.Option(help="Write the outcomes as JUnit XML.", metavar="FILE")
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("-k", help="Only scenarios whose name or path contains this; * and ? stand for any."),
    ] = None,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Fill in what came out, for you to review.")
    ] = False,
) -> None:
    """Run scenario files: a pipeline, input in a fixed order, and what must come out.

    Exit code 0: all passed. 1: some failed. 2: a file cannot be read. 3: Spark does not start.
    """
    from contextlib import ExitStack

    from rowtide.cli.errors import shown_to_user
    from rowtide.clock import SystemClock
    from rowtide.errors import StatementError
    from rowtide.testing.batching import parse_batching
    from rowtide.testing.junit import write_junit
    from rowtide.testing.reading import find_scenarios
    from rowtide.testing.session import Session, Verdict

    outcomes: list[Outcome] = []
    with shown_to_user(), ExitStack() as held:
        try:
            parse_batching(batch)
            files = find_scenarios(paths)
            make_runner = _runner_factory(runner, held)
        except (ValueError, StatementError) as error:
            _refuse(error.render() if isinstance(error, StatementError) else f"error: {error}")
        for outcome in Session(make_runner, SystemClock(), batch, pattern, rewrite).run(files):
            outcomes.append(outcome)
            typer.echo(outcome.headline())
            if outcome.difference is not None:
                typer.echo(outcome.report())
    if junit is not None:
        try:
            write_junit(junit, outcomes)
        except OSError as error:
            _refuse(f'error: file "{junit}" cannot be written: {error.strerror}')
    if not outcomes:
        _refuse(f'error: no scenario matches "{pattern}"')
    failed = sum(outcome.verdict is Verdict.FAILED for outcome in outcomes)
    unreadable = sum(outcome.verdict is Verdict.UNREADABLE for outcome in outcomes)
    typer.echo(f"{len(outcomes) - failed - unreadable} passed, {failed} failed")
    if failed or unreadable:
        raise typer.Exit(2 if unreadable else 1)


def _runner_factory(name: RunnerName, held: ExitStack) -> RunnerFactory:
    """Give what makes the runners; ``held`` gives back what they share."""
    if name is RunnerName.KAFKA:
        from rowtide.errors import StatementError

        raise StatementError(
            'runner "kafka" does not exist yet', hint="Scenarios run with --runner live or --runner spark."
        )
    if name is RunnerName.SPARK:
        from rowtide.testing.on_spark import SparkRunners

        return held.enter_context(SparkRunners())
    from rowtide.testing.live import live_runner

    return live_runner


def _refuse(message: str) -> None:
    typer.echo(message, err=True)
    raise typer.Exit(2)
