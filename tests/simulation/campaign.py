"""Campaigns: many cases, and the shortest case of a violation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from simulation.case import Case, Fault, Kind, drawn
from simulation.world import Outcome, Step, run

MESSAGES = 60
"""The messages of a case: four or more commits, and rows that wait in every operator."""


@dataclass(slots=True)
class Tally:
    """What a campaign has run: cases, commits that were checked, processes and steps."""

    cases: int = 0
    commits: int = 0
    processes: int = 0
    steps: int = 0
    epochs: int = 0
    ended: int = 0

    def __str__(self) -> str:
        """Return the numbers in one line."""
        return (
            f"{self.cases} cases, {self.commits} commits checked, {self.processes} processes, "
            f"{self.epochs} epochs, {self.ended} sessions ended, {self.steps} steps"
        )

    def add(self, outcome: Outcome) -> None:
        """Count a run."""
        self.cases += 1
        self.commits += outcome.commits
        self.processes += outcome.processes
        self.steps += outcome.steps
        self.epochs += outcome.epochs
        self.ended += outcome.ended


@cache
def journal_of(workload: str, replicas: int = 1, faults: tuple[Fault, ...] = ()) -> Sequence[Step]:
    """Return the steps of a workload with these faults, or without any."""
    return run(Case(workload, MESSAGES, faults, replicas), with_journal=True).journal


@cache
def calls_of(workload: str, replicas: int = 1) -> Sequence[Sequence[int]]:
    """Return the steps of a workload without faults from its first poll on, by kind of call."""
    found: dict[str, list[int]] = {}
    for made in journal_of(workload, replicas):
        if found or made.name.startswith("broker: poll"):
            found.setdefault(made.name, []).append(made.step)
    return list(found.values())


def steps_of(workload: str) -> int:
    """Return the number of steps of a workload without faults."""
    return max(map(max, calls_of(workload)))


def seeded(workload: str, seeds: Iterable[int], replicas: int = 1) -> Iterator[Case]:
    """Yield a case for each seed."""
    calls = calls_of(workload, replicas)
    return (drawn(seed, workload, MESSAGES, calls, replicas) for seed in seeds)


def singles(workload: str, every: int = 1) -> Iterator[Case]:
    """Yield a death at every step, or at every n-th."""
    for step in range(1, steps_of(workload) + 1, every):
        yield Case(workload, MESSAGES, (Fault(step, Kind.DIES),))


def struck(
    workload: str,
    call: str,
    fault: Fault,
    *,
    after: tuple[Fault, ...] = (),
    replicas: int = 1,
    every: int = 1,
) -> Iterator[Case]:
    """Yield a fault at each step, or at every n-th, whose call has a name that begins so; ``after`` other faults."""
    begin = max((each.step for each in after), default=0)
    journal = journal_of(workload, replicas, after)
    called = [made.step for made in journal if made.step > begin and made.name.startswith(call)]
    for step in called[::every]:
        yield Case(workload, MESSAGES, (*after, replace(fault, step=step)), replicas)


def pairs(workload: str, every: int = 1) -> Iterator[Case]:
    """Yield two deaths at every two steps, the second one up to a whole run after the first."""
    steps = steps_of(workload)
    for first in range(1, steps + 1, every):
        for second in range(first + 1, first + steps + 1, every):
            yield Case(workload, MESSAGES, (Fault(first, Kind.DIES), Fault(second, Kind.DIES)))


def first_violation(cases: Iterable[Case], tally: Tally | None = None) -> Outcome | None:
    """Run cases up to the first one that violates an invariant, and return how that one ended."""
    for case in cases:
        outcome = run(case)
        if tally is not None:
            tally.add(outcome)
        if outcome.violation is not None:
            return outcome
    return None


def shrunk(case: Case) -> Outcome:
    """Return a violation with as few faults and messages as this case can do without; it violates an invariant."""
    found = run(case)
    while True:
        smaller = next((each for each in map(run, _smaller(found.case)) if each.violation is not None), None)
        if smaller is None:
            return found
        found = smaller


def report(outcome: Outcome) -> str:
    """Return what is wrong, and the command that replays it."""
    return (
        f"{outcome.violation}\nRun it again: PYTHONPATH=tests python -m simulation '{outcome.case}' --journal"
    )


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases that are one thing shorter."""
    for at in range(len(case.faults)):
        yield replace(case, faults=case.faults[:at] + case.faults[at + 1 :])
    for messages in (case.messages // 2, case.messages - 5, case.messages - 1):
        if 0 < messages < case.messages:
            yield replace(case, messages=messages)
    for at, fault in enumerate(case.faults):
        if fault.steps > 1:
            shorter = replace(fault, steps=fault.steps // 3)
            yield replace(case, faults=(*case.faults[:at], shorter, *case.faults[at + 1 :]))
