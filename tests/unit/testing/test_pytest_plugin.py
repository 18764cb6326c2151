from __future__ import annotations

from pathlib import Path

import pytest

# A run in this process forgets at its end what it was the first to import. A package with an extension in C, as PyYAML,
# is then imported twice, and its extension makes objects of the classes of the first time. So what a scenario needs
# is imported before.
from rowtide.testing import live, session  # noqa: F401

PASSING = """\
sql: CREATE STREAM s (a INTEGER)
steps:
  - {insert: s, rows: [[1, 2]]}
  - {expect: s, rows: [[1, 2]]}
"""
FAILING = PASSING.replace("expect: s, rows: [[1, 2]]", "expect: s, rows: [[1, 3]]")


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    service = Path(__file__).parents[3]
    pytester.makeini(
        f"[pytest]\npythonpath = {service / 'service'} {service / 'connectors'}\n"
        "rowtide_scenarios = cases\nrowtide_batches = all 1 random:3\n"
    )
    pytester.makeconftest('pytest_plugins = ["rowtide.testing.pytest_plugin"]')
    return pytester


def test_every_scenario_of_the_configured_folders_is_run_once_for_each_batching(
    project: pytest.Pytester,
) -> None:
    cases = project.mkdir("cases")
    (cases / "a.yaml").write_text(PASSING)
    (cases / "notes.txt").write_text("")
    project.runpytest_inprocess().assert_outcomes(passed=3)


def test_elsewhere_only_files_that_say_so_are_scenarios(project: pytest.Pytester) -> None:
    (project.path / "a.scenario.yaml").write_text(PASSING)
    (project.path / "b.yaml").write_text("not: a scenario")
    project.runpytest_inprocess().assert_outcomes(passed=3)


def test_a_failure_is_shown_as_rowtide_test_shows_it(project: pytest.Pytester) -> None:
    (project.path / "a.scenario.yaml").write_text(FAILING)
    result = project.runpytest_inprocess()
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        ["*output of s differs: 1 row expected, 1 row came out", "*00:00:00.001  3*|*00:00:00.001  2"]
    )
