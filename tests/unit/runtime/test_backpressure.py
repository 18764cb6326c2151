"""Partitions that run ahead are paused, the slowest never, and what holds back is named."""

import random
from typing import Any

import pytest
from structlog.testing import capture_logs

from rowtide.plan.nodes import Merge, Sort, Source
from rowtide.plan.plan import Pump
from rowtide.runtime.ingest.inbox import Inbox
from rowtide.runtime.live.backpressure import Backpressure, meeting_streams
from rowtide.runtime.pipeline_io import PipelineIO
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide.testing.virtual_clock import VirtualClock
from support.runtime import World, readings_plan


class PausableInbox:
    def __init__(self) -> None:
        self.paused: list[dict[str, frozenset[int]]] = []

    def pause(self, partitions: dict[str, frozenset[int]]) -> None:
        self.paused.append(dict(partitions))


class Bounds:
    """As much of a Work as backpressure looks at."""

    def __init__(
        self,
        held: int,
        bounds: dict[tuple[str, int], int],
        ahead: dict[frozenset[str], int] | None = None,
    ) -> None:
        self.flow = self
        self._held = held
        self._ahead = {frozenset({"READINGS"}): held} if ahead is None else ahead
        self._bounds = bounds
        self.size = 0.0

    def mean_bytes(self, _relation: str) -> float:
        return self.size

    def held(self) -> int:
        return self._held

    def ahead(self) -> dict[frozenset[str], int]:
        return self._ahead

    def bounds(self) -> dict[tuple[str, int], int]:
        return self._bounds


PUMPS = readings_plan().pumps


def test_partitions_ahead_of_the_slowest_are_paused_when_too_much_is_held_and_resumed_later() -> None:
    inbox = PausableInbox()
    pressure = Backpressure(PUMPS, VirtualClock(), max_held_rows=100)
    bounds = {("READINGS", 0): 5, ("READINGS", 1): 9, ("READINGS", 2): 7}
    for held in (100, 101, 60, 50):
        pressure.balance(Bounds(held, bounds), inbox)  # type: ignore[arg-type]
    assert inbox.paused == [{"READINGS": frozenset({1, 2})}, {}]


def test_large_messages_count_by_their_bytes() -> None:
    inbox = PausableInbox()
    pressure = Backpressure(PUMPS, VirtualClock(), max_held_rows=1_000, max_held_bytes=10_000)
    for rows, size in ((100, 100.0), (100, 101.0), (60, 100.0), (50, 100.0)):
        seen = Bounds(rows, {("READINGS", 0): 5, ("READINGS", 1): 9})
        seen.size = size
        pressure.balance(seen, inbox)  # type: ignore[arg-type]
    assert inbox.paused == [{"READINGS": frozenset({1})}, {}]


def pump(name: str, *relations: str) -> Pump:
    sources = tuple(
        Sort(each, Source(each, readings_plan().foreign_streams[0].row_type), 0) for each in relations
    )
    return Pump(name, "T", Merge(name, sources))


def test_only_the_streams_that_hold_too_much_are_paused() -> None:
    inbox = PausableInbox()
    pressure = Backpressure([pump("P", "A", "B"), pump("Q", "C")], VirtualClock(), max_held_rows=100)
    bounds = {("A", 0): 5, ("B", 0): 9, ("C", 0): 5, ("C", 1): 9}
    skewed, even = frozenset({"A", "B"}), frozenset({"C"})
    for rows, others in ((100, 0), (70, 40), (60, 60), (30, 60), (25, 30), (0, 25)):
        pressure.balance(Bounds(200, bounds, {skewed: rows, even: others}), inbox)  # type: ignore[arg-type]
    assert inbox.paused == [
        {"B": frozenset({0})},  # 110 in all, and C has less than its half
        {"B": frozenset({0}), "C": frozenset({1})},
        {"C": frozenset({1})},  # 25 is half of a share
        {},
    ]


def test_rows_of_open_windows_pause_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def world() -> World:
        topic = InMemoryTopic("readings", 2, random.Random(1))
        for number in range(3_000):
            topic.add(number % 2, 60_000 + 10 * number, b'{"sensor":"a","amount":1}')
        return World(topic)

    paused: list[object] = []
    inboxes = PipelineIO.open_inbox

    def watched(io: PipelineIO, *arguments: Any) -> Inbox:
        inbox = inboxes(io, *arguments)
        given = inbox.pause
        inbox.pause = lambda each: (paused.append(each), given(each))  # type: ignore[method-assign,func-returns-value,assignment]
        return inbox

    monkeypatch.setattr(PipelineIO, "open_inbox", watched)
    Service(world().context(max_held_rows=700)).run(until_end=True)
    # Three thousand rows are in the one open minute; the partitions are never far apart.
    assert paused == []


def test_streams_that_never_meet_do_not_wait_for_each_other() -> None:
    groups = meeting_streams([pump("P", "A", "B"), pump("Q", "C"), pump("R", "B", "D")])
    assert sorted(map(sorted, groups)) == [["A", "B", "D"], ["C"]]


def test_a_stream_read_far_ahead_on_one_partition_still_comes_out_whole() -> None:
    def world() -> World:
        topic = InMemoryTopic("readings", 2, random.Random(1))
        for number in range(2_000):
            topic.add(0, 1_000 * number, b'{"sensor":"a","amount":1}')
        for number in range(20):
            topic.add(1, 100_000 * number, b'{"sensor":"b","amount":1}')
        return World(topic)

    free, tight = world(), world()
    Service(free.context()).run(until_end=True)
    Service(tight.context(max_held_rows=50)).run(until_end=True)
    assert tight.state() == free.state()


def test_the_partition_that_holds_back_is_named_once_a_minute() -> None:
    clock = VirtualClock()
    pressure = Backpressure(PUMPS, clock)
    behind = Bounds(10, {("READINGS", 0): -(2**63), ("READINGS", 1): 9_000})
    with capture_logs() as logs:
        for _ in range(200):
            pressure.balance(behind, PausableInbox())  # type: ignore[arg-type]
            clock.sleep(1.0)
    said = [log for log in logs if log["event"] == "partition_holds_back"]
    assert [(log["partition"], log["bound_ms"], log["next_bound_ms"]) for log in said] == [
        (0, None, 9_000)
    ] * 3
