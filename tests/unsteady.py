"""Run pytest, and run what failed on real parts once more, alone, at the end.

``python tests/unsteady.py ARGUMENTS`` takes pytest's arguments. A test on real servers, Spark or processes may fail
because the machine is busy or a broker moves a partition. If all that failed are such tests, and each passes alone,
the run is green and lists them under ``unsteady``, with the log of the failure: such a test is mended before other work
goes on. A unit, property, golden, simulation or house test has no second run, nor has one that ended the process.

This module is pytest's plugin, too: it writes what failed to the file that an environment variable names.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ON_REAL_PARTS = frozenset({"integration", "deploy", "chaos"})
"""Folders whose tests may run twice."""

MARKS = frozenset({"kafka", "mariadb", "postgres", "spark"})
"""Marks of the cases of a contract suite that may run twice."""

FAILURES = "ROWTIDE_TEST_FAILURES"
"""The environment variable with the file to which the plugin appends what failed, a JSON object a line."""

MOST = 10
"""With more failures than these a server or the change is the cause, and not chance."""


@dataclass(frozen=True)
class Failure:
    """One phase of a test that failed: its id, ``setup``, ``call`` or ``teardown``, and what pytest shows of it."""

    test: str
    phase: str
    log: str
    may_run_again: bool


def id_of(nodeid: str) -> str:
    """Return the id by which pytest finds a test: without the group that xdist adds, as in ``a.py::test_b@browser``."""
    return re.sub(r"@[^\]@]+$", "", nodeid)


def may_run_again(test: str, marks: frozenset[str]) -> bool:
    """Return whether a test of this id and these marks has a second run."""
    _, _, below = test.partition("tests/")
    folder = below.partition("/")[0]
    return folder in ON_REAL_PARTS or (folder == "contract" and bool(marks & MARKS))


def pytest_configure(config: pytest.Config) -> None:
    """Write failures where they are reported: with xdist, in the process that began the others."""
    if (path := os.environ.get(FAILURES)) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer(Path(path)))


class _Writer:
    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            # Of a test that ended its process xdist does not know the phase.
            is_known = report.when in ("setup", "call", "teardown")
            is_on_parts = may_run_again(report.nodeid, frozenset(report.keywords))
            self._write(Failure(id_of(report.nodeid), report.when, _log(report), is_known and is_on_parts))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(Failure(report.nodeid, "collect", report.longreprtext, may_run_again=False))

    def _write(self, failure: Failure) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(failure)) + "\n")


def _log(report: pytest.TestReport) -> str:
    parts = [report.longreprtext, *(f"-- {title}\n{text}" for title, text in report.sections)]
    return "\n".join(part.rstrip() for part in parts)


def run(arguments: list[str], failures: Path) -> tuple[int, list[Failure]]:
    """Return pytest's exit code and what failed."""
    code = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *arguments],
        env={**os.environ, FAILURES: str(failures)},
        stdin=subprocess.DEVNULL,
        check=False,
    ).returncode
    lines = failures.read_text().splitlines() if failures.exists() else []
    return code, [Failure(**json.loads(line)) for line in lines]


def main(arguments: list[str]) -> int:
    """Return the exit code: 0 if each test passed at once, or failed once on real parts and passed alone."""
    with tempfile.TemporaryDirectory() as folder:
        code, failures = run(arguments, Path(folder, "first"))
        tests = list(dict.fromkeys(failure.test for failure in failures))
        if code != pytest.ExitCode.TESTS_FAILED or not tests:
            return code
        if len(tests) > MOST or not all(failure.may_run_again for failure in failures):
            return code
        _say(f"== once more, alone: {' '.join(tests)}")
        code, _ = run(tests, Path(folder, "second"))
    outcome = "then passed alone" if code == 0 else "not all of them passed alone"
    _say(f"== unsteady: {len(tests)} failed, {outcome}")
    for failure in failures:
        _say(f"{failure.test} failed at {failure.phase}, {outcome}\n{failure.log}\n")
    return code


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
