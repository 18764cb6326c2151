"""A snapshot that is due is stored with several commits; until the last of them the one before is read."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from rowtide.runtime.crashpoints import SimulatedCrash
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.runtime import World, fill

PACE = Pace(100, 60, 100, None, snapshot_part_bytes=1)
"""A snapshot after 100 messages, of which each commit stores one chunk: there is one for each table of each state."""


class AtEachCommit:
    """Calls ``look`` after each commit."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def reach(self, point: str) -> None:
        if point == "commit.after_commit":
            self._look()


def world_of(messages: int = 400) -> World:
    topic = InMemoryTopic("readings", 3)
    fill(topic, random.Random(3), messages)
    return World(topic)


def test_each_commit_stores_a_part_and_rows_go_on() -> None:
    world = world_of()
    seen: list[tuple[int, int, int]] = []

    def look() -> None:
        held = world.checkpoint
        chunks = 0 if held.incomplete is None else len(held.incomplete[1])
        assert held.record is not None
        read = sum(each.next_offset for each in held.record.partition_positions)
        seen.append((chunks, len(held.snapshots), read))

    Service(world.context(pace=PACE, crash_points=AtEachCommit(look))).run(until_end=True)
    first = next(at for at, (chunks, _, _) in enumerate(seen) if chunks)
    complete = next(at for at, (_, snapshots, _) in enumerate(seen) if snapshots)
    assert [chunks for chunks, _, _ in seen[first:complete]] == list(range(1, complete - first + 1))
    assert complete - first > 3
    # Messages were read and committed meanwhile.
    assert seen[complete][2] > seen[first][2]
    # The process has completed what it had begun.
    assert world.checkpoint.incomplete is None
    (kept, *_) = world.checkpoint.snapshots
    assert kept.entry.commits == first + 1


def test_a_pipeline_without_messages_completes_its_snapshot() -> None:
    world = world_of(110)
    # It is asked to stop only when the snapshot is there.
    Service(world.context(pace=PACE, stopping=lambda: bool(world.checkpoint.snapshots))).run()
    assert world.checkpoint.incomplete is None
    assert world.checkpoint.snapshots


@pytest.mark.parametrize("commit", range(2, 14))
def test_a_process_that_dies_between_two_parts_leaves_the_snapshot_before(commit: int) -> None:
    reference, world = world_of(), world_of()
    Service(reference.context()).run(until_end=True)
    left = commit

    def look() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        Service(world.context(pace=PACE, crash_points=AtEachCommit(look))).run(until_end=True)
    Service(world.context(pace=PACE)).run(until_end=True)
    assert world.state() == reference.state()


def test_snapshots_that_a_person_drops_meanwhile_stop_nothing() -> None:
    reference, world = world_of(), world_of()
    Service(reference.context()).run(until_end=True)
    dropped = False

    def look() -> None:
        nonlocal dropped
        if world.checkpoint.incomplete is not None and not dropped:
            # As `rowtide state drop --snapshots` does.
            world.checkpoint.incomplete = None
            dropped = True

    Service(world.context(pace=PACE, crash_points=AtEachCommit(look))).run(until_end=True)
    assert dropped
    assert world.state() == reference.state()
    assert world.checkpoint.snapshots
