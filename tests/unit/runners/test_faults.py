"""Faults stay in the blocks of tasks until they are read, by one step of a plan for each stage."""

from __future__ import annotations

import pickle

import pytest

from rowtide.errors import Reason
from rowtide.operators.contract import Fault
from rowtide.runners.spark.faults import Faults
from rowtide.runners.spark.shuffle.exchange import Exchange
from rowtide.runners.spark.shuffle.given import FAULTS_AT_ONCE, Layout, TaskBlocks
from rowtide.runners.spark.shuffle.held import StageGiven
from support.spark_stand_in import StandIn


def fault(origin: int, counter: int) -> Fault:
    return Fault("TRIPS", Reason.LATE, f"row {counter}", 0, origin, counter, (counter,))


class World:
    """The faults of a run; each stage has one task, which the driver plays."""

    def __init__(self, parts: int) -> None:
        self.session = StandIn(parts)
        self._exchange = Exchange(self.session.as_session(), parts)
        self.faults = Faults(self.session.as_session(), self._exchange, {0, 1}, ["table", 1])

    def add(self, faults: list[Fault], of: int | str = "table") -> None:
        self.faults.add(self._given(faults), of)

    def _given(self, faults: list[Fault]) -> StageGiven:
        blocks = TaskBlocks(Layout(1, {}, has_seq=False), {})
        blocks.faults(faults)
        return self._exchange.put(blocks.close(None), 0)


@pytest.mark.parametrize("count", [1, 2, 50])
def test_faults_of_many_stages_are_read_by_one_job(count: int) -> None:
    world = World(3)
    given = [[fault(number % 2, 10 * number + each) for each in range(2)] for number in range(count)]
    for each in given:
        world.add(each)
    rows = world.faults._reported({0: ("TRIPS", 4)}).collect()
    assert len(world.session.jobs) == 1
    assert world.faults.count() == len(rows) == 2 * count
    turns = sorted({row[2] for row in rows})
    found = [(turns.index(row[2]), pickle.loads(bytes(row[6]))) for row in rows]
    assert found == [(turn, each) for turn, held in enumerate(given) for each in held]
    assert {(row[0], row[4], row[5]) for row in rows} <= {(0, "TRIPS", 4), (1, None, None)}


def test_many_faults_are_read_block_by_block_and_each_once() -> None:
    world = World(2)
    faults = [fault(0, each) for each in range(2 * FAULTS_AT_ONCE + 1)]
    world.add(faults)
    world.add([])
    world.add(faults[:3], of=1)
    assert [row[1] for row in world.faults._reported({}).collect()] == [*range(len(faults)), 0, 1, 2]
    assert world.faults.count() == len(faults) + 3
    assert world.faults.read() == faults
    world.faults.forget(1)
    assert world.faults.count() == len(faults)


def test_equal_faults_of_rows_that_tasks_have_numbered_are_of_different_rows() -> None:
    world = World(2)
    for _ in range(2):
        world.add([fault(0, 1), fault(7, 1)], of=1)
    assert world.faults.read() == [fault(0, 1), fault(7, 1), fault(7, 1)]
    identities = [bytes(row[3]) for row in world.faults._reported({0: ("TRIPS", 4)}).collect()]
    assert len(set(identities)) == 3
    assert world.faults.oldest({0: ("TRIPS", 4)}) == {("TRIPS", 4): 1}
