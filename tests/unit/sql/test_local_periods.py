"""Periods of a zone's clocks that GROUP BY takes, and those that it refuses."""

from __future__ import annotations

import pytest

from rowtide.errors import StatementError
from rowtide.plan.nodes import GroupByPeriod
from rowtide.plan.nodes.walk import nodes_below
from rowtide.rowtime.period import CalendarUnit, Period, PeriodEdge
from rowtide.sql.group.group_windows import OF_ZONE
from rowtide.sql.pipeline import SqlSession

GOOSE_BAY = "ROWTIME AT TIME ZONE 'America/Goose_Bay'"
LOCAL = "ROWTIME AT TIME ZONE 'Europe/Berlin'"


def view(period: str, more: str = "") -> SqlSession:
    session = SqlSession()
    session.feed(
        f"CREATE STREAM s (n INTEGER); CREATE VIEW v {more}AS SELECT STREAM COUNT(*) AS c FROM s GROUP BY {period};"
    )
    return session


@pytest.mark.parametrize(
    ("period", "unit"),
    [
        *(
            (f"FLOOR({LOCAL} TO {unit})", unit)
            for unit in ("HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
        ),
        (f"n, FLOOR({LOCAL} TO DAY)", "DAY"),
        ("FLOOR(FROM_UTC_TIMESTAMP(ROWTIME, 'Europe/Berlin') TO DAY)", "DAY"),
        (f"TUMBLE({LOCAL}, INTERVAL '1' HOUR)", "HOUR"),
        (f"TUMBLE({LOCAL}, INTERVAL '24' HOUR)", "DAY"),
        (f"TUMBLE({LOCAL}, INTERVAL '3' MONTH)", "QUARTER"),
    ],
)
def test_a_period_of_clocks_is_a_period(period: str, unit: str) -> None:
    plan = view(period).plan
    (group,) = (each for each in nodes_below(dict(plan.relations)["V"]) if isinstance(each, GroupByPeriod))
    assert group.period == Period(PeriodEdge.FLOOR, CalendarUnit(unit), zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("period", "message", "hint"),
    [
        (
            f"FLOOR({LOCAL} TO MINUTE)",
            "the clocks of Europe/Berlin show a MINUTE again",
            "FLOOR(ROWTIME TO MINUTE)",
        ),
        (
            f"FLOOR({GOOSE_BAY} TO DAY)",
            "the clocks of America/Goose_Bay show a DAY again",
            "FLOOR(ROWTIME TO DAY)",
        ),
        (f"CEIL({LOCAL} TO DAY)", "an aggregate over a stream needs a period", OF_ZONE),
        (f"TUMBLE({LOCAL}, INTERVAL '7' DAY)", "TUMBLE by the clocks of a zone takes", "TO WEEK"),
        (
            f"TUMBLE({LOCAL}, INTERVAL '1' DAY, INTERVAL '1' HOUR)",
            "TUMBLE by the clocks of a zone takes",
            "TO WEEK",
        ),
        (f"HOP({LOCAL}, INTERVAL '1' HOUR, INTERVAL '1' DAY)", "HOP takes ROWTIME only", OF_ZONE),
    ],
)
def test_other_periods_of_clocks_are_refused_with_what_to_write(period: str, message: str, hint: str) -> None:
    with pytest.raises(StatementError) as refused:
        view(period)
    assert refused.value.message.startswith(message)
    assert hint in (refused.value.hint or "")
    assert refused.value.place is not None


def test_changes_of_a_local_day_are_those_of_a_key() -> None:
    plan = view(f"FLOOR({LOCAL} TO DAY) EMIT CHANGES", "OPTIONS (RETENTION '2 DAY') ").plan
    assert not any(isinstance(each, GroupByPeriod) for each in nodes_below(dict(plan.relations)["V"]))
    with pytest.raises(StatementError, match="has no changes"):
        view(f"TUMBLE({LOCAL}, INTERVAL '1' DAY) EMIT CHANGES")
