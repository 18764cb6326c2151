"""Tests on real parts run in one process for each kind, so that every part is started once."""

from __future__ import annotations

import pytest

TESTS = """
import os
import pytest

@pytest.mark.xdist_group("servers")
@pytest.mark.parametrize("number", range(8))
def test_of_a_group(number):
    with open("processes", "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


def test_the_tests_of_a_group_run_in_one_process(pytester: pytest.Pytester) -> None:
    """pytest and pytest-xdist must fit each other: otherwise groups are ignored, without a word."""
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-n", "2", "--dist", "loadgroup")
    result.assert_outcomes(passed=8)
    assert len(set((pytester.path / "processes").read_text().split())) == 1
