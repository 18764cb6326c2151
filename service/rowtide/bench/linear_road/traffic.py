"""Traffic on expressways: position reports of vehicles and requests of their drivers, from a seed.

Every vehicle has its own generator, so its reports do not depend on the other traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import NamedTuple

EASTBOUND, WESTBOUND = 0, 1
SEGMENTS, SEGMENT_FEET = 100, 5_280
ENTRANCE, EXIT = 0, 4
"""Lanes; 1, 2 and 3 are for travel."""
REPORT_S = 30
FEET_PER_REPORT = 44
"""The distance at one mile per hour in ``REPORT_S`` seconds."""
BUSY = range(38, 53)
"""Segments that most vehicles cross, slowly."""
BUSY_SHARE = 0.6
ACCIDENT_FIRST_S, ACCIDENT_EVERY_S = 300, 1_200
ACCIDENT_S = range(600, 1_201, REPORT_S)
REQUEST_SHARE = 0.01
DAYS = range(1, 70)


class Report(NamedTuple):
    """A position report: seconds from the start, miles an hour, feet from the west end."""

    time: int
    vid: int
    spd: int
    xway: int
    lane: int
    dir: int
    seg: int
    pos: int


class BalanceRequest(NamedTuple):
    """A request for the sum of all charges."""

    time: int
    vid: int
    qid: int


class ExpenditureRequest(NamedTuple):
    """A request for the charges of a past day on one expressway."""

    time: int
    vid: int
    xway: int
    qid: int
    day: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """The input of a run: reports and requests in the order of their times, and charges of past days."""

    reports: Sequence[Report]
    balances: Sequence[BalanceRequest]
    expenditures: Sequence[ExpenditureRequest]
    history: Sequence[tuple[int, int, int, int]]
    """Vehicle, day, expressway, toll."""


def traffic(seed: int, vehicles: int, seconds: int, expressways: int = 1) -> Traffic:
    """Return ``seconds`` of traffic of this number of vehicles; accidents happen by schedule."""
    reports: list[Report] = []
    history = []
    for vid in range(1, vehicles + 1):
        random = Random(f"{seed} {vid}")
        xway = random.randrange(expressways)
        reports += _trip(random, vid, xway, random.randrange(seconds), seconds)
        history += [(vid, day, xway, random.randrange(10, 100)) for day in random.sample(DAYS, 2)]
    vids = count(vehicles + 1)
    for xway in range(expressways):
        for begin in range(ACCIDENT_FIRST_S, seconds, ACCIDENT_EVERY_S):
            random = Random(f"{seed} {xway} {begin}")
            reports += _accident(random, (next(vids), next(vids)), xway, begin, seconds)
    reports.sort()
    return _with_requests(seed, reports, history)


def _trip(random: Random, vid: int, xway: int, begin: int, seconds: int) -> Iterator[Report]:
    """Drive from an entrance to an exit, a few segments on."""
    direction = random.randrange(2)
    length = random.randint(3, 14)
    first = random.randrange(BUSY[0] - length, BUSY[-1]) if random.random() < BUSY_SHARE else None
    if first is None:
        first = random.randrange(SEGMENTS - length)
    start, end = (first, first + length) if direction == EASTBOUND else (first + length, first)
    pos, last = start * SEGMENT_FEET + 100, end * SEGMENT_FEET + 100
    for number in count():
        time = begin + number * REPORT_S
        if time >= seconds:
            return
        seg = pos // SEGMENT_FEET
        spd = random.randint(12, 35) if seg in BUSY else random.randint(45, 75)
        arrived = pos >= last if direction == EASTBOUND else pos <= last
        lane = EXIT if arrived else random.randint(1, 3) if number else ENTRANCE
        yield Report(time, vid, spd, xway, lane, direction, seg, pos)
        if arrived:
            return
        moved = spd * FEET_PER_REPORT
        pos = max(0, pos - moved) if direction == WESTBOUND else min(SEGMENTS * SEGMENT_FEET - 1, pos + moved)


def _accident(random: Random, vids: tuple[int, int], xway: int, begin: int, seconds: int) -> Iterator[Report]:
    """Stop two vehicles in one place for a while, and then continue their trips."""
    direction, lane = random.randrange(2), random.randint(1, 3)
    pos = random.choice(BUSY) * SEGMENT_FEET + random.randrange(SEGMENT_FEET)
    end = begin + random.choice(ACCIDENT_S)
    for vid in vids:
        for time in range(begin + random.randrange(REPORT_S), seconds, REPORT_S):
            stands = time < end
            # Where they continue, they leave at once.
            yield Report(
                time,
                vid,
                0 if stands else 20,
                xway,
                lane if stands else EXIT,
                direction,
                pos // SEGMENT_FEET,
                pos,
            )
            if not stands:
                break


def _with_requests(
    seed: int, reports: Sequence[Report], history: Sequence[tuple[int, int, int, int]]
) -> Traffic:
    """Add requests of drivers to some of their reports."""
    random = Random(seed)
    past = {vid: (day, xway) for vid, day, xway, _ in history}
    qids = count(1)
    balances, expenditures = [], []
    for report in reports:
        if random.random() >= REQUEST_SHARE:
            continue
        kind = random.random()
        if kind < 0.5:
            balances.append(BalanceRequest(report.time, report.vid, next(qids)))
        elif kind < 0.6 and report.vid in past:
            day, xway = past[report.vid]
            expenditures.append(ExpenditureRequest(report.time, report.vid, xway, next(qids), day))
    return Traffic(reports, balances, expenditures, history)
