"""What the last rows of a relation keep in memory, and the order of partitions."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from rowtide.flow.flow import Flow
from rowtide.flow.latest_trays import KEPT_ROWS, LARGE_ROWS, MANY_TRAYS, LatestTrays
from rowtide.plan.nodes import Source
from rowtide.rows.column import Column
from rowtide.rows.deferred import DeferredColumn
from rowtide.rows.tray import Tray
from rowtide.rows.types import BIGINT, VARCHAR, Field, RowType

ROW = RowType((Field("N", BIGINT), Field("S", VARCHAR)))
SOURCE = Source("S", ROW, foreign=True)


class Kept:
    """A flow that passes rows on, and what is kept of them."""

    def __init__(self) -> None:
        self.flow = Flow({"out": SOURCE}, {"S": (0, 1)})
        self.latest = LatestTrays({"S": SOURCE, "UNREAD": Source("U", ROW, foreign=True)}, 5)
        self.latest.follow(self.flow)

    def give(self, tray: Tray, partition: int = 0) -> None:
        self.flow.insert("S", partition, tray)
        self.flow.drain()

    def numbers(self, count: int = KEPT_ROWS) -> list[object]:
        return [row.row[0] for row in self.latest.rows("S", count).rows()]


def tray(first: int, count: int) -> Tray:
    """Return rows with the numbers from ``first`` on."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    texts = Column.from_values(VARCHAR, map(str, numbers.tolist()))
    return Tray.from_columns(ROW, (Column(BIGINT, numbers), texts), numbers.copy(), 0, numbers.copy())


def large() -> tuple[Tray, object]:
    found = tray(0, 50 * LARGE_ROWS)
    return found, found.rowtime


def part_of_a_large_one() -> tuple[Tray, object]:
    found = tray(0, 50 * LARGE_ROWS)
    return found.slice(0, 3), found.rowtime


def not_computed() -> tuple[Tray, object]:
    numbers = np.arange(50 * LARGE_ROWS, dtype=np.int64)
    found = tray(0, 3)
    column = DeferredColumn(BIGINT, 3, lambda: Column(BIGINT, numbers[:3].copy()))
    return found.with_columns(ROW, (column, found.columns[1])), numbers


@pytest.mark.parametrize("make", [large, part_of_a_large_one, not_computed])
def test_no_large_memory_stays_for_few_rows(make: Callable[[], tuple[Tray, object]]) -> None:
    kept = Kept()
    given, memory = make()
    of_memory = weakref.ref(memory)
    wanted = [row.row[0] for row in given.rows()][-KEPT_ROWS:]
    kept.give(given)
    del given, memory
    assert kept.numbers() == wanted
    kept.latest.settle()
    gc.collect()
    assert of_memory() is None
    assert kept.numbers() == wanted
    assert kept.numbers(2) == wanted[-2:]


def alive(seen: list[weakref.ref[object]]) -> list[weakref.ref[object]]:
    """Return those whose memory is still kept."""
    return [each for each in seen if each() is not None]


def sizes(rows: int) -> Iterator[int]:
    """Return sizes of trays of so many rows each; some are empty."""
    for number in range(1_000):
        yield rows if number % 5 else 0


@pytest.mark.parametrize("rows", [1, 3, KEPT_ROWS, LARGE_ROWS])
def test_the_trays_that_stay_are_limited_however_many_rows_come(rows: int) -> None:
    kept, first = Kept(), 0
    seen: list[weakref.ref[object]] = []
    most = -(-KEPT_ROWS // rows) + 1
    for number, size in enumerate(sizes(rows)):
        given = tray(first, size)
        first += size
        seen.append(weakref.ref(given.rowtime))
        kept.give(given)
        del given
        assert len(alive(seen)) <= most
        if number % 100 == 0:
            kept.latest.settle()
            assert len(alive(seen)) <= MANY_TRAYS
        seen = alive(seen)
    assert kept.latest.total("S") == first
    assert kept.numbers() == list(range(first))[-KEPT_ROWS:]


def test_rows_of_partitions_are_in_the_order_in_which_they_came() -> None:
    kept = Kept()
    kept.give(tray(10, 2), partition=1)
    kept.give(tray(0, 2), partition=0)
    kept.give(tray(12, 1), partition=1)
    assert kept.numbers() == [10, 11, 0, 1, 12]
    assert kept.numbers(0) == []
    # A flow with more partitions goes on.
    wide = kept.flow.widened({"S": (0, 1, 2)})
    kept.flow = wide
    kept.latest.follow(wide)
    kept.give(tray(20, 1), partition=2)
    assert kept.numbers(3) == [1, 12, 20]
    assert (kept.latest.total("S"), kept.latest.since_ms) == (6, 5)


def test_what_does_not_run_has_no_rows() -> None:
    latest = Kept().latest
    assert ("S" in latest, "UNREAD" in latest) == (True, False)
    with pytest.raises(KeyError):
        latest.rows("UNREAD", 1)
    assert list(latest.rows("S", 1).rows()) == []
