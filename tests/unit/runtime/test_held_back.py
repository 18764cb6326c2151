"""What holds rows back is found while somebody watches: with the reason of --why-not, and the path to the rows."""

from __future__ import annotations

import itertools

import pytest

from rowtide.runtime.pace import Pace
from rowtide.runtime.progress.board import SOUGHT_EACH_S, WATCHED_S, ProgressBoard
from rowtide.runtime.progress.held_back import HeldBack
from rowtide.runtime.service import Service
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.progress import READINGS, ran
from support.runtime import World


def sought(
    seconds: float, *, watched: bool = True
) -> tuple[list[tuple[float, tuple[HeldBack, ...] | None]], Service]:
    """Run with a partition that is silent; return what is shown, with the seconds since the start."""
    world = World(InMemoryTopic("readings", 2), plan=plan_pipeline(READINGS))
    for number in range(20):
        world.topic.add(0, 60_000 + number * 1_000, b'{"sensor":"a","amount":%d}' % (number + 20))
    world.topic.add(1, 61_000, b'{"sensor":"b","amount":50}')
    shown: list[tuple[float, tuple[HeldBack, ...] | None]] = []
    begin = world.clock.seconds

    def stopping() -> bool:
        if watched:
            service.progress.watch()
        passed, now = world.clock.seconds - begin, service.progress.held_back
        if not shown or shown[-1][1] is not now:
            shown.append((passed, now))
        return passed >= seconds

    service = Service(world.context(stopping=stopping, pace=Pace(100, 1_000, None, None)))
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


def test_nobody_watches_and_nothing_is_sought() -> None:
    shown, _ = sought(8, watched=False)
    assert [found for _, found in shown] == [None]


def test_it_is_sought_at_most_each_five_seconds() -> None:
    shown, _ = sought(4 * SOUGHT_EACH_S)
    times = [at for at, found in shown if found is not None]
    assert all(later - earlier >= SOUGHT_EACH_S for earlier, later in itertools.pairwise(times))
    assert len(times) > 1


def test_a_costly_search_is_rarer_and_ends_with_the_last_watcher() -> None:
    world, board = ran()
    searches = 0

    def found() -> tuple[HeldBack, ...]:
        nonlocal searches
        searches += 1
        world.clock.sleep(0.1)
        return ()

    def tell(board: ProgressBoard, seconds: int) -> None:
        for _ in range(seconds):
            board.seek(found)
            world.clock.sleep(1)

    board.watch()
    tell(board, int(WATCHED_S))
    assert (searches, board.held_back) == (1, ())
    tell(board, 2)
    assert board.held_back is None
    for _ in range(110):
        board.watch()
        tell(board, 1)
    assert searches == pytest.approx(4, abs=1)
