"""``rowtide bench``: run benchmarks, one line each."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Annotated

import typer

from rowtide.bench.suite import benchmarks, measure, named
from rowtide.cli.errors import shown_to_user
from rowtide.clock import SystemClock
from rowtide.runners.spark.ivy import cache_directory

EXAMPLE = "Example: rowtide bench W1 W2 --repeat 3"


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Benchmarks to run; without a name, list them.", metavar="NAME..."),
    ] = None,
    events: Annotated[
        int | None, typer.Option(min=1, help="Events of input; by default that of the reference.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Number of runs; the median counts.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object a line.")] = False,
) -> None:
    """Run benchmarks, and compare their output with the reference.

    The name of a family, such as nexmark, runs all of its benchmarks.

    Exit code 0: every output is right. 1: an output differs. 2: the benchmark does not exist.
    """
    known = benchmarks()
    if not names:
        for each in known.values():
            listed = {"bench": each.name, "events": each.events, "about": each.about}
            shown = f"{each.name:<14} {each.events:>10} events  {each.about}"
            typer.echo(json.dumps(listed) if as_json else shown)
        return
    folded = {name.lower(): name for name in known}
    names = [folded.get(name.lower(), name) for name in names]
    wrong = [name for name in names if not named(name, known)]
    if wrong:
        near = get_close_matches(wrong[0], known, 1)
        typer.echo(f'error: benchmark "{wrong[0]}" does not exist', err=True)
        typer.echo(f"hint: {f'Did you mean {near[0]}?' if near else 'rowtide bench lists them.'}", err=True)
        raise typer.Exit(2)
    cache, clock = cache_directory() / "bench", SystemClock()
    right = True
    with shown_to_user():
        for each in [found for name in names for found in named(name, known)]:
            line = measure(each, events=events, repeat=repeat, cache=cache, clock=clock)
            right = right and line["check"] == "ok"
            typer.echo(json.dumps(line) if as_json else _shown(line))
    if not right:
        raise typer.Exit(1)


def _shown(line: dict[str, object]) -> str:
    rate = line["events_per_s"]
    speed = f"{rate:>12,} events/s" if isinstance(rate, int) else "no rate"
    shown = ("_ms", "state_mb", "recovery_s")
    more = "".join(f"  {name} {value}" for name, value in line.items() if name.endswith(shown))
    return (
        f"{line['bench']:<14} {speed}  {line['seconds']:>9} s  {line['rows_out']:>10,} rows out  "
        f"{line['peak_rss_mb']:>8} MB{more}  check {line['check']}"
    )
