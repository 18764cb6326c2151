"""Guarantees under fire: processes die, pause and lose connections, and each commit is checked."""

from collections.abc import Iterable, Iterator

import pytest

from rowtide.operators.registry import OPERATORS
from rowtide.plan.nodes import nodes_below
from rowtide.plan.outputs import table_nodes
from simulation.campaign import Tally, first_violation, pairs, report, seeded, shrunk, singles
from simulation.case import Case, parsed
from simulation.mutants import MUTANTS
from simulation.quiet import quiet
from simulation.workloads import WORKLOADS, planned
from simulation.world import run

REPLICA_SEEDS = 2
"""Cases of each workload with three replicas in every run of the tests."""
REPLICAS = 3
SEEDS = 6
"""Cases of each workload in every run of the tests."""
MANY_SEEDS = 2_000
"""Cases of each workload in the long run."""
MANY_REPLICA_SEEDS = 500
MUTANT_SEEDS = 200
"""A defect that none of so many cases shows is not found. Most are found by one of the first twenty."""
FOUND_LATE = {
    "a_snapshot_claims_to_be_older": 42,
    "sessions_that_began_read_only_are_kept": 68,
    "a_reader_is_kept_after_an_error": 138,
}
"""The case with which the search begins for defects that the first ones do not show; it continues with the others.

Cases are drawn from the steps of the product, so what a step more or less moves is looked for again: this is only
about time.
"""
PAIRS_EVERY = 13
"""Of the deaths at two steps, the long run tries every thirteenth step, first and second."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet():
        yield


def check(cases: Iterable[Case]) -> Tally:
    """Run cases, and fail with the shortest case of the first violation."""
    tally = Tally()
    found = first_violation(cases, tally)
    if found is not None:
        pytest.fail(report(shrunk(found.case)), pytrace=False)
    assert tally.commits > tally.cases
    return tally


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_commit_is_that_of_a_run_without_faults(workload: str) -> None:
    check(seeded(workload, range(SEEDS)))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_commit_of_replicas_is_that_of_a_run_without_faults(workload: str) -> None:
    tally = check(seeded(workload, range(REPLICA_SEEDS), REPLICAS))
    assert tally.epochs > tally.cases, "some replica has taken over"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_defect_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Drawn from the steps of a product without defects, whichever test comes first.
    first = FOUND_LATE.get(mutant, 0)
    cases = list(seeded("groups", [*range(first, MUTANT_SEEDS), *range(first)]))
    MUTANTS[mutant](monkeypatch)
    assert first_violation(cases) is not None


def test_a_violation_is_shrunk_to_a_case_that_its_text_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = list(seeded("models", range(MUTANT_SEEDS)))
    MUTANTS["a_replay_writes_its_rows_again"](monkeypatch)
    found = first_violation(cases)
    assert found is not None
    shortest = shrunk(found.case)
    assert len(shortest.case.faults) == 1
    assert str(shortest.case) in report(shortest)
    again = run(parsed(str(shortest.case)))
    assert (again.violation, again.steps) == (shortest.violation, shortest.steps)


def test_the_workloads_have_every_operator() -> None:
    found = {
        type(node)
        for workload in WORKLOADS.values()
        for output in table_nodes(planned(workload)).values()
        for node in nodes_below(output)
    }
    assert found >= OPERATORS.keys()


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_many_seeds(workload: str) -> None:
    check(seeded(workload, range(SEEDS, SEEDS + MANY_SEEDS)))


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("replicas", [2, REPLICAS])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_many_seeds_of_replicas(workload: str, replicas: int) -> None:
    check(seeded(workload, range(REPLICA_SEEDS, REPLICA_SEEDS + MANY_REPLICA_SEEDS), replicas))


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_death_at_every_step(workload: str) -> None:
    check(singles(workload))


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_deaths_at_two_steps(workload: str) -> None:
    check(pairs(workload, PAIRS_EVERY))
