"""Tables of databases as sources, in a service that dies at random: each change once, by the log."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from polled_kit import BY_NUMBER, BY_TIME, COMPARED, INTERVAL_MS, DiesAnywhere, PolledWorld
from rowtide.runtime.commit.crashpoints import CrashPoints


def finish(world: PolledWorld, crash_points: CrashPoints) -> None:
    """Poll until deletes are found and every click can be joined."""
    for _ in range(4):
        world.clock.sleep(INTERVAL_MS / 1000)
        world.run_until_done(crash_points)


def check(world: PolledWorld) -> None:
    assert world.sink("select kind, reason, relation from rowtide_errors") == []
    people = world.source("select id, name, credit from people order by id")
    assert world.sink("select id, name, credit from users_now order by id") == people
    assert world.sink("select n, who, name from named order by n") == world.expected_named()
    assert world.states()[-1][1] == {id_: name for id_, name, _ in people}


@pytest.mark.parametrize(
    ("seed", "options", "snapshot_rows"),
    [(0, COMPARED, None), (1, BY_TIME, 15), (2, BY_NUMBER, None), (3, COMPARED, 15)],
    ids=["all rows", "by time, with snapshots", "by number", "all rows, with snapshots"],
)
def test_every_change_is_joined_once_however_often_the_process_dies(
    tmp_path: Path, seed: int, options: str, snapshot_rows: int | None
) -> None:
    rng = random.Random(seed)
    world = PolledWorld(tmp_path, rng, options, snapshot_rows=snapshot_rows)
    # History: clicks from long before the first poll are joined with its rows.
    for _ in range(10):
        world.change(clicks=False)
    for at in (1_000, world.clock.now_ms() - 86_400_000):
        world.click(at)
    dies = DiesAnywhere(rng)
    for _ in range(6):
        for _ in range(rng.randrange(10)):
            world.change()
        world.clock.sleep(rng.choice((0, 1, 9, 30)))
        world.run_until_done(dies)
    finish(world, dies)
    assert world.deaths
    check(world)
