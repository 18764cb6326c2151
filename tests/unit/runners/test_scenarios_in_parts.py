"""Scenarios come to the same if their rows are split into parts, as on Spark: here on a stand-in for it.

Where there is one part, the driver does the work of stages with few rows.
"""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from rowtide.clock import SystemClock
from rowtide.runners.spark.frames import FEW_ROWS
from rowtide.runners.spark.shuffle import exchange
from rowtide.testing.on_spark import SparkRunners
from rowtide.testing.reading import find_scenarios
from rowtide.testing.session import ScenarioOutcome, ScenarioRun, Verdict
from support.spark_stand_in import IN_ORDER, StandIn, Way, way_of

SCENARIOS = Path(__file__).parents[2] / "scenarios"


PARTS = (3, 7, 1)
"""Three and seven parts, which divide little; one part, where also the order within a ROWTIME is the same."""


def cases() -> list[object]:
    """Return all scenarios in all parts; those that are played at once are run every time, in one number of parts."""
    found: list[object] = []
    for path in find_scenarios([SCENARIOS]):
        name = path.relative_to(SCENARIOS).as_posix()
        mine = 1 if name in IN_ORDER else PARTS[crc32(name.encode()) // 3 % len(PARTS)]
        for parts in (1,) if name in IN_ORDER else PARTS:
            marks = [] if parts == mine and way_of(name) is Way.AT_ONCE else [pytest.mark.long]
            found.append(pytest.param(path, parts, id=f"{name}-{parts}", marks=marks))
    return found


def played(path: Path, parts: int) -> tuple[ScenarioOutcome, StandIn]:
    """Play a scenario."""
    session = StandIn(parts)
    with SparkRunners(session.as_session(), few=FEW_ROWS if parts == 1 else 0) as runners:
        (outcome,) = ScenarioRun(runners, SystemClock()).run([path])
    return outcome, session


@pytest.mark.parametrize(("path", "parts"), cases())
def test_a_scenario_comes_to_the_same_in_parts(path: Path, parts: int) -> None:
    outcome, _ = played(path, parts)
    assert outcome.verdict is Verdict.PASSED, outcome.report()


def test_a_row_too_few_is_a_difference_and_rows_are_in_several_tasks(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "sql: |\n"
        "  CREATE STREAM s (a INTEGER);\n"
        "  CREATE VIEW v AS SELECT STREAM a, COUNT(*) AS n FROM s GROUP BY a, FLOOR(s.ROWTIME TO MINUTE);\n"
        "steps:\n"
        "  - {insert: s, rows: [[1, 1], [2, 2], [3, 1], [100000, 1]]}\n"
        "  - {expect: v, rows: [[60000, 1, 2]]}\n"
    )
    outcome, session = played(path, 3)
    assert outcome.verdict is Verdict.FAILED
    assert "output of v differs: 1 row expected, 2 rows came out" in outcome.report()
    assert 3 in session.jobs
    assert session.descriptions[0] == "segment 1 of 3: Source S"


@pytest.mark.parametrize(
    ("rows", "parts", "verdict"),
    [
        ("[[60000, 2, 1], [60000, 1, 2]]", 3, Verdict.PASSED),
        ("[[60000, 1, 2], [60000, 2, 1]]", 3, Verdict.PASSED),
        ("[[60000, 1, 2], [60000, 2, 1]]", 1, Verdict.PASSED),
        ("[[60000, 2, 1], [60000, 1, 2]]", 1, Verdict.FAILED),
    ],
)
def test_only_in_parts_rows_of_one_rowtime_come_in_any_order(
    tmp_path: Path, rows: str, parts: int, verdict: Verdict
) -> None:
    path = tmp_path / "ties.yaml"
    path.write_text(
        "sql: |\n"
        "  CREATE STREAM s (a INTEGER);\n"
        "  CREATE VIEW v AS SELECT STREAM a, COUNT(*) AS n FROM s GROUP BY a, FLOOR(s.ROWTIME TO MINUTE);\n"
        "steps:\n"
        "  - {insert: s, rows: [[1, 1], [2, 2], [3, 1], [100000, 1]]}\n"
        f"  - {{expect: v, rows: {rows}}}\n"
    )
    assert played(path, parts)[0].verdict is verdict


def test_few_rows_need_no_task_but_those_of_sources_unless_they_become_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text(
        "sql: |\n"
        "  CREATE STREAM s (a INTEGER);\n"
        "  CREATE VIEW v AS SELECT STREAM a, COUNT(*) AS n FROM s GROUP BY a, FLOOR(s.ROWTIME TO MINUTE);\n"
        "  CREATE VIEW w AS SELECT STREAM n, COUNT(*) AS m FROM v GROUP BY n, FLOOR(v.ROWTIME TO HOUR);\n"
        "  CREATE VIEW x AS SELECT STREAM m, COUNT(*) AS k FROM w GROUP BY m, FLOOR(w.ROWTIME TO DAY);\n"
        "steps:\n"
        "  - {insert: s, rows: [[1, 1], [2, 2], [3, 1], [100000, 1], [90000000, 5]]}\n"
        "  - {expect: w, rows: [[3600000, 2, 1], [3600000, 1, 2]]}\n"
        "  - {expect: x, rows: [[86400000, 1, 1], [86400000, 2, 1]]}\n"
    )
    outcome, here = played(path, 1)
    assert outcome.verdict is Verdict.PASSED, outcome.report()
    monkeypatch.setattr(exchange, "HERE_BYTES", 0)
    outcome, away = played(path, 1)
    assert outcome.verdict is Verdict.PASSED, outcome.report()
    assert len(here.jobs) < len(away.jobs) / 3
