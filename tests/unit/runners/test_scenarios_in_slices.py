"""Scenarios come to the same if Spark processes their input in slices, each from the state of the one before.

The slices end at random places of the input, between the messages of one millisecond also. On a stand-in for Spark.
Each run plays the same third of the scenarios in one of the two numbers of parts; the long run plays all in both.
"""

from __future__ import annotations

import random
from pathlib import Path
from zlib import crc32

import pytest

from rowtide.clock import SystemClock
from rowtide.testing.on_spark import SparkRunners
from rowtide.testing.reading import find_scenarios
from rowtide.testing.session import ScenarioRun, Verdict
from support.spark_stand_in import IN_ORDER, StandIn, Way, way_of

SCENARIOS = Path(__file__).parents[2] / "scenarios"
PARTS = (3, 7)


def cases() -> list[object]:
    """Return all scenarios in all parts; those of this way are run every time, each in one number of parts."""
    found: list[object] = []
    for path in find_scenarios([SCENARIOS]):
        name = path.relative_to(SCENARIOS).as_posix()
        turn = crc32(name.encode())
        for parts in (1,) if name in IN_ORDER else PARTS:
            is_always = way_of(name) is Way.SLICES and parts in (1, PARTS[turn // 5 % len(PARTS)])
            marks = [] if is_always else [pytest.mark.long]
            found.append(pytest.param(path, parts, turn, id=f"{name}-{parts}", marks=marks))
    return found


@pytest.mark.parametrize(("path", "parts", "seed"), cases())
def test_a_scenario_comes_to_the_same_in_slices(path: Path, parts: int, seed: int) -> None:
    with SparkRunners(StandIn(parts).as_session(), slices=random.Random(seed)) as runners:
        (outcome,) = ScenarioRun(runners, SystemClock()).run([path])
    assert outcome.verdict is Verdict.PASSED, outcome.report()
