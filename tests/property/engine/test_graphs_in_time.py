"""Graphs in consistent time: any schedule, any number of threads and any restart give the same rows."""

from __future__ import annotations

import copy
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from property.engine.graph_model import LOOP_MS, Arrival, Reference, Shape, arrivals, shapes
from rowtide.engine.graph import Decisions, Given, GraphRun, Use
from rowtide.engine.graph.decisions import Divergence, ReplayDivergedError

FAR = 10_000
DECIDING = (Use.LIMITED, Use.RECORDED, Use.CONSISTENT)
Out = dict[str, list[Given]]


def run_of(shape: Shape, log: Decisions | None = None) -> GraphRun:
    return GraphRun(shape.graph, shape.outputs, log)


def any_order(run: GraphRun, rng: random.Random, most: int) -> None:
    """Let nodes step in any order, each as far as it likes."""
    for _ in range(rng.randrange(most)):
        run.step(rng.choice(run.nodes), rng.choice((1, 1, 2, 50)))
        if rng.random() < 0.1:
            settle(run)


def settle(run: GraphRun) -> None:
    """Jump, as is allowed at any time."""
    run.jump()


def in_threads(run: GraphRun, threads: int, limit: int) -> None:
    """Step all nodes at once, and jump between two rounds, until neither moves anything."""
    with ThreadPoolExecutor(threads) as pool:
        while any([*pool.map(lambda node: run.step(node, limit), run.nodes), run.jump()]):
            pass


def feed(run: GraphRun, arrived: list[Arrival], rng: random.Random) -> None:
    for each in arrived:
        run.insert(each.source, each.rowtime, each.row)
        any_order(run, rng, 4)
        if rng.random() < 0.2:
            run.bound(each.source, each.rowtime)


def finish(run: GraphRun, shape: Shape) -> Out:
    for source in shape.graph.sources:
        run.bound(source, FAR)
    run.drain()
    return {name: run.taken(name) for name in shape.outputs}


def referred(shape: Shape, arrived: list[Arrival]) -> Out:
    reference = Reference(shape.graph)
    for each in arrived:
        reference.insert(each)
    return reference.run()


@given(data=st.data())
def test_any_schedule_gives_what_going_row_by_row_gives(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    arrived = data.draw(arrivals(shape.graph))
    rng = random.Random(data.draw(st.integers(0, 99)))
    run = run_of(shape)
    feed(run, arrived, rng)
    assert finish(run, shape) == referred(shape, arrived)


@settings(max_examples=25)
@given(data=st.data())
def test_any_number_of_threads_gives_the_same(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    arrived = data.draw(arrivals(shape.graph))
    run = run_of(shape)
    for each in arrived:
        run.insert(each.source, each.rowtime, each.row)
    for source in shape.graph.sources:
        run.bound(source, FAR)
    in_threads(run, data.draw(st.integers(1, 4)), data.draw(st.sampled_from((1, 3, 100))))
    assert {name: run.taken(name) for name in shape.outputs} == referred(shape, arrived)


@given(data=st.data())
def test_what_has_come_out_at_any_time_is_how_the_whole_begins(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    arrived = data.draw(arrivals(shape.graph))
    run = run_of(shape)
    feed(run, arrived, random.Random(data.draw(st.integers(0, 99))))
    whole = referred(shape, arrived)
    for name in shape.outputs:
        given_so_far = run.taken(name)
        assert given_so_far == whole[name][: len(given_so_far)]
        assert given_so_far == sorted(given_so_far, key=lambda each: each.stamp)


@given(data=st.data())
def test_a_restart_anywhere_changes_nothing(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    arrived = data.draw(arrivals(shape.graph))
    cut = data.draw(st.integers(0, len(arrived)))
    rng = random.Random(data.draw(st.integers(0, 99)))
    first = run_of(shape)
    feed(first, arrived[:cut], rng)
    state = copy.deepcopy(first.snapshot())
    second = run_of(shape)
    second.restore(state)
    feed(second, arrived[cut:], rng)
    assert finish(second, shape) == referred(shape, arrived)


@given(data=st.data())
def test_a_replay_that_obeys_the_log_gives_the_same_rows_and_stamps(data: st.DataObject) -> None:
    shape = data.draw(shapes(uses=DECIDING))
    arrived = data.draw(arrivals(shape.graph))
    first = run_of(shape)
    feed(first, arrived, random.Random(data.draw(st.integers(0, 99))))
    out = finish(first, shape)
    log = first.decisions()
    second = run_of(shape, log)
    # In another order, and in accelerated time.
    feed(second, arrived, random.Random(data.draw(st.integers(0, 99))))
    assert finish(second, shape) == out
    again = second.decisions()
    assert {each.link: log.of(each.link) for each in log.restamped} == {
        each.link: again.of(each.link) for each in again.restamped
    }
    for each in log.restamped:
        use = next(loop.use for loop in shape.graph.loops if loop.name == each.link)
        assert each.stamp >= each.original
        if use is Use.LIMITED:
            assert each.stamp.rowtime <= each.original.rowtime + LOOP_MS


@given(data=st.data())
def test_a_replay_after_a_snapshot_obeys_the_rest_of_the_log(data: st.DataObject) -> None:
    shape = data.draw(shapes(uses=DECIDING))
    arrived = data.draw(arrivals(shape.graph))
    cut = data.draw(st.integers(0, len(arrived)))
    rng = random.Random(data.draw(st.integers(0, 99)))
    first = run_of(shape)
    feed(first, arrived[:cut], rng)
    state = copy.deepcopy(first.snapshot())
    log = first.decisions()
    feed(first, arrived[cut:], rng)
    out = finish(first, shape)
    log.extend(first.decisions())
    second = run_of(shape, log)
    second.restore(state)
    feed(second, arrived[cut:], random.Random(data.draw(st.integers(0, 99))))
    assert finish(second, shape) == out


@given(data=st.data())
def test_a_run_that_differs_from_its_log_stops_or_decides_anew(data: st.DataObject) -> None:
    shape = data.draw(shapes(uses=(Use.LIMITED, Use.RECORDED)))
    arrived = data.draw(arrivals(shape.graph))
    first = run_of(shape)
    feed(first, arrived, random.Random(1))
    finish(first, shape)
    log = first.decisions()
    if not log.restamped:
        return
    other = [Arrival(each.source, each.rowtime + 1, each.row) for each in arrived]
    stops = run_of(shape, log)
    with pytest.raises(ReplayDivergedError):
        feed(stops, other, random.Random(2))
        finish(stops, shape)
    goes_on = GraphRun(shape.graph, shape.outputs, log, Divergence.DECIDE_ANEW)
    feed(goes_on, other, random.Random(3))
    out = finish(goes_on, shape)
    for name in shape.outputs:
        assert out[name] == sorted(out[name], key=lambda each: each.stamp)
    fresh = goes_on.decisions()
    third = run_of(shape, fresh)
    feed(third, other, random.Random(4))
    assert finish(third, shape) == out


@given(data=st.data())
def test_a_jump_of_time_is_told_once_in_place_of_what_would_have_come(data: st.DataObject) -> None:
    shape = data.draw(shapes(resets=True))
    before = data.draw(arrivals(shape.graph, most=5))
    after = data.draw(arrivals(shape.graph, most=5, start=500))
    rng = random.Random(data.draw(st.integers(0, 99)))
    run = run_of(shape)
    feed(run, before, rng)
    run.reset(500)
    feed(run, after, rng)
    out = finish(run, shape)
    log = run.decisions()
    (jump,) = log.resets
    reference = Reference(shape.graph)
    for each in [*before, *after]:
        reference.insert(each)
    reference.reset(jump.before, jump.after)
    assert out == reference.run()
    # A replay knows of it from the start.
    second = run_of(shape, log)
    feed(second, [*before, *after], rng)
    assert finish(second, shape) == out
