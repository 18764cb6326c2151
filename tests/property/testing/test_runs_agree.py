"""However input is cut, wherever the pipeline crashes or is built again: the same comes out, once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowtide.codec.written.times import ScenarioDay
from rowtide.errors import StatementError
from rowtide.rows.rowop import Opcode
from rowtide.testing.batching import Batching, RandomTrays, TraysOf, WholeSteps
from rowtide.testing.compare import ActualRow
from rowtide.testing.live import LiveRunner, Recovery
from rowtide.testing.play import play
from rowtide.testing.reading import find_scenarios, read_scenario
from rowtide.testing.rows import InputRow
from rowtide.testing.scenario import Expect, Insert, Scenario, SqlText, TextSpan

SCENARIOS = Path(__file__).parents[2] / "scenarios"

PIPELINE = """
CREATE TABLE rates (zone INTEGER NOT NULL, cents INTEGER, PRIMARY KEY (zone));
CREATE STREAM rides (made_at TIMESTAMP, zone INTEGER, n INTEGER);
CREATE STREAM others (zone INTEGER, n INTEGER);
CREATE VIEW sorted AS
  SELECT STREAM made_at AS ROWTIME, zone, n FROM rides ORDER BY made_at WITHIN INTERVAL '3' SECOND;
CREATE VIEW halved AS SELECT STREAM zone, 12 / n AS n FROM others;
CREATE VIEW together AS SELECT STREAM zone, n FROM sorted UNION ALL SELECT STREAM zone, n FROM halved;
CREATE VIEW grouped AS
  SELECT STREAM STEP(t.ROWTIME BY INTERVAL '2' SECOND) AS since, zone, COUNT(*) AS cnt, SUM(n) AS total
  FROM together AS t GROUP BY STEP(t.ROWTIME BY INTERVAL '2' SECOND), zone;
CREATE VIEW priced AS SELECT STREAM t.n, r.cents FROM together AS t LEFT JOIN rates AS r ON t.zone = r.zone;
"""
LOOKED_AT = ("sorted", "together", "grouped", "priced", "rates", "SYS.ERRORS")

UNSEEN = (
    "CREATE OR REPLACE VIEW w AS SELECT STREAM zone FROM halved UNION ALL SELECT STREAM zone FROM sorted",
    "CREATE OR REPLACE VIEW halved AS SELECT STREAM others.zone AS zone, 12 / n AS n FROM others",
)
"""Statements that say nothing new, but make the flow be built again."""

small = st.integers(0, 3)
rowtimes = st.integers(0, 9).map(lambda second: second * 1000)
ride = st.tuples(rowtimes, rowtimes | st.none(), small, small).map(
    lambda each: InputRow(each[0], (each[1], each[2], each[3]))
)
other = st.tuples(rowtimes, small, small).map(lambda each: InputRow(each[0], each[1:]))
rate = st.tuples(rowtimes, small | st.none(), small, st.sampled_from([Opcode.INSERT, Opcode.DELETE])).map(
    lambda each: InputRow(each[0], each[1:3], each[3])
)
operation = st.one_of(
    st.tuples(st.just("rides"), st.integers(0, 1), st.lists(ride, max_size=5)),
    st.tuples(st.just("others"), st.just(0), st.lists(other, max_size=5)),
    st.tuples(st.just("rates"), st.just(0), st.lists(rate, max_size=4)),
    st.tuples(st.just("bound"), st.sampled_from(["rides", "others", "rates", "sorted"]), rowtimes),
    st.sampled_from([("commit",), ("crash",), ("restart",), ("sql", UNSEEN[0]), ("sql", UNSEEN[1])]),
)
batchings = st.one_of(
    st.just(WholeSteps()), st.integers(1, 3).map(TraysOf), st.integers(0, 99).map(RandomTrays)
)


def scenario() -> Scenario:
    looks = tuple(Expect(name, (), True, None, TextSpan(0, 0), 1) for name in LOOKED_AT)
    inserts = tuple(
        Insert(name, partition, (), 1)
        for name, partition in [("rides", 0), ("rides", 1), ("others", 0), ("rates", 0)]
    )
    return Scenario(Path("case.yaml"), "case", ScenarioDay(), SqlText(PIPELINE), looks + inserts)


def outcome(
    operations: Sequence[tuple[Any, ...]], batching: Batching, recovery: Recovery, *, disturbed: bool
) -> dict[str, list[ActualRow]]:
    runner = LiveRunner(scenario(), batching, recovery)
    for kind, *rest in operations:
        match kind:
            case "bound":
                relation, rowtime = rest
                try:
                    runner.bound(relation, None, rowtime)
                except StatementError as refused:
                    assert "bound" in refused.message
            case "commit":
                runner.commit()
            case "crash" if disturbed:
                runner.crash()
            case "restart":
                (runner.restart if disturbed else runner.commit)()
            case "sql" if disturbed:
                runner.sql(*rest)
            case "rides" | "others" | "rates":
                runner.insert(kind, *rest)
    given_rows = {name: runner.output(name) for name in LOOKED_AT}
    given_rows["contents"] = [ActualRow(None, row) for row in sorted(runner.contents("rates"))]
    return given_rows


@settings(max_examples=40)
@given(st.lists(operation, max_size=12), batchings, st.sampled_from(Recovery))
def test_neither_batches_nor_crashes_nor_recovery_nor_idle_statements_can_be_seen_in_what_comes_out(
    operations: list[Any], batching: Batching, recovery: Recovery
) -> None:
    plain = outcome(operations, TraysOf(1), Recovery.SNAPSHOT, disturbed=False)
    assert outcome(operations, batching, recovery, disturbed=True) == plain


RECOVERS = re.compile(r"\b(restart|expect_error):")
"""Steps for which a runner goes back to its last commit; the other scenarios have no recovery."""


def cases() -> list[object]:
    """Return all scenarios; those that recover are run every time."""
    return [
        pytest.param(
            path,
            id=path.relative_to(SCENARIOS).as_posix(),
            marks=[] if RECOVERS.search(path.read_text()) else [pytest.mark.long],
        )
        for path in find_scenarios([SCENARIOS])
    ]


@pytest.mark.parametrize("path", cases())
def test_a_scenario_passes_when_recovery_has_no_snapshot_but_replays_the_log(path: Path) -> None:
    case = read_scenario(path)
    assert play(case, LiveRunner(case, RandomTrays(11), Recovery.REPLAY)) is None
