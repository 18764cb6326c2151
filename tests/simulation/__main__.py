"""Run one case again, such as groups/60/dies@17/pauses@88+30, or the cases of many seeds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from simulation.campaign import Tally, first_violation, report, seeded, shrunk
from simulation.case import Case, parsed
from simulation.quiet import quiet
from simulation.workloads import WORKLOADS
from simulation.world import run

_EVERY = 500
"""After so many cases of a campaign, a line says how far it is."""


def main() -> int:
    """Run what the command line names, and return 1 if it violates an invariant."""
    arguments = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    arguments.add_argument("case", nargs="?", type=parsed, help="the text of a case")
    arguments.add_argument("--journal", action="store_true", help="write every step of the case")
    arguments.add_argument("--workload", choices=WORKLOADS, nargs="*", default=[*WORKLOADS])
    arguments.add_argument("--seeds", type=int, nargs=2, default=[0, 0], help="from, and to before")
    arguments.add_argument("--replicas", type=int, default=1, help="processes that run at a time")
    given = arguments.parse_args()
    with quiet():
        if given.case is not None:
            return _one(given.case, with_journal=given.journal)
        return max(_many(workload, range(*given.seeds), given.replicas) for workload in given.workload)


def _one(case: Case, *, with_journal: bool) -> int:
    outcome = run(case, with_journal=with_journal)
    _write(*outcome.journal)
    _write(f"{outcome.steps} steps, {outcome.processes} processes, {outcome.commits} commits checked")
    _write(outcome.violation or "every invariant holds")
    return outcome.violation is not None


def _many(workload: str, seeds: range, replicas: int) -> int:
    tally, cases = Tally(), seeded(workload, seeds, replicas)
    while (case := next(cases, None)) is not None:
        found = first_violation(_up_to_next_report(case, cases), tally)
        _write(f"{workload}: {tally}")
        if found is not None:
            _write(report(shrunk(found.case)))
            return 1
    return 0


def _up_to_next_report(first: Case, cases: Iterator[Case]) -> Iterator[Case]:
    yield first
    for _ in range(_EVERY - 1):
        if (case := next(cases, None)) is None:
            return
        yield case


def _write(*lines: object) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
