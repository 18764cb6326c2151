"""What holds rows back is found while somebody watches: with the reason of --why-not, and the path to the rows."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.runtime.pace import Pace
from rowtide.runtime.progress.board import SOUGHT_EACH_S, WATCHED_S, ProgressBoard
from rowtide.runtime.progress.budget import RESTING_SHARE, SAVED_S, WORKING_SHARE, LoopBudget
from rowtide.runtime.progress.held_back import HoldingPartition
from rowtide.runtime.service import Service
from rowtide.runtime.state.pipeline_state import PipelineState
from rowtide.runtime.state.status import StatusBoard
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide.testing.virtual_clock import VirtualClock
from support.progress import READINGS, ran
from support.runtime import World

TURN_S = 0.25


def sought(
    seconds: float, *, watched: bool = True, slow_s: float = 0.0
) -> tuple[list[tuple[float, tuple[HoldingPartition, ...] | None]], Service]:
    """Run with a partition that is silent; return what is shown, with the seconds since the start.

    The first search takes ``slow_s``.
    """
    world = World(InMemoryTopic("readings", 2), plan=plan_pipeline(READINGS))
    for number in range(20):
        world.topic.add(0, 60_000 + number * 1_000, b'{"sensor":"a","amount":%d}' % (number + 20))
    world.topic.add(1, 61_000, b'{"sensor":"b","amount":50}')
    shown: list[tuple[float, tuple[HoldingPartition, ...] | None]] = []
    begin = world.clock.seconds

    def stopping() -> bool:
        if watched:
            service.progress.watch()
        passed, now = world.clock.seconds - begin, service.progress.held_back
        if not shown or shown[-1][1] is not now:
            shown.append((passed, now))
        return passed >= seconds

    def slowly(state: PipelineState) -> tuple[HoldingPartition, ...]:
        world.clock.sleep(costs.pop() if costs else 0.0)
        return search(state)

    service = Service(world.context(stopping=stopping, pace=Pace(100, 1_000, None, None)))
    costs, search = [slow_s], service.requests.held_back
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(service.requests, "held_back", slowly)
        service.run()
    return shown, service


def test_a_silent_partition_is_named_with_its_path_and_what_to_do() -> None:
    shown, service = sought(8)
    *_, (_, causes), (_, at_the_end) = [*shown, (8.0, service.progress.held_back)]
    assert causes is not None
    assert at_the_end is None
    (cause,) = [each for each in causes if each.holds[0] == "READINGS"]
    assert (cause.cause, cause.relation, cause.topic, cause.partition) == ("IDLE", "READINGS", "readings", 1)
    assert (cause.has, cause.needs) == (61_000, 62_000)
    assert cause.holds == ("READINGS", "PER_MINUTE")
    graph = service.progress.layout.graph
    assert cause.path[0] == 1
    assert [graph.relation_of[at] for at in cause.path[1:]] == ["READINGS", "READINGS"]
    assert cause.relations == ("READINGS",)
    assert cause.rows >= 19
    assert "readings" in cause.why
    assert "rowtide bound" in cause.change


def test_no_one_watches_and_nothing_is_sought() -> None:
    shown, _ = sought(8, watched=False)
    assert [found for _, found in shown] == [None]


def test_it_is_sought_at_most_each_five_seconds() -> None:
    shown, _ = sought(4 * SOUGHT_EACH_S)
    times = [at for at, found in shown if found is not None]
    assert all(later - earlier >= SOUGHT_EACH_S for earlier, later in itertools.pairwise(times))
    assert len(times) > 1


def test_what_is_found_is_kept_until_the_last_watcher_has_gone() -> None:
    world, board = ran()
    board.watch()
    board.seek(tuple)
    assert board.held_back == ()
    world.clock.sleep(WATCHED_S + 1)
    board.seek(tuple)
    assert board.held_back is None


@pytest.mark.parametrize("slow_s", [0.1, 0.9, 1.4])
def test_one_slow_search_does_not_put_off_what_is_to_be_seen(slow_s: float) -> None:
    shown, _ = sought(12, slow_s=slow_s)
    first, *_ = [passed for passed, found in shown if found]
    assert first <= 10


def searches(cost_s: float, *, rest: float, seconds: float) -> list[float]:
    """Return when searches begin while somebody watches a loop that waits for messages in this part of its time."""
    clock = VirtualClock()
    board = ProgressBoard(plan_pipeline(READINGS), StatusBoard("readings", clock, lambda _phase: None), clock)
    begins: list[float] = []

    def found() -> tuple[HoldingPartition, ...]:
        begins.append(clock.seconds)
        clock.sleep(cost_s)
        return ()

    while clock.seconds < seconds:
        board.watch()
        board.seek(found)
        clock.sleep(TURN_S)
        board.budget.rested(TURN_S * rest)
    return begins


@pytest.mark.parametrize("cost_s", [0.001, 0.02, 0.1, 0.4])
@pytest.mark.parametrize("rest", [0.5, 1.0])
def test_a_loop_that_often_waits_is_searched_within_ten_seconds_at_any_size(
    cost_s: float, rest: float
) -> None:
    begins = searches(cost_s, rest=rest, seconds=600)
    assert max(later - earlier for earlier, later in itertools.pairwise(begins)) <= 10


@pytest.mark.parametrize("cost_s", [0.1, 0.4])
def test_a_loop_that_never_waits_is_searched_at_once_and_then_seldom(cost_s: float) -> None:
    begins = searches(cost_s, rest=0.0, seconds=3_600)
    assert begins[0] == 0
    assert begins[1] < 2 * SOUGHT_EACH_S
    assert 3_600 * WORKING_SHARE <= len(begins) * cost_s <= 3_600 * WORKING_SHARE + SAVED_S + cost_s


SECONDS = st.floats(0, 20, allow_subnormal=False)


@given(st.lists(st.tuples(SECONDS, SECONDS, st.floats(0, 5, allow_subnormal=False)), min_size=1))
def test_in_no_span_searches_take_more_than_is_earned_and_saved(
    turns: list[tuple[float, float, float]],
) -> None:
    budget = LoopBudget(0.0)
    worked = rested = 0.0
    made: list[tuple[float, float, float]] = []
    for work_s, rest_s, cost_s in turns:
        worked, rested = worked + work_s, rested + rest_s
        budget.rested(rest_s)
        if budget.allows(worked + rested):
            budget.spent(cost_s)
            made.append((worked, rested, cost_s))
            worked += cost_s
    for first, (worked_before, rested_before, _) in enumerate(made):
        spent = 0.0
        for worked_now, rested_now, cost_s in made[first:]:
            earned = WORKING_SHARE * (worked_now - worked_before) + RESTING_SHARE * (
                rested_now - rested_before
            )
            assert spent <= earned + SAVED_S + 1e-6
            spent += cost_s
