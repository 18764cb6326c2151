from __future__ import annotations

from rowtide.rowtime.bound import EARLIEST
from rowtide.rowtime.idle import IdlePartitions

TIMEOUT = 30_000


def test_a_partition_is_idle_once_it_has_been_silent_for_the_time_out() -> None:
    partitions = IdlePartitions([0, 1], TIMEOUT, now=0)
    partitions.note_arrival(0, now=1)
    assert partitions.idle(now=TIMEOUT - 1) == frozenset()
    assert partitions.idle(now=TIMEOUT) == {1}
    assert partitions.idle(now=TIMEOUT + 1) == {0, 1}


def test_an_idle_partition_takes_the_least_bound_of_those_that_are_awake() -> None:
    partitions = IdlePartitions([0, 1, 2], TIMEOUT, now=0)
    partitions.note_arrival(0, now=20_000)
    partitions.note_arrival(1, now=20_000)
    bounds = {0: 500, 1: 400, 2: EARLIEST}
    assert partitions.decide(bounds, now=TIMEOUT - 1) == {}
    assert partitions.decide(bounds, now=TIMEOUT) == {2: 400}
    assert partitions.decide(bounds | {2: 400}, now=TIMEOUT) == {}


def test_an_awake_partition_without_a_bound_holds_all_back() -> None:
    partitions = IdlePartitions([0, 1, 2], TIMEOUT, now=0)
    partitions.note_arrival(0, now=20_000)
    assert partitions.decide({0: EARLIEST, 1: 400, 2: 300}, now=TIMEOUT) == {}


def test_what_an_idle_partition_promised_itself_is_not_taken_back() -> None:
    partitions = IdlePartitions([0, 1], TIMEOUT, now=0)
    partitions.note_arrival(0, now=20_000)
    assert partitions.decide({0: 500, 1: 900}, now=TIMEOUT) == {}


def test_where_all_are_idle_none_holds_another_back() -> None:
    partitions = IdlePartitions([0, 1, 2], TIMEOUT, now=0)
    assert partitions.decide({0: 500, 1: 400, 2: EARLIEST}, now=TIMEOUT) == {1: 500, 2: 500}


def test_a_row_wakes_its_partition() -> None:
    partitions = IdlePartitions([0, 1], TIMEOUT, now=0)
    partitions.note_arrival(1, now=TIMEOUT)
    assert partitions.idle(now=TIMEOUT) == {0}
