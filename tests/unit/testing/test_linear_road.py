"""Linear Road: tolls, alerts and balances in SQL are those that its rules demand, vector by vector.

The vectors are those on which independent implementations agree; traffic is compared with the rules as
``answers`` computes them from all reports at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import pytest

from rowtide.bench.linear_road.answers import Answers, answers
from rowtide.bench.linear_road.running import LinearRoadRun, differences, parts
from rowtide.bench.linear_road.traffic import (
    SEGMENT_FEET,
    BalanceRequest,
    ExpenditureRequest,
    Report,
    Traffic,
    traffic,
)


def report(time: int, vid: int, spd: int, seg: int, *, lane: int = 1, dir: int = 0, pos: int = 100) -> Report:
    return Report(time, vid, spd, 0, lane, dir, seg, seg * SEGMENT_FEET + pos)


def crowd(cars: int, *, seg: int = 10, spd: int = 30, minute: int = 0, first: int = 1_000) -> list[Report]:
    """Return one report of each of so many cars within a minute."""
    return [report(minute * 60 + at % 60, first + at, spd, seg) for at in range(cars)]


def asked(reports: Iterable[Report], *balances: tuple[int, int]) -> Traffic:
    requests = [BalanceRequest(time, vid, qid) for qid, (time, vid) in enumerate(balances)]
    return Traffic(sorted(reports), requests, [], [])


def given_by(given: Traffic, size: int = 10_000) -> Answers:
    """Run the queries."""
    running = LinearRoadRun()
    running.past(given.history)
    for part, last in parts(given, size):
        running.feed(part, last)
    running.close()
    return running.answers()


def both(given: Traffic, size: int = 10_000) -> Answers:
    """Run the queries, and see that they give what the rules demand."""
    found = given_by(given, size)
    assert differences(found, answers(given)) == "ok"
    return found


def notices_of(found: Answers, vid: int) -> list[tuple[int, ...]]:
    """Return time, speed and toll of the notices of a vehicle."""
    return sorted((time, *rest) for time, of, *rest in found.notices if of == vid)


ONE_ENTERS = [report(60, 1, 30, 9), report(90, 1, 30, 10)]


@pytest.mark.parametrize(("cars", "toll"), [(49, 0), (50, 0), (51, 2), (52, 8), (60, 200), (150, 20_000)])
def test_a_toll_grows_with_the_square_of_the_cars_above_fifty(cars: int, toll: int) -> None:
    found = both(asked([*crowd(cars), *ONE_ENTERS]))
    assert notices_of(found, 1) == [(60, -1, 0), (90, 30, toll)]


@pytest.mark.parametrize(("slower", "speed", "toll"), [(0, 40, 0), (1, 39, 5_000), (100, 39, 5_000)])
def test_the_speed_is_truncated(slower: int, speed: int, toll: int) -> None:
    reports = crowd(slower, spd=39) + crowd(100 - slower, spd=40, first=2_000)
    assert notices_of(both(asked([*reports, *ONE_ENTERS])), 1)[1] == (90, speed, toll)


def test_minutes_without_cars_do_not_count_as_slow() -> None:
    found = both(asked([report(10, 1_000, 60, 10), report(130, 1_001, 10, 10), report(300, 1, 30, 10)]))
    assert notices_of(found, 1) == [(300, 35, 0)]


def test_the_mean_is_of_cars_not_of_reports() -> None:
    reports = [report(1, 1_000, 10, 10), report(31, 1_000, 30, 10, pos=200), report(5, 1_001, 80, 10)]
    assert notices_of(both(asked([*reports, *ONE_ENTERS])), 1)[1] == (90, 50, 0)


def crash(
    *, until: int = 120, shift: int = 0, lanes: tuple[int, int] = (2, 2), feet: int = 0, direction: int = 0
) -> list[Report]:
    """Let two cars stand in segment 20, and move at ``until`` and five seconds later."""
    reports = []
    for vid, begin, lane, pos in ((501, 0, lanes[0], 100), (502, 5, lanes[1], 100 + feet)):
        times = range(begin + shift, until + begin + shift, 30)
        reports += [report(time, vid, 0, 20, lane=lane, dir=direction, pos=pos) for time in times]
        reports.append(report(until + begin + shift, vid, 20, 20, lane=lane, dir=direction, pos=pos + 500))
    return reports


def entering(time: int, segs: Iterable[int], direction: int = 0) -> list[Report]:
    return [report(time, 600 + seg, 30, seg, dir=direction) for seg in segs]


@pytest.mark.parametrize(("direction", "warned"), [(0, range(16, 21)), (1, range(20, 25))])
def test_cars_up_to_four_segments_before_an_accident_are_warned(direction: int, warned: range) -> None:
    found = both(asked(crash(direction=direction) + entering(155, range(14, 27), direction)))
    assert sorted(vid - 600 for _, _, _, _, vid in found.alerts) == list(warned)
    assert {seg for _, _, seg, _, _ in found.alerts} == {20}


@pytest.mark.parametrize(
    "no_accident",
    [crash(lanes=(1, 2)), crash(feet=1), crash(lanes=(0, 0)), crash(lanes=(4, 4)), crash(until=90)],
    ids=["different lanes", "a foot apart", "on the entrance", "on the exit", "three reports"],
)
def test_what_is_no_accident_warns_nobody(no_accident: list[Report]) -> None:
    assert not both(asked(no_accident + entering(155, range(14, 27)))).alerts


@pytest.mark.parametrize(
    ("shift", "times", "warned"),
    [
        (
            0,
            (94, 96, 119, 120, 179, 180, 240, 244, 245, 299, 300, 360),
            (120, 179, 180, 240, 244, 245, 299),
        ),
        (1, (119, 120, 299, 300, 359, 360), (120, 299, 300, 359)),
    ],
)
def test_warnings_last_from_the_minute_after_the_first_to_the_one_after_the_last(
    shift: int, times: Sequence[int], warned: Sequence[int]
) -> None:
    enter = [report(time, 700 + at, 30, 18) for at, time in enumerate(times)]
    found = both(asked(crash(until=240, shift=shift) + enter))
    assert sorted(time for time, *_ in found.alerts) == list(warned)


def test_who_leaves_in_the_segment_pays_nothing_and_who_drives_on_does() -> None:
    crowded = [*crowd(52), *ONE_ENTERS]
    assert both(asked([*crowded, report(120, 1, 30, 10, lane=4)], (150, 1))).balances == [(150, 0, 1, 0)]
    left = asked([*crowded, report(120, 1, 30, 11, lane=4)], (90, 1), (120, 1))
    assert sorted(both(left).balances) == [(90, 0, 1, 0), (120, 1, 1, 8)]


@pytest.mark.parametrize(("gap", "balance"), [(61, 0), (60, 8)])
def test_a_new_trip_forgets_the_toll_of_the_last_one(gap: int, balance: int) -> None:
    again = [report(120 + gap, 1, 30, 11, lane=0), report(150 + gap, 1, 30, 12)]
    reports = [*crowd(52), *ONE_ENTERS, report(120, 1, 30, 10, lane=4), *again]
    assert both(asked(reports, (150 + gap, 1))).balances == [(150 + gap, 0, 1, balance)]


def test_nobody_pays_for_a_segment_before_an_accident() -> None:
    found = both(asked([*crash(), *crowd(60, seg=18, minute=1), report(155, 1, 30, 18)]))
    assert (155, 0, 20, 0, 1) in found.alerts
    assert notices_of(found, 1) == [(155, 30, 0)]


def test_past_days_are_looked_up() -> None:
    requests = [ExpenditureRequest(10, 1, 0, 1, 5), ExpenditureRequest(10, 1, 1, 2, 5)]
    given = Traffic([report(10, 1, 30, 10)], [], requests, [(1, 5, 0, 77), (1, 6, 0, 5)])
    assert sorted(both(given).expenditures) == [(10, 1, 77), (10, 2, 0)]


@pytest.mark.parametrize("size", [97, 1_000, 100_000])
def test_ten_minutes_of_traffic_are_answered_by_the_rules(size: int) -> None:
    found = both(traffic(seed=size, vehicles=1_000, seconds=600, expressways=2), size)
    assert len(found.notices) > 1_000
    assert found.alerts


def at_the_edges(seed: int) -> Traffic:
    """Return a few segments in which everything hugs its limit.

    About fifty cars at about 40 mph, that stop now and then, in any lane, leave and come back, and report
    at the first and last seconds of minutes; accidents at both ends of the road.
    """
    random = Random(seed)
    reports = []
    for vid in range(1, 80):
        time = random.choice((0, 1, 29, 30, 31, 59))
        direction = random.randrange(2)
        seg, pos, lane = random.choice((0, 1, 2, 97, 98, 99)), 100, 1
        while time < 720:
            reports.append(report(time, vid, random.randint(38, 41), seg, lane=lane, dir=direction, pos=pos))
            time += 30
            match random.randrange(12):
                case 0 | 1:
                    seg = min(max(seg + (1 if direction == 0 else -1), 0), 99)
                    pos, lane = random.choice((100, 200)), random.randint(1, 3)
                case 2:
                    pos, lane = random.choice((100, 101)), random.randint(1, 2)
                case 3:
                    lane = random.choice((0, 4))
                case 4 if lane == 4:
                    time, lane = time + random.choice((29, 30, 31, 60)), 0
    requests = [
        BalanceRequest(each.time, each.vid, qid)
        for qid, each in enumerate(sorted(reports))
        if random.random() < 0.1
    ]
    return Traffic(sorted(reports), requests, [], [])


@pytest.mark.parametrize("seed", range(6))
def test_traffic_at_the_edges_of_all_rules_is_answered_by_them(seed: int) -> None:
    given = at_the_edges(seed)
    found = both(given, size=Random(seed).randint(20, 2_000))
    assert found.alerts
    random = Random(seed)
    mixed = sorted(given.reports, key=lambda each: (each.time, random.random()))
    # Reports of one second may come in any order.
    again = given_by(Traffic(mixed, given.balances, [], []))
    assert differences(again, answers(given)) == "ok"
