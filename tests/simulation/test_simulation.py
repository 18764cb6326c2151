"""Guarantees under fire: processes die, pause and lose connections, and each commit is checked."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from rowtide.operators.registry import OPERATORS
from rowtide.plan.nodes import nodes_below
from rowtide.plan.outputs import table_nodes
from simulation import model
from simulation.campaign import (
    MESSAGES,
    Tally,
    first_violation,
    pairs,
    report,
    seeded,
    shrunk,
    singles,
    struck,
)
from simulation.case import Case, Fault, Kind, parsed
from simulation.contents import contents
from simulation.files import database_file
from simulation.model import Replayed
from simulation.mutants import MUTANTS
from simulation.quiet import quiet
from simulation.workloads import WORKLOADS, planned
from simulation.world import World, run

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
WRITTEN = "database: update rowtide_pipelines, reply"
"""A leader has written the record, with a claim, a commit or a heartbeat."""
WRITTEN_EVERY = 9
SUSPENDED = 2_000
"""Steps of others in which they have the time to take over, and to end."""
SUSPENDED_EVERY = 17
"""At every so many calls of the database, a process is suspended in every run of the tests."""
LONG_SUSPENDED_EVERY = 5
"""And in the long run."""
FOUND_BY: Mapping[str, Callable[[], Iterable[Case]]] = {
    # The second process stores a snapshot with each commit, the first one in parts.
    "a_snapshot_claims_to_be_older": partial(
        struck, "models", "database: commit, reply", Fault(0, Kind.DIES), after=(Fault(1, Kind.DIES),)
    ),
    "a_reader_is_kept_after_an_error": partial(
        struck, "groups", "broker: poll READINGS, reply", Fault(0, Kind.BREAKS, 1)
    ),
    "sessions_that_began_read_only_are_kept": partial(
        struck, "groups", "database: update rowtide_pipelines", Fault(0, Kind.READ_ONLY, 1)
    ),
    "silent_sessions_are_waited_for": partial(
        struck, "groups", "database: ", Fault(0, Kind.PAUSES, SUSPENDED), every=SUSPENDED_EVERY
    ),
}
"""Where the search begins for defects that the first seeds do not show; it continues with all of them."""
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
    leaders = struck(workload, WRITTEN, Fault(0, Kind.PAUSES, 1_000), replicas=REPLICAS, every=WRITTEN_EVERY)
    tally = check(chain(seeded(workload, range(REPLICA_SEEDS), REPLICAS), leaders))
    assert tally.epochs > tally.cases, "some replica has taken over"
    assert tally.ended > 0, "some leader has lost its session"


@pytest.mark.parametrize(("replicas", "every"), [(1, SUSPENDED_EVERY), (2, 2 * SUSPENDED_EVERY)])
def test_a_process_that_is_suspended_within_a_transaction_loses_its_session(
    replicas: int, every: int
) -> None:
    tally = check(suspended("groups", replicas, every))
    assert tally.ended > tally.cases // 5
    assert tally.epochs > tally.cases, "others have taken over"


def suspended(workload: str, replicas: int, every: int) -> Iterator[Case]:
    """Yield a process that is suspended for long, at its calls of the database: from the first migration on."""
    return struck(workload, "database: ", Fault(0, Kind.PAUSES, SUSPENDED), replicas=replicas, every=every)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_defect_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Drawn from the steps of a product without defects, whichever test comes first.
    cases = list(chain(FOUND_BY.get(mutant, list)(), seeded("groups", range(MUTANT_SEEDS))))
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


WRONG = (
    "delete from owned where rowid = (select max(rowid) from owned)",
    "insert into lived values ('ulm again', 1)",
    "update rowtide_positions set next_offset = next_offset / 2 where relation = 'READINGS'",
)
READ = (
    "update rowtide_statements set commits = commits + 1000",
    "update rowtide_pipelines set changed_at = 0",
)
"""What replays read, and which may come to the same."""
SIGNS_OF_LIFE = "update rowtide_pipelines set epoch = epoch + 1, beats = 7, holder = 'another'"


def test_a_state_is_compared_with_a_replay_once_and_again_when_anything_has_changed_that_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = WORKLOADS["statements"]
    known: set[bytes] = set()

    def difference(file: Path) -> str | None:
        with closing(sqlite3.connect(file)) as connection:
            held = contents(connection, planned(workload))
        return Replayed(workload, MESSAGES, file, known).difference(held)

    def changed(number: int, statement: str) -> Path:
        path = tmp_path / f"{number}.db"
        with closing(sqlite3.connect(file)) as before, closing(sqlite3.connect(path)) as after:
            before.backup(after)
            assert after.execute(statement).rowcount > 0
            after.commit()
        return path

    with database_file(workload) as file:
        assert World(Case("statements", MESSAGES, ()), file, with_journal=False).run().violation is None
        assert difference(file) is None
        assert len(known) == 1
        for number, statement in enumerate(WRONG):
            assert difference(changed(number, statement)) is not None, statement
        assert len(known) == 1
        signs = changed(len(WRONG), SIGNS_OF_LIFE)
        read = [changed(number, statement) for number, statement in enumerate(READ, len(WRONG) + 1)]
        monkeypatch.setattr(model, "compare", None)
        assert difference(signs) is None
        for each in read:
            with pytest.raises(TypeError):
                difference(each)


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
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_process_is_suspended_at_many_calls_of_the_database(workload: str, replicas: int) -> None:
    check(suspended(workload, replicas, LONG_SUSPENDED_EVERY))


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
