"""Where a scenario's pipeline comes from, and what is said when it cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.clock import SystemClock
from rowtide.testing.live import live_runner
from rowtide.testing.session import ScenarioOutcome, ScenarioRun, Verdict

STEPS = """\
steps:
  - {insert: s, rows: [[1, 2]]}
  - {expect: s, rows: [[1, 2]]}
"""


def run(folder: Path, head: str) -> ScenarioOutcome:
    file = folder / "case.yaml"
    file.write_text(f"{head}\n{STEPS}")
    (outcome,) = ScenarioRun(live_runner, SystemClock()).run([file])
    return outcome


def test_a_pipeline_stands_in_a_file_of_its_own_which_errors_name(tmp_path: Path) -> None:
    pipeline = tmp_path / "pipeline.sql"
    pipeline.write_text("CREATE STREAM s (a INTEGER);")
    assert run(tmp_path, "file: pipeline.sql").verdict is Verdict.PASSED
    pipeline.write_text("CREATE STREAM s (a INTEGR);")
    report = run(tmp_path, "file: pipeline.sql").report()
    assert f"{pipeline}:1:20: error" in report


def test_a_python_function_beside_the_scenario_gives_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "made_for_this_test.py").write_text(
        "def pipeline():\n    return 'CREATE STREAM s (a INTEGER)'\n\ndef number():\n    return 1\n"
    )
    assert run(tmp_path, "python: made_for_this_test:pipeline").verdict is Verdict.PASSED
    assert "is int, not SQL text" in run(tmp_path, "python: made_for_this_test:number").report()


@pytest.mark.parametrize("name", ["no_such_module:f", "rowtide.errors:no_such_function"])
def test_a_function_that_cannot_be_had_fails_the_scenario(tmp_path: Path, name: str) -> None:
    outcome = run(tmp_path, f"python: {name}")
    assert outcome.verdict is Verdict.FAILED
    assert f'pipeline "{name}" cannot be made' in outcome.report()


def test_output_that_no_expect_took_fails_the_scenario_unless_it_is_ignored(tmp_path: Path) -> None:
    head = "sql: CREATE STREAM s (a INTEGER)"
    file = tmp_path / "case.yaml"
    leaving = f"{head}\n{STEPS}  - {{insert: s, rows: [[5, 6]]}}\n"
    file.write_text(leaving)
    (outcome,) = ScenarioRun(live_runner, SystemClock()).run([file])
    assert "output of s at the end that no expect took: 1 row" in outcome.report()
    file.write_text(leaving + "ignore: [S]\n")
    (outcome,) = ScenarioRun(live_runner, SystemClock()).run([file])
    assert outcome.verdict is Verdict.PASSED
