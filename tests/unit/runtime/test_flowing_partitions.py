"""A partition flows while its bound moves, may move, or waits for a time that has not come: it is not to blame."""

from itertools import product
from typing import Any

import pytest

from rowtide.flow.why_not import Keeper, Silence
from rowtide.runtime.inspect.facts import Facts, PartitionFacts
from rowtide.runtime.inspect.why_not import FLOWING_MS, STOOD_MS
from rowtide.runtime.inspect.why_not import answer as put_together
from support.enquiry import CLICKS, PER_MINUTE, Messages, add, causes, enquiry, only, per_row

SORTED_HOURS = (
    CLICKS.format("")
    + """
CREATE VIEW timed AS SELECT STREAM at AS ROWTIME, n FROM clicks ORDER BY at WITHIN INTERVAL '30' SECOND;
CREATE FOREIGN TABLE out (period TIMESTAMP, n BIGINT, PRIMARY KEY (period)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO out
  SELECT STREAM FLOOR(ROWTIME TO HOUR), COUNT(*) FROM timed GROUP BY FLOOR(ROWTIME TO HOUR);
"""
)


@pytest.mark.parametrize("cause", ["FLOWING", "IDLE"])
def test_the_last_operator_says_when_rows_are_written_and_a_partition_that_flows_is_well(cause: str) -> None:
    asked = enquiry(SORTED_HOURS, [(0, second) for second in range(10, 100)])

    came = [0.0]

    def flow() -> None:
        now = asked.world.clock.seconds
        if cause == "FLOWING" and now >= came[-1] + 0.5:
            came.append(now)
            add(asked.topics["CLICKS"], [(0, 99 + len(came))])

    answer = asked.ask("OUT", each_turn=flow)
    assert [each.operator for each in answer.holders] == ["Sort", "GroupByPeriod"]
    found = only(answer)
    # The sort would release a row at once; the table gets its row after the hour and the 30 seconds.
    assert (found.cause, found.needs) == (cause, 3_600_000)
    assert "1970-01-01 01:00:30.000 or later" in found.released
    assert ("all is well" in found.why) == (cause == "FLOWING")
    assert ("the next rows come at 1970-01-01 01:00:00.000" in found.change) == (cause == "FLOWING")


HOURS_OF_MINUTES = (
    CLICKS.format("")
    + """
CREATE VIEW per_minute AS SELECT STREAM FLOOR(ROWTIME TO MINUTE) AS period, COUNT(*) AS n
  FROM clicks GROUP BY FLOOR(ROWTIME TO MINUTE);
CREATE FOREIGN TABLE out (period TIMESTAMP, n BIGINT, PRIMARY KEY (period)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO out
  SELECT STREAM FLOOR(ROWTIME TO HOUR), SUM(n) FROM per_minute GROUP BY FLOOR(ROWTIME TO HOUR);
"""
)
SORTED = "SELECT STREAM k, n FROM clicks ORDER BY ROWTIME WITHIN INTERVAL '30' SECOND"
WINDOWS = {
    "hours of sorted rows": (SORTED_HOURS, 30_000),
    "minutes": (PER_MINUTE.format(""), 0),
    "hours of minutes": (HOURS_OF_MINUTES, 0),
    "sorted rows": (per_row(SORTED), 30_000),
    "sessions": (
        per_row(
            "SELECT STREAM k, COUNT(*) AS n FROM clicks GROUP BY SESSION(ROWTIME, INTERVAL '5' MINUTE), k"
        ),
        0,
    ),
    "windows that overlap": (
        per_row(
            "SELECT STREAM k, COUNT(*) AS n FROM clicks"
            " GROUP BY HOP(ROWTIME, INTERVAL '1' MINUTE, INTERVAL '3' MINUTE), k"
        ),
        0,
    ),
}
"""Queries, and how much later (ms) than the rows that they release rows come."""
CAME: dict[str, Messages] = {
    "one": [(0, 10)],
    "at an end": [(0, 60), (0, 60)],
    "a period and the next": [(0, 59), (0, 100)],
    "the last of an hour": [(0, 3_599)],
    "of another partition": [
        (partition, at, f'{{"k":"{key}","n":{at},"at":{at}000}}')
        for partition, at, key in [(0, 10, "a"), (1, 75, "b"), (1, 85, "b")]
    ],
}


@pytest.mark.parametrize("query", WINDOWS)
@pytest.mark.parametrize("messages", CAME)
def test_rows_are_written_at_the_time_that_is_named_and_not_before(query: str, messages: str) -> None:
    sql, within_ms = WINDOWS[query]
    asked = enquiry(sql, CAME[messages], partitions=2 if messages == "of another partition" else 1)

    def written(at_ms: int) -> int | None:
        """Return the rows that have been written once each partition has a row of this time."""
        for partition in asked.topics["CLICKS"].partitions:
            asked.topics["CLICKS"].add(partition, at_ms, b'{"k":"z","n":0,"at":%d}' % at_ms)
        return asked.ask("OUT").rows_out

    answer = asked.ask("OUT")
    needs = min(each.needs for each in answer.causes if each.needs is not None)
    assert written(needs + within_ms - 1) == answer.rows_out
    after = written(needs + within_ms)
    assert after is not None
    assert after > (answer.rows_out or 0)


def test_what_flows_comes_after_what_keeps_rows_back() -> None:
    facts = {
        ("CLICKS", 0): PartitionFacts("clicks", 1, 1),
        ("CLICKS", 1): PartitionFacts("clicks", 2, 2),
    }
    keepers = tuple(
        Keeper("CLICKS", partition, "CLICKS", 10_000, 60_000, 60_000, step=partition) for partition in (0, 1)
    )
    silence = Silence("OUT", 0, (), keepers, (), keepers)
    still_ms = {0: 100, 1: FLOWING_MS + 1}
    found = put_together("p", "OUT", silence, Facts(facts, still_ms=still_ms))
    assert causes(found) == [("IDLE", "CLICKS", 1), ("FLOWING", "CLICKS", 0)]


TIMES_MS = (None, 0, FLOWING_MS, FLOWING_MS + 1, 10_000_000)
LOSSES: dict[str, dict[str, Any]] = {
    "none": {},
    "before": {"lost_ms": {3: FLOWING_MS + 1}, "rejected_ms": {"CLICKS": FLOWING_MS + 1}},
    "of others": {"lost_ms": {9: 0}, "rejected_ms": {"VIEWS": 0}},
    "late": {"lost_ms": {3: FLOWING_MS}},
    "rejected on the way": {"lost_ms": {1: 0}},
    "rejected": {"rejected_ms": {"CLICKS": 0}},
}
"""What is lost of the rows of a partition, by what it is."""


@pytest.mark.parametrize("heard_ms", TIMES_MS)
@pytest.mark.parametrize("still_ms", [*TIMES_MS, STOOD_MS - 1, STOOD_MS])
@pytest.mark.parametrize("now_ms", [89_999, 90_000])
def test_a_partition_flows_while_its_bound_moves_or_may_or_the_clock_has_not_reached_what_is_waited_for(
    heard_ms: int | None, still_ms: int | None, now_ms: int
) -> None:
    for watched_ms, lost in product((None, STOOD_MS - 1, STOOD_MS), LOSSES):
        _assert_flows(heard_ms, still_ms, watched_ms, now_ms, lost)


def _assert_flows(
    heard_ms: int | None, still_ms: int | None, watched_ms: int | None, now_ms: int, lost: str
) -> None:
    keeper = Keeper("CLICKS", 0, "CLICKS", 10_000, 60_000, 90_000, path=(0, 1, 3, 9), step=3)
    silence = Silence("OUT", 0, (), (keeper,), (), (keeper,))
    known = PartitionFacts("clicks", 9, 9, heard_ms=heard_ms)
    moved = {} if still_ms is None else {3: still_ms}
    facts = Facts(
        {("CLICKS", 0): known}, now_ms=now_ms, still_ms=moved, watched_ms=watched_ms, **LOSSES[lost]
    )
    found = only(put_together("p", "OUT", silence, facts))
    is_early, is_moving = now_ms < 90_000, still_ms is not None and still_ms <= FLOWING_MS
    # Messages that move no bound are not silence.
    is_heard = heard_ms is not None and heard_ms <= FLOWING_MS
    stood_ms = watched_ms if still_ms is None else still_ms
    may_move = (
        is_heard and stood_ms is not None and stood_ms < STOOD_MS and lost in ("none", "before", "of others")
    )
    assert found.cause == ("FLOWING" if is_early or is_moving or may_move else "IDLE")
    assert ("later than now" in found.why) == is_early
    assert ("neither late nor rejected" in found.why) == (may_move and not is_early and not is_moving)
    assert ("messages do not move its bound" in found.why) == (found.cause == "IDLE" and is_heard)
    assert ("rowtide errors list" in found.change) == (found.cause == "IDLE" and is_heard)
    # Each message ends the silence.
    assert ("idle_timeout" in found.released + found.change) == (found.cause == "IDLE" and not is_heard)


RAW_AND_SORTED = (
    SORTED_HOURS
    + """
CREATE FOREIGN TABLE raw (period TIMESTAMP, n BIGINT, PRIMARY KEY (period)) SERVER d;
CREATE PUMP q STARTED AS INSERT INTO raw
  SELECT STREAM FLOOR(ROWTIME TO HOUR), COUNT(*) FROM clicks GROUP BY FLOOR(ROWTIME TO HOUR);
"""
)
MESSAGES = {
    # In order in both times.
    "newer": ('{{"k":"a","n":1,"at":{at}}}', {"OUT": "FLOWING", "RAW": "FLOWING"}),
    # The time of the messages advances, and that of the rows does not.
    "late": ('{{"k":"a","n":1,"at":20000}}', {"OUT": "IDLE", "RAW": "FLOWING"}),
    # For a minute they may be of one period.
    "not newer": ('{{"k":"a","n":1,"at":99000}}', {"OUT": "FLOWING", "RAW": "FLOWING"}),
    "rejected": ("{{", {"OUT": "IDLE", "RAW": "IDLE"}),
}


@pytest.mark.parametrize("relation", ["OUT", "RAW"])
@pytest.mark.parametrize("kind", MESSAGES)
def test_messages_that_move_no_bound_do_not_hide_the_cause(kind: str, relation: str) -> None:
    asked = enquiry(RAW_AND_SORTED, [(0, second) for second in range(10, 100)])
    text, expected = MESSAGES[kind]
    came = [0.0]

    def flow() -> None:
        now = asked.world.clock.seconds
        if now >= came[-1] + 0.5:
            came.append(now)
            second = 99 + len(came)
            add(asked.topics["CLICKS"], [(0, second, text.format(at=second * 1_000))])

    found = only(asked.ask(relation, 6.0, each_turn=flow))
    assert found.cause == expected[relation]
    assert ("messages do not move its bound" in found.why) == (found.cause == "IDLE")


WHOLE_MINUTES = """
CREATE FOREIGN STREAM clicks (n INTEGER, at TIMESTAMP) SERVER k OPTIONS (topic 'clicks');
CREATE VIEW timed AS SELECT STREAM CAST(FLOOR(at TO MINUTE) AS TIMESTAMP) AS ROWTIME, n FROM clicks;
CREATE FOREIGN TABLE out (period TIMESTAMP, n BIGINT, PRIMARY KEY (period)) SERVER d;
CREATE PUMP p STARTED AS INSERT INTO out
  SELECT STREAM FLOOR(ROWTIME TO MINUTE), COUNT(*) FROM timed GROUP BY FLOOR(ROWTIME TO MINUTE);
"""


@pytest.mark.parametrize(
    ("advances", "asked_s", "cause"),
    [
        (True, 30.0, "FLOWING"),
        (True, 62.0, "FLOWING"),
        (True, 110.0, "FLOWING"),
        (False, 30.0, "FLOWING"),
        (False, 70.0, "IDLE"),
    ],
)
def test_a_partition_whose_time_is_in_whole_minutes_is_well_while_its_messages_come(
    advances: bool, asked_s: float, cause: str
) -> None:
    asked = enquiry(WHOLE_MINUTES, [(0, 0)])
    clock = asked.world.clock
    began, came = clock.seconds, [0.0]

    def flow() -> None:
        passed = clock.seconds - began
        if passed >= came[-1] + 0.5:
            came.append(passed)
            at = int(passed) if advances else 0
            add(asked.topics["CLICKS"], [(0, at, f'{{"n":1,"at":{at * 1000}}}')])

    found = only(asked.ask("OUT", asked_s, each_turn=flow))
    assert found.cause == cause
    assert ("messages do not move its bound" in found.why) == (cause == "IDLE")


def test_a_partition_that_has_brought_nothing_does_not_flow() -> None:
    keeper = Keeper("CLICKS", 0, "CLICKS", None, 60_000, 90_000)
    silence = Silence("OUT", 0, (), (keeper,), (), (keeper,))
    facts = Facts({("CLICKS", 0): PartitionFacts("clicks", 0, 0)}, now_ms=0)
    assert only(put_together("p", "OUT", silence, facts)).cause == "NO_BOUND"
