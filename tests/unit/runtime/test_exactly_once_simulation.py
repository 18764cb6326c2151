"""A seeded simulation: die at every crash point, start again, compare with a run that never died."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from rowtide.clock import SystemClock
from rowtide.runtime.crashpoints import (
    POINTS,
    CrashAt,
    CrashPoints,
    NoCrash,
    SimulatedCrash,
    raise_crash,
)
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide_connectors.errors import UnavailableError
from support.runtime import World, fill, readings_plan
from support.seeds import seeds

PACES = {
    "with snapshots": Pace(100, 60, 100, None, snapshot_part_bytes=1),
    "without snapshots": Pace(100, 60, None, None),
}


def straight(seed: int) -> tuple[object, ...]:
    """One process reads everything in one go and commits once."""
    world = filled_world(seed, cut=None)
    Service(world.context(pace=Pace(10**9, 10**9, None, None))).run(until_end=True)
    return world.state()


def filled_world(seed: int, cut: int | None) -> World:
    topic = InMemoryTopic("readings", 3, None if cut is None else random.Random(cut))
    fill(topic, random.Random(seed))
    return World(topic)


def run_until_done(world: World, pace: Pace, crash: Callable[[int], CrashPoints]) -> int:
    """Start processes one after the other until one gets to the end; give how many died."""
    for attempt in range(60):
        try:
            Service(world.context(pace=pace, crash_points=crash(attempt))).run(until_end=True)
        except SimulatedCrash:
            continue
        return attempt
    raise AssertionError("no process got to the end")


class DiesAnywhere:
    """Dies at any point with a small probability."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def reach(self, point: str) -> None:
        if self._rng.random() < 0.04:
            raise SimulatedCrash(point)


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
@pytest.mark.parametrize("point", [point for point in POINTS if not point.startswith("poll.")])
def test_dying_at_a_point_again_and_again_changes_nothing(point: str, pace: Pace) -> None:
    expected = straight(seed=1)
    reached = 0
    for count in (1, 2, 5):
        deaths: list[str] = []

        def die(at: str, deaths: list[str] = deaths) -> None:
            deaths.append(at)
            raise SimulatedCrash(at)

        def crash(attempt: int, count: int = count) -> CrashPoints:
            # The first process leaves something to recover; the next ones die at the point.
            if attempt == 0:
                return CrashAt("commit.after_commit", 3, raise_crash)
            return CrashAt(point, count, die) if attempt < 4 else NoCrash()

        world = filled_world(seed=1, cut=count)
        run_until_done(world, pace, crash)
        assert world.state() == expected
        reached += len(deaths)
    # Where a pipeline begins is recorded once, by its first process.
    assert reached or point in ("start.before_positions", "start.after_positions")


@pytest.mark.parametrize("point", ["start.before_positions", "start.after_positions", "commit.after_commit"])
def test_dying_while_a_new_pipeline_starts_changes_nothing(point: str) -> None:
    world = filled_world(seed=1, cut=1)
    died = run_until_done(
        world,
        PACES["without snapshots"],
        lambda n: CrashAt(point, 1, raise_crash) if n < 3 else NoCrash(),
    )
    assert died
    assert world.state() == straight(seed=1)


@pytest.mark.parametrize("seed", seeds(20, few=6))
def test_dying_anywhere_at_random_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    world = filled_world(seed, cut=seed)
    pace = replace(
        PACES["with snapshots"],
        snapshot_rows=rng.choice((None, 1, 50, 150)),
        snapshot_part_bytes=rng.choice((1, 2**20)),
    )
    died = run_until_done(world, pace, lambda n: DiesAnywhere(rng) if n < 25 else NoCrash())
    assert world.state() == straight(seed)
    assert died


@pytest.mark.parametrize("step", ["begin", "commit", "committed"])
@pytest.mark.parametrize("seed", seeds(3, few=1))
def test_a_database_that_fails_around_the_commit_gets_everything_once(seed: int, step: str) -> None:
    rng = random.Random(seed)
    world = filled_world(seed, cut=seed)
    failed = 0

    def fail_sometimes(name: str) -> None:
        nonlocal failed
        if name == step and rng.random() < 0.4:
            failed += 1
            raise UnavailableError("the connection is lost")

    world.database.before = fail_sometimes
    Service(world.context(pace=PACES["with snapshots"])).run(until_end=True)
    assert world.state() == straight(seed)
    assert failed


def test_a_broker_that_fails_now_and_then_loses_and_repeats_nothing() -> None:
    rng = random.Random(3)
    world = filled_world(3, cut=3)

    def fail_sometimes(name: str) -> None:
        if rng.random() < 0.3:
            raise UnavailableError("the broker is down")

    world.topic.before = fail_sometimes
    Service(world.context(pace=PACES["without snapshots"])).run(until_end=True)
    assert world.state() == straight(3)


def test_threads_read_what_the_direct_way_reads() -> None:
    world = filled_world(5, cut=5)
    Service(world.context(threads=True, clock=SystemClock())).run(until_end=True)
    assert world.state() == straight(5)


def test_many_rows_on_one_millisecond_survive_a_death_between_them() -> None:
    def world(cut: int | None) -> World:
        topic = InMemoryTopic("readings", 2, None if cut is None else random.Random(cut))
        for number in range(1_000):
            topic.add(number % 2, 60_000, b'{"sensor":"s%d","amount":1}' % (number % 7))
        for partition in range(2):
            topic.add(partition, 200_000, b'{"sensor":"end","amount":1}')
        return World(topic, plan=readings_plan())

    expected = world(None)
    Service(expected.context(pace=Pace(10**9, 10**9, None, None))).run(until_end=True)
    given = world(4)
    died = run_until_done(
        given,
        Pace(10**9, 50, 100, None),
        lambda n: CrashAt("commit.after_commit", 2, raise_crash) if n < 8 else NoCrash(),
    )
    assert died == 8
    assert given.state() == expected.state()
