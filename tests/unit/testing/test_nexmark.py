"""Nexmark: the generator's events and the queries' answers are those of the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rowtide.bench.nexmark.answers import ANSWERS, digest
from rowtide.bench.nexmark.events import JavaRandom, Rows, parts
from rowtide.bench.nexmark.running import QueryRun, check
from rowtide.bench.suite import benchmarks, named
from rowtide.clock import SystemClock

# One process compiles the generator's kernels.
pytestmark = pytest.mark.xdist_group("nexmark")

IN_ARRIVAL_ORDER = {
    "person": "fdefcb7a3b344570",
    "auction": "af0f7a13b0eb6750",
    "bid": "fa157651dba5e9b3",
}


def lines(rows: Rows) -> Iterator[tuple[object, ...]]:
    """Return the rows of one stream."""
    columns = [each.to_pylist() if hasattr(each, "to_pylist") else each.tolist() for each in rows.columns]
    return zip(*columns, strict=True)


def drawn(count: int, micros: int, size: int = 16_384) -> dict[str, list[Sequence[object]]]:
    """Return the rows of the first events, by stream."""
    found: dict[str, list[Sequence[object]]] = {stream: [] for stream in IN_ARRIVAL_ORDER}
    for part in parts(count, micros, size):
        for stream in found:
            found[stream] += lines(getattr(part, stream))
    return found


def test_numbers_are_drawn_as_java_draws_them() -> None:
    random = JavaRandom(42)
    assert [random.below(10) for _ in range(10)] == [0, 3, 8, 4, 0, 5, 5, 8, 9, 3]
    assert JavaRandom(42).share() == 0.7275636800328681


def test_some_events_are_known_by_heart() -> None:
    persons, auctions, bids = drawn(100_000, 100).values()
    assert persons[0] == (1000, "Peter Jones", "nhd@xcat.com", "7241 7320 9143 4888", "Portland", "WY", 0)
    assert persons[1][2:] == ("f  y@yumv.com", "0892 2755 1923 0591", "Los Angeles", "ID", 5)
    assert persons[20][1:4] == ("Walter Abrams", "alkt@csxs.com", "0871 2589 0002 1693")
    assert [auction[0] for auction in auctions[:4]] == [1000, 1001, 1002, 1003]
    assert auctions[1][1] == "z ck w"
    assert auctions[1][3:] == (25626290, 28805847, 0, 202, 1000, 12)
    assert auctions[3][3:] == (5037490, 5980861, 5, 8, 1000, 11)
    assert [bid[:3] for bid in bids[:3]] == [
        (1000, 1001, 32530001),
        (1000, 1009, 468715),
        (1000, 1001, 300435),
    ]
    assert (*bids[-1][:3], bids[-1][5]) == (6900, 2901, 76433, 9999)


def test_the_bids_of_two_hundred_thousand_events_have_the_reference_hash() -> None:
    total = 0
    for auction, bidder, price, *_ in drawn(200_000, 100)["bid"]:
        for value in (auction, bidder, price):
            assert isinstance(value, int)
            total = (31 * total + value) % 2**64
    assert total - 2**64 == -8908897502803198513


def test_all_columns_have_the_reference_digest() -> None:
    texts = {
        stream: "\n".join("|".join(map(str, row)) for row in rows)
        for stream, rows in drawn(50_000, 10_000, size=7_001).items()
    }
    # The reference's digest of the input is of lines in order of arrival: here they are one line.
    assert {stream: digest([text]) for stream, text in texts.items()} == IN_ARRIVAL_ORDER


@pytest.mark.parametrize("name", ANSWERS)
def test_a_query_gives_the_reference_answer(name: str) -> None:
    assert check(name) == "ok"


@pytest.mark.parametrize("name", ANSWERS)
def test_a_query_gives_the_same_of_events_that_come_mixed_up(name: str) -> None:
    assert check(name, disorder=100) == "ok"


def test_a_query_with_a_table_joins_its_side_input() -> None:
    running = QueryRun("q13")
    bids = [row for rows in running.trays(1_000, 100) for tray in running.feed(rows) for row in tray.rows()]
    assert bids
    assert all(bid.row[4] == bid.row[0] % 10_000 for bid in bids if isinstance(bid.row[0], int))


def test_a_family_of_benchmarks_has_one_name(tmp_path: Path) -> None:
    known = benchmarks()
    assert [each.name for each in named("nexmark", known)] == [f"nexmark-{name}" for name in ANSWERS]
    assert named("W1", known) == [known["W1"]]
    assert not named("nex", known)
    outcome = known["nexmark-q2"].run(100_000, tmp_path, SystemClock())
    assert outcome.check == "ok"
    assert outcome.rows_out > 100
