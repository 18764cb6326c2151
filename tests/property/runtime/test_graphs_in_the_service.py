"""Random graphs with diamonds, timers and loops of every use, run by the service: crashes change nothing."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.engine.graph_model import (
    LOOP_MS,
    Arrival,
    Busy,
    BusyResettable,
    Habits,
    InOneOrder,
    Shape,
    shapes,
)
from property.runtime import drawn_graph
from rowtide.clock import SystemClock
from rowtide.engine.graph import Graph, Use
from rowtide.plan.plan import Plan
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
from rowtide.sql.pipeline import plan_pipeline
from rowtide.testing.in_memory_topic import InMemoryTopic
from support.runtime import World

ALL_USES = (Use.LIMITED, Use.RECORDED, Use.CONSISTENT)
FAR = 100_000
PARTITIONS = 2
Rows = dict[str, list[tuple[object, ...]]]


def plan_of(shape: Shape) -> Plan:
    """Rows of one topic go to the inputs of the graph by number; every node has a table of its own."""
    drawn_graph.DRAWN[:] = [shape]
    text = """
        CREATE SERVER k FOREIGN DATA WRAPPER MEMORY OPTIONS (broker 'graphs');
        CREATE SERVER d FOREIGN DATA WRAPPER RDBMS OPTIONS (url 'sqlite://');
        CREATE FOREIGN STREAM readings (source INTEGER, energy BIGINT, mark BIGINT) SERVER k
            OPTIONS (topic 'readings', format 'JSON');
        CREATE MODEL g AS 'property.runtime.drawn_graph:Drawn';
    """
    for number, name in enumerate(shape.graph.sources):
        text += f"""
            CREATE PUMP p{name} STARTED AS INSERT INTO g.{name}
                SELECT STREAM energy, mark FROM readings WHERE source = {number};"""
    for name in shape.outputs:
        text += f"""
            CREATE FOREIGN TABLE t{name} (at TIMESTAMP, energy BIGINT, mark BIGINT) SERVER d;
            CREATE PUMP o{name} STARTED AS INSERT INTO t{name}
                SELECT STREAM ROWTIME, energy, mark FROM g.{name};"""
    return plan_pipeline(text)


def world_of(plan: Plan, arrived: list[Arrival], cut: int, end: int = FAR) -> World:
    world = World(InMemoryTopic("readings", PARTITIONS, random.Random(cut)), plan=plan)
    bring(world, arrived, end)
    return world


def bring(world: World, arrived: list[Arrival], end: int) -> None:
    """Bring rows to the partitions in turn, and a bound after them."""
    for number, each in enumerate(arrived):
        energy, mark = each.row
        value = b'{"source":%d,"energy":%d,"mark":%d}' % (int(each.source[1:]), energy, mark)
        world.topic.add(number % PARTITIONS, each.rowtime, value)
    for partition in range(PARTITIONS):
        world.topic.add(partition, end, None, rowtide_bound=str(end).encode())


def rows_of(world: World) -> Rows:
    # A table into which nothing came is not there.
    return {name: rows for name, rows in sorted(world.database.contents.appended.items()) if rows}


def referred(shape: Shape, *brought: list[Arrival], jump: tuple[int, int] | None = None) -> Rows:
    """Return what the row-by-row reference says; rows of one rowtime come by partition."""
    reference = InOneOrder(shape.graph)
    if jump is not None:
        reference.skip(*jump)
    for arrived in brought:
        places = {id(each): number % PARTITIONS for number, each in enumerate(arrived)}
        for each in sorted(arrived, key=lambda each: (each.rowtime, places[id(each)])):
            reference.insert(each)
    found: Rows = {}
    for name, rows in sorted(reference.run().items()):
        if rows:
            found[f"T{name}"] = [(stamp.rowtime, *row) for stamp, row in rows]  # type: ignore[misc]  # pairs
    return found


@st.composite
def rows_in_order(draw: st.DrawFn, shape: Shape) -> list[Arrival]:
    """Rows in order of rowtime, so that none is late in its partition."""
    steps = draw(st.lists(st.tuples(st.sampled_from((0, 0, 1, 5, 20)), st.integers(0, 3)), max_size=12))
    rng = random.Random(draw(st.integers(0, 999)))
    rowtime, found = 1_000, []
    for step, energy in steps:
        rowtime += step
        row = energy, rng.randrange(50)
        found.append(Arrival(rng.choice(shape.graph.sources), rowtime, row))
    return found


def run_with_deaths(world: World, point: str, count: int, pace: Pace) -> int:
    """Start processes until one gets to the end; the first three die at ``point``. Give how many died."""
    for attempt in range(20):
        crash: CrashPoints = CrashAt(point, count, raise_crash) if attempt < 3 else NoCrash()
        try:
            Service(world.context(pace=pace, crash_points=crash)).run(until_end=True)
        except SimulatedCrash:
            continue
        return attempt
    raise AssertionError("no process got to the end")


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_death_gives_what_going_row_by_row_gives(data: st.DataObject) -> None:
    shape = data.draw(shapes(uses=ALL_USES))
    arrived = data.draw(rows_in_order(shape))
    world = world_of(plan_of(shape), arrived, cut=data.draw(st.integers(0, 99)))
    snapshot_rows = data.draw(st.sampled_from((None, 1, 5)))
    pace = Pace(0, data.draw(st.sampled_from((1, 3, 100))), snapshot_rows, None)
    run_with_deaths(world, data.draw(st.sampled_from(POINTS)), data.draw(st.integers(1, 3)), pace)
    assert rows_of(world) == referred(shape, arrived)
    # What came back in the loops followed from the rows: there was nothing to write down.
    assert world.checkpoint.decisions == []


def run_live(world: World, pace: Pace, point: str, count: int) -> None:
    """Start processes that are live for some turns; all but the third die at ``point`` if they come to it."""
    for attempt in range(3):
        crash: CrashPoints = CrashAt(point, count, raise_crash) if attempt < 2 else NoCrash()
        looks = iter(range(25))
        context = world.context(
            pace=pace, crash_points=crash, stopping=lambda looks=looks: next(looks, None) is None
        )
        with suppress(SimulatedCrash):
            Service(context).run()


def diamond_with_loops(kind: type[Busy] = Busy) -> Shape:
    """Two nodes over two inputs, a third that reads both, and a loop of every use."""
    graph = Graph()
    one, two = graph.source("S0"), graph.source("S1")
    habits = {name: Habits(at, 5 * at, 3, at % 2, resets=False) for at, name in enumerate(("N0", "N1", "N2"))}
    graph.node("N0", partial(kind, habits["N0"], [], []), [one])
    graph.node("N1", partial(Busy, habits["N1"], ["own"], []), [two, one])
    graph.node("N2", partial(kind, habits["N2"], ["soon", "later"], ["clock"]), ["N0", "N1"])
    graph.loop("own", "N1", "N1", use=Use.RECORDED)
    graph.loop("soon", "N2", "N0", LOOP_MS, Use.LIMITED)
    graph.loop("later", "N2", "N1", LOOP_MS)
    graph.scheduler("clock", "N2", "N0", LOOP_MS)
    return Shape(graph, habits)


def many_rows(shape: Shape, seed: int, count: int = 30, rowtime: int = 1_000) -> list[Arrival]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        rowtime += rng.choice((0, 0, 0, 1, 4, 20))
        row = rng.randrange(2, 6), rng.randrange(50)
        found.append(Arrival(rng.choice(shape.graph.sources), rowtime, row))
    return found


@pytest.mark.parametrize("snapshot_rows", [None, 7])
@pytest.mark.parametrize("point", POINTS)
def test_dying_at_any_step_of_a_commit_changes_nothing(point: str, snapshot_rows: int | None) -> None:
    shape = diamond_with_loops()
    arrived = many_rows(shape, seed=3)
    expected = referred(shape, arrived)
    # Rows have come back: there are more than came in.
    assert sum(map(len, expected.values())) > 4 * len(arrived)
    world = world_of(plan_of(shape), arrived, cut=1)
    run_with_deaths(world, point, 2, Pace(0, 5, snapshot_rows, None))
    assert rows_of(world) == expected


def test_threads_that_read_change_nothing() -> None:
    shape = diamond_with_loops()
    arrived = many_rows(shape, seed=4)
    world = world_of(plan_of(shape), arrived, cut=2)
    Service(world.context(pace=Pace(0, 5, None, None), threads=True, clock=SystemClock())).run(until_end=True)
    assert rows_of(world) == referred(shape, arrived)


@pytest.mark.parametrize(("point", "snapshot_rows"), [*zip(POINTS, cycle((None, 7)), strict=False)])
def test_dying_around_the_seam_between_history_and_today_changes_nothing(
    point: str, snapshot_rows: int | None
) -> None:
    shape = diamond_with_loops(BusyResettable)
    history = many_rows(shape, seed=5, count=15)
    world = world_of(plan_of(shape), history, cut=3, end=history[-1].rowtime + 1)
    pace = Pace(0, 5, snapshot_rows, None)
    run_live(world, pace, point, 2)
    (decision,) = world.checkpoint.decisions
    assert (decision.kind, decision.relation) == ("RESET", "G")
    jump = decision.next_offset, decision.bound or 0
    # No one made it when nothing was there, or would make it again: the clock has gone on since.
    assert jump[0] == history[-1].rowtime + 1
    assert jump[1] <= world.clock.now_ms()
    # The first rows of today are from before anybody looked.
    today = many_rows(shape, seed=6, count=15, rowtime=jump[1] - 40)
    bring(world, today, end=jump[1] + FAR)
    run_live(world, pace, point, 1)
    assert world.checkpoint.decisions == [decision]
    assert rows_of(world) == referred(shape, history, today, jump=jump)
    assert rows_of(world) != referred(shape, history, today)
    assert world.checkpoint.errors == []


def test_a_pipeline_without_history_has_no_jump_and_makes_none_later() -> None:
    shape = diamond_with_loops(BusyResettable)
    world = World(InMemoryTopic("readings", PARTITIONS), plan=plan_of(shape))
    run_live(world, Pace(0, 5, None, None), "commit.after_commit", 9)
    today = many_rows(shape, seed=6, rowtime=world.clock.now_ms())
    bring(world, today, end=today[-1].rowtime + FAR)
    run_live(world, Pace(0, 5, None, None), "commit.after_commit", 1)
    assert [each.kind for each in world.checkpoint.decisions] == ["RESET"]
    assert rows_of(world) == referred(shape, today)
