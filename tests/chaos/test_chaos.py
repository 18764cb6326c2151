"""Faults on real parts: a few, and a thousand and more, all in the long run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.brokers import Cluster, cluster
from chaos.campaign import ROUND, Tally, campaign, drawn, play
from chaos.faults import FAULTS
from chaos.postgres import Replicated, replicated
from chaos.world import Violation, World

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.timeout(600)]

FEW = (
    "killed-after-commit",
    "reply-is-lost",
    "taken-over-while-parted",
    "leader-is-killed",
    "standby-that-lags-is-promoted",
)
"""What a single broker, a database without a standby and tests in one process do not show."""

KILLS = tuple(name for name in FAULTS if name.startswith("killed"))


@pytest.fixture(scope="module")
def brokers() -> Iterator[Cluster]:
    with cluster() as made:
        yield made


@pytest.fixture(scope="module")
def database() -> Iterator[Replicated]:
    with replicated() as made:
        yield made


@pytest.mark.long
def test_tables_are_right_after_each_fault(brokers: Cluster, database: Replicated) -> None:
    tally = Tally()
    play(brokers, database, 1, FEW, tally)
    assert tally.faults.total() == len(FEW)
    assert tally.commits > len(FEW)


@pytest.mark.long
def test_a_wrong_table_and_a_lost_position_are_violations(
    brokers: Cluster, database: Replicated, tmp_path: Path
) -> None:
    """What the other tests rely on."""
    world = World(brokers, database, tmp_path, 2)
    try:
        world.must_move_on()
        world.finish()
        world.first.kill()
        assert world.commits_seen
        world.ask("update readings_log set number = -1 where number = (select max(number) from readings_log)")
        world.commits_seen.clear()
        with pytest.raises(Violation, match="log at"):
            world.check()
        world.ask("update rowtide.positions set next_offset = next_offset - 1")
        with pytest.raises(Violation, match="went back"):
            world.check()
    finally:
        world.close()


def test_every_fault_has_its_turn_in_an_order_of_the_seed() -> None:
    names = [*FAULTS]
    one, other = drawn(1, names), drawn(2, names)
    first, second = ([next(each) for _ in names] for each in (one, other))
    assert sorted(first) == sorted(second) == sorted(names)
    assert first != second
    assert first == [each for each, _ in zip(drawn(1, names), names, strict=False)]


@pytest.mark.long
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize(("names", "count"), [(KILLS, 1_000), (tuple(FAULTS), 10 * len(FAULTS))])
def test_many_faults(brokers: Cluster, database: Replicated, names: tuple[str, ...], count: int) -> None:
    tally = campaign(brokers, database, ROUND, count, names)
    assert tally.faults.total() == count
