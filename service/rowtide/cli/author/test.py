"""``rowtide test``: run scenario files."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.errors import shown_to_user
from rowtide.clock import SystemClock
from rowtide.errors import StatementError
from rowtide.testing.batching import parse_batching
from rowtide.testing.junit import write_junit
from rowtide.testing.live import live_runner
from rowtide.testing.reading import find_scenarios
from rowtide.testing.session import ScenarioRun, Verdict

if TYPE_CHECKING:
    from rowtide.testing.runner import RunnerFactory
    from rowtide.testing.session import ScenarioOutcome

EXAMPLE = "Example: rowtide test scenarios/ -k late --batch random:7"


class RunnerName(Enum):
    """The runners of scenarios."""

    LIVE = "live"
    SPARK = "spark"
    KAFKA = "kafka"


def test(
    paths: Annotated[
        list[Path], typer.Argument(help="Scenario files, or folders of them.", metavar="PATH...")
    ],
    runner: Annotated[RunnerName, typer.Option(help="The runner that runs the scenarios.")] = RunnerName.LIVE,
    broker: Annotated[
        str | None,
        typer.Option(
            help="With --runner kafka: the bootstrap brokers (or set ROWTIDE_TEST_BROKER); by default one "
            "is started for the run.",
            metavar="HOST:PORT",
            envvar="ROWTIDE_TEST_BROKER",
            show_envvar=False,
        ),
    ] = None,
    parts: Annotated[
        int,
        typer.Option(
            help="With --runner spark: into how many parts rows are split by key. In one part, the order of rows "
            "of one ROWTIME is compared, too.",
            min=1,
            metavar="N",
        ),
    ] = 3,
    batch: Annotated[
        str,
        typer.Option(
            help="How to split input into batches: N rows each, or random:SEED.", metavar="N|random:SEED"
        ),
    ] = "all",
    junit: Annotated[
        Path | None, typer.Option(help="Write the results as JUnit XML.", metavar="FILE")
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("-k", help="Only scenarios whose name or path contains this; * and ? are wildcards."),
    ] = None,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Replace the expected rows by the actual ones, for review.")
    ] = False,
) -> None:
    """Run scenario files: a pipeline, input in a fixed order, and the expected output.

    A scenario that a runner does not support (on Kafka: a restart) is shown as skipped and is not
    counted.

    Exit code 0: all passed. 1: some failed. 2: a file cannot be read. 3: Spark or the broker does not
    start.
    """
    outcomes: list[ScenarioOutcome] = []
    with shown_to_user(), ExitStack() as held:
        try:
            parse_batching(batch)
            files = find_scenarios(paths)
            make_runner = _runner_factory(runner, broker, parts, held)
        except (ValueError, StatementError) as error:
            _refuse(error.render() if isinstance(error, StatementError) else f"error: {error}")
        for outcome in ScenarioRun(make_runner, SystemClock(), batch, pattern, rewrite).run(files):
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
    counted = Counter(outcome.verdict for outcome in outcomes)
    failed, unreadable = counted[Verdict.FAILED], counted[Verdict.UNREADABLE]
    typer.echo(f"{counted[Verdict.PASSED] + counted[Verdict.REWRITTEN]} passed, {failed} failed")
    if failed or unreadable:
        raise typer.Exit(2 if unreadable else 1)


def _runner_factory(name: RunnerName, broker: str | None, parts: int, held: ExitStack) -> RunnerFactory:
    """Return the factory of the runners; ``held`` releases the resources that they share."""
    if name is RunnerName.KAFKA:
        from rowtide.testing.on_kafka import KafkaRunners

        return held.enter_context(KafkaRunners(broker))
    if name is RunnerName.SPARK:
        from rowtide.testing.on_spark import SparkRunners

        return held.enter_context(SparkRunners(parts=parts))

    return live_runner


def _refuse(message: str) -> None:
    typer.echo(message, err=True)
    raise typer.Exit(2)
