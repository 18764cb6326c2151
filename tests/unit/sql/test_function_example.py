"""The template of a pipeline with functions passes its scenario."""

from __future__ import annotations

from pathlib import Path

from rowtide.clock import SystemClock
from rowtide.testing.live import live_runner
from rowtide.testing.session import ScenarioRun, Verdict

SCENARIO = Path(__file__).parents[3] / "examples" / "functions" / "sensors.yaml"


def test_the_template_passes() -> None:
    (outcome,) = ScenarioRun(live_runner, SystemClock()).run([SCENARIO])
    assert outcome.verdict is Verdict.PASSED, outcome.report()
