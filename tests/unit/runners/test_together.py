"""Stages of a run at the same time: what waits for what, what their jobs are called, and what an error ends."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from rowtide.errors import FaultError
from rowtide.runners.spark import together
from rowtide.runners.spark.shuffle.held import StageGiven
from rowtide.runners.spark.together import JOBS_AT_ONCE, Stage, StageWork, run_together
from support.spark_stand_in import StandIn

PATIENCE_S = 60


def works(jobs: int, job: Callable[[int], None], ended: Callable[[], None] = lambda: None) -> StageWork:
    """Do a number of jobs, one after the other."""
    for number in range(jobs):

        def run(number: int = number) -> StageGiven:
            job(number)
            return StageGiven({number: None})  # type: ignore[dict-item]

        given = yield run
        assert given.done.keys() == {number}
    ended()


@pytest.mark.parametrize("seed", range(20))
def test_each_stage_begins_when_those_before_it_have_ended_and_only_jobs_are_in_threads(seed: int) -> None:
    rng = random.Random(seed)
    ended: list[int] = []
    threads: set[int] = set()
    stages = {}
    for number in range(12):
        after = rng.sample(range(number), rng.randrange(min(number, 3) + 1))

        def work(number: int = number, after: list[int] = after, jobs: int = rng.randrange(3)) -> StageWork:
            assert set(after) <= set(ended)
            threads.add(threading.get_ident())
            return works(jobs, lambda _: None, lambda: ended.append(number))

        stages[number] = Stage(f"stage {number}", work, after)
    told: list[int] = []
    run_together(StandIn(3).as_session(), stages, told.append)
    assert sorted(ended) == list(stages)
    assert told == ended
    assert threads == {threading.get_ident()}


def test_jobs_run_at_the_same_time_each_with_its_description() -> None:
    meeting = threading.Barrier(JOBS_AT_ONCE)

    def meets(_: int) -> None:
        meeting.wait(PATIENCE_S)

    session = StandIn(3)
    stages = {number: Stage(f"stage {number}", lambda: works(1, meets)) for number in range(2 * JOBS_AT_ONCE)}
    run_together(session.as_session(), stages)
    assert sorted(session.descriptions) == sorted(each.description for each in stages.values())


def test_while_jobs_run_life_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "WAITING_S", 0.001)
    shown = threading.Semaphore(0)

    def waits(_: int) -> None:
        for _turn in range(3):
            assert shown.acquire(timeout=PATIENCE_S)

    run_together(StandIn(3).as_session(), {0: Stage("waits", lambda: works(2, waits))}, waiting=shown.release)


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_first_error_cancels_the_other_jobs_waits_for_them_and_is_raised(*, is_gone: bool) -> None:
    session = StandIn(3)
    cancelled, left = threading.Event(), threading.Event()

    def cancel(_: str) -> None:
        cancelled.set()
        if is_gone:
            raise OSError("Spark is gone")

    session.sparkContext.cancelJobGroup = cancel

    def fails(_: int) -> None:
        raise FaultError("the first")

    def waits(_: int) -> None:
        assert cancelled.wait(PATIENCE_S)
        left.set()
        raise FaultError("of being cancelled")

    never: list[int] = []
    stages = {
        0: Stage("waits", lambda: works(1, waits)),
        1: Stage("fails", lambda: works(1, fails)),
        2: Stage("is after both", lambda: works(1, never.append), after=(0, 1)),
    }
    with pytest.raises(FaultError, match="the first"):
        run_together(session.as_session(), stages)
    assert left.is_set()
    assert not never
