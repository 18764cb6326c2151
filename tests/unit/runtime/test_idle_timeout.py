"""Silent partitions under a declared time-out: decided on evidence, logged, and obeyed by every replay."""

import itertools
import random
from dataclasses import replace

import pytest

from rowtide.checkpoint.ledger import Decision, PartitionPosition
from rowtide.errors import StatementError
from rowtide.plan.plan import Plan
from rowtide.runtime.ingest.idle import DecisionLog, IdleWatch
from rowtide.runtime.pace import Pace
from rowtide.runtime.service import Service
from rowtide.testing.in_memory_topic import InMemoryTopic
from rowtide.testing.virtual_clock import VirtualClock
from support.runtime import World, down, readings_plan

TIMEOUT_S = 30


def plan_with(timeout: str = f"{TIMEOUT_S} SECOND") -> Plan:
    plan = readings_plan()
    (stream,) = plan.foreign_streams
    return replace(
        plan, foreign_streams=(replace(stream, options=(*stream.options, ("idle_timeout", timeout))),)
    )


class Scripted:
    """Virtual time with things that happen at given seconds; the service stops at the end of the script."""

    def __init__(self, world: World, script: dict[float, object]) -> None:
        self._clock = world.clock
        self._script = dict(sorted(script.items()))
        self._end = max(script)

    def stopping(self) -> bool:
        for second in [second for second in self._script if second <= self._clock.seconds]:
            happens = self._script.pop(second)
            if callable(happens):
                happens()
        return self._clock.seconds >= self._end


def reading(world: World, partition: int, timestamp: int, amount: int | None = None) -> object:
    """Add a reading; its amount is its timestamp unless given."""
    value = b'{"sensor":"s","amount":%d}' % (timestamp if amount is None else amount)
    return lambda: world.topic.add(partition, timestamp, value)


def play(world: World, script: dict[float, object], **changes: object) -> None:
    start = world.clock.seconds
    at = {start + second: happens for second, happens in script.items()}
    Service(world.context(stopping=Scripted(world, at).stopping, **changes)).run()


def partition_positions(world: World) -> tuple[PartitionPosition, ...]:
    record = world.checkpoint.record
    assert record is not None
    return record.partition_positions


def logged(world: World) -> list[object]:
    return [row[1] for row in world.database.contents.appended.get("LOG", [])]


@pytest.fixture
def world() -> World:
    return World(InMemoryTopic("readings", 2), plan=plan_with())


def test_a_silent_partition_holds_back_until_the_time_out_and_then_follows(world: World) -> None:
    play(world, {0: reading(world, 0, 100_000), 1: reading(world, 0, 110_000), 25: None})
    assert logged(world) == []
    play(world, {0: None, 45: None})
    # Within is two seconds: what is at most 98,000 or 108,000 behind the highest may leave.
    assert logged(world) == [100_000]
    play(world, {0: None, 40: reading(world, 0, 130_000), 42: None})
    assert logged(world) == [100_000, 110_000]
    decisions = world.checkpoint.decisions
    assert {(each.partition, each.next_offset) for each in decisions} == {(1, 0)}
    assert decisions[-1].bound == 128_000


def test_a_time_out_can_be_added_changed_and_removed_on_a_pipeline_that_has_run(world: World) -> None:
    world.plan = readings_plan()
    play(world, {0: reading(world, 0, 100_000), 1: reading(world, 0, 110_000), 90: None})
    assert logged(world) == []
    world.plan = plan_with()
    play(world, {0: None, 45: None})
    assert logged(world) == [100_000]
    world.plan = plan_with("3 SECOND")
    play(world, {0: reading(world, 0, 130_000), 5: None})
    assert logged(world) == [100_000, 110_000]
    # What was decided holds without the option, and for replays.
    world.plan = readings_plan()
    play(world, {0: reading(world, 1, 120_000), 1: reading(world, 0, 150_000), 90: None})
    assert logged(world) == [100_000, 110_000]
    assert [(row.partition, row.rowtime, row.bound) for row in world.checkpoint.errors] == [
        (1, 120_000, 128_000)
    ]


def test_a_partition_that_wakes_behind_the_decided_bound_is_late_now_and_after_every_restart(
    world: World,
) -> None:
    play(
        world,
        {
            0: reading(world, 0, 100_000),
            40: reading(world, 0, 150_000),
            80: reading(world, 1, 120_000),
            81: reading(world, 1, 149_000),
            82: reading(world, 0, 160_000),
            83: None,
        },
    )
    late = [(row.partition, row.rowtime, row.bound) for row in world.checkpoint.errors]
    assert late == [(1, 120_000, 148_000)]
    assert logged(world) == [100_000]
    expected = world.state()
    # Without a snapshot: everything is replayed, and the decisions with it.
    for _ in range(2):
        play(world, {0: None, 1: None})
        assert world.state()[:3] == expected[:3]
    play(world, {0: reading(world, 1, 170_000), 1: None})
    assert logged(world) == [100_000, 149_000, 150_000]


@pytest.mark.parametrize("snapshot_rows", [None, 1])
def test_crashes_between_decisions_lose_and_repeat_nothing(snapshot_rows: int | None) -> None:
    rng = random.Random(4)
    world = World(InMemoryTopic("readings", 3, rng), plan=plan_with("2 SECOND"))
    clock = 100_000
    numbers = itertools.count()
    for _ in range(40):
        script: dict[float, object] = {}
        partition = rng.randrange(3)
        for step in range(rng.randrange(1, 6)):
            clock += rng.choice((500, 1_500, 9_000))
            script[step + 0.5] = reading(world, partition, clock - rng.choice((0, 0, 3_000)), next(numbers))
        script[rng.randrange(7, 12)] = None
        play(world, script, pace=Pace(100, 2, snapshot_rows, None))
    record = world.checkpoint.record
    assert record is not None
    assert world.checkpoint.decisions
    rows = sum(each.next_offset for each in record.partition_positions)
    late = len(world.checkpoint.errors)
    # Everything is out or late, but for what the last rows still hold back.
    assert rows - late - 12 < len(logged(world)) <= rows - late
    assert len(set(logged(world))) == len(logged(world))


def test_an_outage_of_the_broker_is_no_silence(world: World) -> None:
    def go_down() -> None:
        world.topic.before = down(20, "poll")

    play(
        world,
        {
            0: reading(world, 0, 100_000),
            0.5: reading(world, 1, 100_000),
            2: go_down,
            5: reading(world, 0, 200_000),
            6: reading(world, 1, 103_000),
            140: None,
            141: None,
        },
    )
    assert logged(world) == [100_000, 100_000]
    assert [each.next_offset for each in partition_positions(world)] == [2, 2]
    assert world.checkpoint.errors == []
    assert world.checkpoint.decisions == []


def test_a_partition_that_is_not_read_to_its_end_is_not_silent() -> None:
    clock = VirtualClock()
    watch = IdleWatch({"R": 1_000}, [("R", 0), ("R", 1)], clock)
    bounds = {("R", 0): 50, ("R", 1): 10}
    clock.sleep(1.1)
    watch.note_arrival(("R", 0))
    assert watch.decide({("R", 0): 9, ("R", 1): 5}, bounds) == []
    clock.sleep(1.0)
    watch.note_arrival(("R", 0))
    watch.look_up({("R", 0): 9, ("R", 1): 6})
    clock.sleep(0.1)
    assert watch.decide({("R", 0): 9, ("R", 1): 5}, bounds) == []
    clock.sleep(1.0)
    watch.note_arrival(("R", 0))
    watch.look_up({("R", 0): 9, ("R", 1): 6})
    assert watch.decide({("R", 0): 9, ("R", 1): 6}, bounds) == [Decision("IDLE", "R", 1, 6, 50)]


def test_the_log_of_decisions_finds_what_was_decided_before_an_offset() -> None:
    log = DecisionLog(
        [Decision("IDLE", "R", 0, 3, 10), Decision("IDLE", "R", 1, 3, 11), Decision("IDLE", "R", 0, 7, 20)]
    )
    assert [each.bound for each in log.at(("R", 0), 3)] == [10]
    assert log.at(("R", 0), 4) == []
    assert [log.next_after(("R", 0), offset) for offset in (0, 3, 7)] == [3, 7, None]


def test_a_time_out_that_is_no_length_of_time_is_refused() -> None:
    world = World(InMemoryTopic("readings", 2), plan=plan_with("soon"))
    with pytest.raises(StatementError, match='option "idle_timeout" of foreign stream "READINGS"'):
        Service(world.context())
