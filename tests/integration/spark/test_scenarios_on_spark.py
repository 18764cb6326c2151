"""Scenarios come to the same on Spark, their rows in three or seven parts, as on the live engine.

Each run plays the same few of them, by a hash of the name, in one of the two numbers of parts; the long run plays
all in both. ``tests/unit/runners`` plays each of them on a stand-in for Spark, in every run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from real.spark import in_parts
from rowtide.clock import SystemClock
from rowtide.runners.spark import frames
from rowtide.testing.on_spark import SparkRunners
from rowtide.testing.reading import find_scenarios
from rowtide.testing.session import ScenarioOutcome, ScenarioRun, Verdict
from support.spark_stand_in import IN_ORDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCENARIOS = Path(__file__).parents[2] / "scenarios"


PARTS = (3, 7)
SLOW = {"seed004/merging-two-streams.yaml", "sql/sub-queries-edges.yaml"}
"""Of so many steps that each takes as long as five others; the stand-in plays them in every run."""


def cases() -> list[object]:
    """Return all scenarios in all parts; one of 24 is run every time if it is not slow, in one number of parts."""
    found: list[object] = []
    for path in find_scenarios([SCENARIOS]):
        name = path.relative_to(SCENARIOS).as_posix()
        turn = crc32(name.encode())
        for parts in PARTS:
            is_always = turn % 24 == 0 and PARTS[turn // 24 % len(PARTS)] == parts and name not in SLOW
            marks = [] if is_always else [pytest.mark.long]
            if name in IN_ORDER and parts == 3:
                # In seven parts the order of its keys happens to be that of their parts.
                marks.append(pytest.mark.xfail(strict=True, reason="parts do not keep the order of a state"))
            found.append(pytest.param(path, parts, id=f"{name}-{parts}", marks=marks))
    return found


@pytest.fixture(scope="module")
def runners(spark: SparkSession) -> Iterator[SparkRunners]:
    with SparkRunners(spark) as found:
        yield found


def test_rows_are_split_however_few_they_are(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert frames.FEW_ROWS == 0


def test_some_scenarios_come_in_three_parts_and_some_in_seven_every_time() -> None:
    always = {case.id for case in cases() if pytest.mark.long not in case.marks}  # type: ignore[attr-defined]
    names = {each.rpartition("-")[0] for each in always}
    assert len(names) == len(always) >= len(find_scenarios([SCENARIOS])) // 40
    assert {each.rpartition("-")[2] for each in always} == {"3", "7"}


def played(runners: SparkRunners, path: Path) -> ScenarioOutcome:
    (outcome,) = ScenarioRun(runners, SystemClock()).run([path])
    return outcome


@pytest.mark.parametrize(("path", "parts"), cases())
def test_a_scenario_comes_to_the_same_on_spark(
    spark: SparkSession, runners: SparkRunners, path: Path, parts: int
) -> None:
    with in_parts(spark, parts):
        outcome = played(runners, path)
    assert outcome.verdict is Verdict.PASSED, outcome.report()


def in_slices() -> list[object]:
    """Return all scenarios; a few of them are run every time."""
    found: list[object] = []
    for path in find_scenarios([SCENARIOS]):
        name = path.relative_to(SCENARIOS).as_posix()
        turn = crc32(name.encode())
        if name not in IN_ORDER:
            marks = [] if turn % 120 == 0 else [pytest.mark.long]
            found.append(pytest.param(path, turn, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("path", "seed"), in_slices())
def test_a_scenario_comes_to_the_same_in_slices_on_spark(spark: SparkSession, path: Path, seed: int) -> None:
    """As on the stand-in for Spark: ``tests/unit/runners/test_scenarios_in_slices.py``."""
    with SparkRunners(spark, slices=random.Random(seed)) as runners:
        outcome = played(runners, path)
    assert outcome.verdict is Verdict.PASSED, outcome.report()


def test_a_row_too_few_is_a_difference(runners: SparkRunners, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(
        "sql: CREATE STREAM s (a INTEGER);\n"
        "steps:\n"
        "  - {insert: s, rows: [[1, 1], [2, 2]]}\n"
        "  - {expect: s, rows: [[1, 1]]}\n"
    )
    outcome = played(runners, path)
    assert outcome.verdict is Verdict.FAILED
    assert "output of s differs: 1 row expected, 2 rows came out" in outcome.report()
