"""Expected results of Linear Road's queries, computed report by report from all reports.

The rules are those of the 2004 paper, with the decisions of implementations where it leaves them open: a
segment's speed is the mean over up to five minutes of the mean over its cars of each car's mean, truncated;
an accident lasts from the fourth equal report of its second car to the first report in which one has moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rowtide.bench.linear_road.traffic import EASTBOUND, ENTRANCE, EXIT, SEGMENT_FEET, Report, Traffic

MINUTE_S = 60
SPEED_MINUTES = 5
AGAIN_S = 60
"""A vehicle that enters later than this after its last report begins another trip."""
FOR_EVER_S = 1 << 40
RoadSegment = tuple[int, int, int]
"""Expressway, direction and number."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Every answer, in any order.

    A notice is (time, vehicle, speed, toll); an alert (time, expressway, segment of the accident, direction,
    vehicle); a balance (time, request, vehicle, balance); an expenditure (time, request, toll); ``accounts``
    has the sum of all charges of a vehicle that has any.
    """

    notices: list[tuple[int, ...]]
    alerts: list[tuple[int, ...]]
    balances: list[tuple[int, ...]]
    expenditures: list[tuple[int, ...]]
    accounts: dict[int, int]


def answers(given: Traffic) -> Answers:
    """Return the answers for a run."""
    cars = _cars(given.reports)
    blocked = _blocked(given.reports)
    notices: list[tuple[int, ...]] = []
    alerts: list[tuple[int, ...]] = []
    charges: list[tuple[int, int, int]] = []
    last: dict[int, Report] = {}
    pending: dict[int, int] = {}
    for report in given.reports:
        before = last.get(report.vid)
        last[report.vid] = report
        if before is not None and report.lane == ENTRANCE and report.time - before.time > AGAIN_S:
            before = None
        if before is None:
            pending.pop(report.vid, None)
        elif before.seg == report.seg:
            continue
        elif pending.get(report.vid, 0):
            charges.append((report.time, report.vid, pending.pop(report.vid)))
        if report.lane == EXIT:
            pending.pop(report.vid, None)
            continue
        minute = report.time // MINUTE_S
        segment = (report.xway, report.dir, report.seg)
        speed = _speed(cars, minute, segment)
        ahead = [each for each in _downstream(segment) if (minute - 1, each) in blocked]
        many, _ = cars.get((minute - 1, segment), (0, 0.0))
        toll = 2 * (many - 50) ** 2 if speed < 40 and many > 50 and not ahead else 0
        pending[report.vid] = toll
        notices.append((report.time, report.vid, speed, toll))
        if ahead:
            alerts.append((report.time, report.xway, ahead[0][2], report.dir, report.vid))
    return Answers(notices, alerts, *_asked(given, charges))


def _cars(reports: Iterable[Report]) -> dict[tuple[int, RoadSegment], tuple[int, float]]:
    """Return the number of cars in a segment in a minute, and the mean of their mean speeds."""
    cars: dict[tuple[int, RoadSegment], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for each in reports:
        cars[each.time // MINUTE_S, (each.xway, each.dir, each.seg)][each.vid].append(each.spd)
    return {at: (len(found), fmean(map(fmean, found.values()))) for at, found in cars.items()}


def _speed(
    cars: Mapping[tuple[int, RoadSegment], tuple[int, float]], minute: int, segment: RoadSegment
) -> int:
    minutes = range(minute - SPEED_MINUTES, minute)
    means = [cars[each, segment][1] for each in minutes if (each, segment) in cars]
    return int(fmean(means)) if means else -1


def _downstream(segment: RoadSegment) -> list[RoadSegment]:
    xway, direction, seg = segment
    step = 1 if direction == EASTBOUND else -1
    return [(xway, direction, seg + step * each) for each in range(5)]


def _blocked(reports: Sequence[Report]) -> set[tuple[int, RoadSegment]]:
    """Return the minutes and segments with an accident."""
    recent: dict[int, list[Report]] = defaultdict(list)
    since: dict[tuple[int, int, int, int], dict[int, int]] = defaultdict(dict)
    stopped: list[tuple[tuple[int, int, int, int], int, int, int]] = []
    at: dict[int, tuple[int, int, int, int]] = {}
    for each in reports:
        place = (each.xway, each.dir, each.lane, each.pos)
        if each.vid in at and at[each.vid] != place:
            left = at.pop(each.vid)
            stopped.append((left, each.vid, since[left].pop(each.vid), each.time))
        four = recent[each.vid] = [*recent[each.vid][-3:], each]
        same = len(four) == 4 and len({(one.xway, one.dir, one.lane, one.pos) for one in four}) == 1
        if same and each.lane not in (ENTRANCE, EXIT) and each.vid not in at:
            at[each.vid] = place
            since[place][each.vid] = each.time
    stopped += [(place, vid, since[place][vid], FOR_EVER_S) for vid, place in at.items()]
    last = max((each.time for each in reports), default=0)
    found: set[tuple[int, RoadSegment]] = set()
    for place, vid, begin, end in stopped:
        for other_place, other, other_begin, other_end in stopped:
            if other_place == place and other < vid:
                both = range(max(begin, other_begin), min(end, other_end, last + 2 * MINUTE_S))
                segment = (place[0], place[1], place[3] // SEGMENT_FEET)
                found |= {(second // MINUTE_S, segment) for second in both}
    return found


def _asked(
    given: Traffic, charges: Sequence[tuple[int, int, int]]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]], dict[int, int]]:
    by_vehicle: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for time, vid, toll in charges:
        by_vehicle[vid].append((time, toll))
    balances: list[tuple[int, ...]] = [
        (each.time, each.qid, each.vid, sum(toll for time, toll in by_vehicle[each.vid] if time <= each.time))
        for each in given.balances
    ]
    past = {(vid, day, xway): toll for vid, day, xway, toll in given.history}
    expenditures: list[tuple[int, ...]] = [
        (each.time, each.qid, past.get((each.vid, each.day, each.xway), 0)) for each in given.expenditures
    ]
    accounts = {vid: sum(toll for _, toll in tolls) for vid, tolls in by_vehicle.items() if tolls}
    return balances, expenditures, accounts
