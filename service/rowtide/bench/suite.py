"""Definition, timing and output line of a benchmark (``rowtide bench``).

The time is that of the work alone: input and operators are ready before the clock starts, and a small
run that does not count has compiled the kernels. If the output of a benchmark is wrong, its speed
does not count: ``check`` reports the difference.
"""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rowtide.clock import Clock

WARM_EVENTS = 20_000
"""Events of the run that compiles kernels."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run: seconds of work, output rows, and ``ok`` or the difference from the reference.

    ``more`` has other measurements by name, whose median is reported, too.
    """

    seconds: float
    rows_out: int
    check: str
    more: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark. ``run`` takes the number of events, the cache folder and a clock."""

    name: str
    about: str
    events: int
    run: Callable[[int, Path, Clock], Outcome]
    warm: bool = True


MODULES = (
    "stateless",
    "functions",
    "windows",
    "running",
    "keys",
    "joins",
    "by_hand",
    "engine",
    "kafka",
    "ingest",
    "start",
    "latency",
    "recovery",
    "nexmark.running",
    "linear_road.running",
    "backfill",
    "spark_live",
)
"""Modules of this package that have benchmarks, in ``BENCHMARKS``."""


def benchmarks() -> Mapping[str, Benchmark]:
    """Return every benchmark by name."""
    found: dict[str, Benchmark] = {}
    for name in MODULES:
        module = import_module(f"rowtide.bench.{name}")
        found |= {each.name: each for each in module.BENCHMARKS}
    return found


def named(name: str, known: Mapping[str, Benchmark]) -> list[Benchmark]:
    """Return the benchmark of a name, or all of a family, such as nexmark; none if there is neither."""
    if name in known:
        return [known[name]]
    return [each for each in known.values() if each.name.startswith(f"{name}-")]


def measure(
    benchmark: Benchmark, *, events: int | None, repeat: int, cache: Path, clock: Clock
) -> dict[str, object]:
    """Run a benchmark ``repeat`` times and return its line: the median of the seconds, the worst check."""
    count = events or benchmark.events
    if benchmark.warm:
        benchmark.run(min(count, WARM_EVENTS), cache, clock)
    outcomes = [benchmark.run(count, cache, clock) for _ in range(repeat)]
    seconds = statistics.median(outcome.seconds for outcome in outcomes)
    wrong = [outcome.check for outcome in outcomes if outcome.check != "ok"]
    return {
        "bench": benchmark.name,
        "events": count,
        "seconds": round(seconds, 4),
        "events_per_s": round(count / seconds) if seconds else None,
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "rows_out": outcomes[-1].rows_out,
        **{
            name: round(statistics.median(outcome.more[name] for outcome in outcomes), 3)
            for name in outcomes[-1].more
        },
        "check": wrong[0] if wrong else "ok",
        "version": _version(),
        "cpus": os.cpu_count(),
    }


def close_to(found: float, wanted: float, tolerance: float = 1e-9) -> str:
    """Return ``ok``, or how a checksum differs from the reference."""
    if abs(found - wanted) <= tolerance * abs(wanted):
        return "ok"
    return f"checksum is {found!r}, the reference {wanted!r}"


def _version() -> str:
    try:
        return version("rowtide")
    except PackageNotFoundError:
        return "unreleased"
